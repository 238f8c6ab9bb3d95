"""Ask a stranger's question in a child process (see `warehouse.isolation`).

DuckDB is hardened by `warehouse.query.connect`, but SQL is code: only a process that can be killed
bounds its memory and its time.
"""

import json
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from warehouse.isolation import ChildStopped, ChildTimedOut, Limits, run_in_child
from warehouse.query import read
from warehouse.query.connect import QueryFailed
from warehouse.query.read import Answer, NotAQuestion

SECONDS = 60.0
MEMORY = 4 * 1024**3
THREADS = 2  # as DuckDB is given: each may use CPU all the time
_KIND = "kind"


def ask(
    database: Path,
    sql: str,
    limit: int | None = None,
    seconds: float = SECONDS,
    memory_bytes: int = MEMORY,
) -> Answer:
    """Ask one question within `seconds` and `memory_bytes` of address space.

    At most `limit` rows come back. Decimals, times and nested values come back as they were;
    values of other types as their text. Raises `QueryFailed` where there is no answer, also when
    it took too long or too much, and `FileNotFoundError` where nothing has been published.
    """
    question = json.dumps({"database": str(database), "sql": sql, "limit": limit}).encode()
    limits = Limits(seconds=seconds, memory_bytes=memory_bytes, threads=THREADS)
    try:
        result = run_in_child("warehouse.query.child:answer", question, limits)
    except ChildTimedOut:
        raise QueryFailed(
            f"The question took longer than {seconds:g} seconds and was stopped. Nothing was "
            "changed. Ask for less, or open the file itself in DuckDB."
        ) from None
    except ChildStopped:
        raise QueryFailed(
            f"The question needed more than {memory_bytes // 1024**2} MiB, or brought DuckDB "
            "down; it ran in a process of its own, and nothing was changed. Ask for less at once."
        ) from None
    return _decode_answer(json.loads(result))


def _decode_answer(result: dict[str, Any]) -> Answer:
    if "missing" in result:
        raise FileNotFoundError(result["missing"])
    if "failed" in result:
        raise (NotAQuestion if result["is_bad"] else QueryFailed)(result["failed"])
    if "system" in result:
        raise OSError(*result["system"])
    rows = tuple(tuple(map(_from_json, row)) for row in result["rows"])
    return Answer(tuple(result["columns"]), rows, result["is_cut"])


def _from_json(value: Any) -> Any:
    """Return a value as DuckDB gave it: JSON keeps some kinds, the others say which they are."""
    if isinstance(value, list):
        return [_from_json(item) for item in value]
    if not isinstance(value, dict):
        return value
    kind, content = value[_KIND], value["value"]
    if kind == "decimal":
        return Decimal(content)
    if kind == "moment":
        return datetime.fromisoformat(content)
    return {key: _from_json(item) for key, item in content.items()}


def _to_json(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    # JSON keeps text, booleans, NULL and numbers; every other kind says what it is, so that the
    # formats show the same as when asked without a child.
    if isinstance(value, Decimal):
        return {_KIND: "decimal", "value": str(value)}
    if isinstance(value, datetime):
        return {_KIND: "moment", "value": value.isoformat()}
    if isinstance(value, list | tuple):
        return [_to_json(item) for item in value]
    if isinstance(value, dict):
        return {_KIND: "struct", "value": {str(key): _to_json(item) for key, item in value.items()}}
    return read.text(value)


def answer(request: bytes) -> bytes:
    """Answer a question in the child process."""
    return json.dumps(_answer(**json.loads(request))).encode()


def _answer(database: str, sql: str, limit: int | None) -> dict[str, Any]:
    try:
        answer = read.run(Path(database), sql, limit)
    except FileNotFoundError as error:
        return {"missing": str(error)}
    except QueryFailed as error:
        return {"failed": str(error), "is_bad": isinstance(error, NotAQuestion)}
    except OSError as error:
        return {"system": [error.errno, error.strerror, str(error.filename or "")]}
    rows = [[_to_json(value) for value in row] for row in answer.rows]
    return {"columns": answer.columns, "rows": rows, "is_cut": answer.is_cut}

"""Ask a stranger's question in a child process (see `warehouse.isolation`).

DuckDB is hardened by `warehouse.query.connect`, but SQL is code: only a process that can be killed
bounds its memory and its time.
"""

import importlib
import io
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from warehouse.isolation import ChildLimits, ChildStopped, ChildTimedOut, run_in_child
from warehouse.query import read
from warehouse.query.connect import QueryFailed
from warehouse.query.formats import Answer, distinct_names, text
from warehouse.query.read import NotAQuestion

# As many threads as DuckDB is given: each may use CPU all the time.
# A question about all nights keeps hundreds of files of the lake open at once.
LIMITS = ChildLimits(seconds=60, memory_bytes=4 * 1024**3, threads=2, open_files=4096)
_KIND = "kind"
# Arrow gives these as something else: numbers wrapped, times without their zone, bits as bytes.
_CHANGED = re.compile(r"\b(UHUGEINT|BIGNUM|VARINT|BIT|TIME WITH TIME ZONE)\b")
_AS_TEXT = "No file was written. Write that column as text: column::varchar."


@dataclass(frozen=True, slots=True)
class ParquetAnswer:
    """An answer as a Parquet file; `is_cut` says that there were more rows than asked."""

    content: bytes
    rows: int
    is_cut: bool


def ask(database: Path, sql: str, limit: int | None = None, limits: ChildLimits = LIMITS) -> Answer:
    """Ask one question within bounds of time and memory.

    At most `limit` rows come back. Decimals, times and nested values come back as they were;
    values of other types as their text. Raises `QueryFailed` where there is no answer, also when
    it took too long or too much, and `FileNotFoundError` where nothing has been published.
    """
    result = json.loads(_run("answer", database, sql, limit, limits))
    _raise_error(result)
    rows = tuple(tuple(map(_from_json, row)) for row in result["rows"])
    return Answer(tuple(result["columns"]), rows, result["is_cut"])


def ask_parquet(database: Path, sql: str, limit: int | None) -> ParquetAnswer:
    """Ask one question as `ask` does, for a file whose types are those of the answer.

    Raises `NotAQuestion` where Parquet has no type that holds a value as it is.
    """
    result = _run("parquet_answer", database, sql, limit, LIMITS)
    header, _, content = result.partition(b"\n")
    facts = json.loads(header)
    _raise_error(facts)
    return ParquetAnswer(content, facts["rows"], facts["is_cut"])


def _run(function: str, database: Path, sql: str, limit: int | None, limits: ChildLimits) -> bytes:
    question = json.dumps({"database": str(database), "sql": sql, "limit": limit}).encode()
    try:
        return run_in_child(f"warehouse.query.child:{function}", question, limits)
    except ChildTimedOut:
        raise QueryFailed(
            f"The question took longer than {limits.seconds:g} seconds and was stopped. Nothing "
            "was changed. Ask for less, or open the file itself in DuckDB."
        ) from None
    except ChildStopped:
        raise QueryFailed(
            f"The question needed more than {limits.memory_bytes // 1024**2} MiB, or brought "
            "DuckDB down; it ran in a process of its own, and nothing was changed. Ask for less at "
            "once."
        ) from None


def _raise_error(result: dict[str, Any]) -> None:
    """Raise what the child could not raise here."""
    if "missing" in result:
        raise FileNotFoundError(result["missing"])
    if "failed" in result:
        raise (NotAQuestion if result["is_bad"] else QueryFailed)(result["failed"])
    if "system" in result:
        raise OSError(*result["system"])


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
    return text(value)


def answer(request: bytes) -> bytes:
    """Answer a question in the child process."""
    return json.dumps(_attempt(_answer, json.loads(request))).encode()


def parquet_answer(request: bytes) -> bytes:
    """Answer a question in the child process: a line of JSON, then the Parquet file."""
    content = io.BytesIO()
    facts = _attempt(lambda **question: _write_parquet(content, **question), json.loads(request))
    return json.dumps(facts).encode() + b"\n" + content.getvalue()


def _attempt(work: Callable[..., dict[str, Any]], question: dict[str, Any]) -> dict[str, Any]:
    """Return what an answer says, or what hindered it."""
    try:
        return work(**question)
    except FileNotFoundError as error:
        return {"missing": str(error)}
    except QueryFailed as error:
        return {"failed": str(error), "is_bad": isinstance(error, NotAQuestion)}
    except OSError as error:
        return {"system": [error.errno, error.strerror, str(error.filename or "")]}


def _answer(database: str, sql: str, limit: int | None) -> dict[str, Any]:
    answer = read.run(Path(database), sql, limit)
    rows = [[_to_json(value) for value in row] for row in answer.rows]
    return {"columns": answer.columns, "rows": rows, "is_cut": answer.is_cut}


def _write_parquet(out: io.BytesIO, database: str, sql: str, limit: int | None) -> dict[str, Any]:
    """Write an answer as Parquet; raises `NotAQuestion` where a value would not be what it is."""
    # Only here: a question on the command line starts without Arrow.
    arrow = importlib.import_module("pyarrow")
    parquet = importlib.import_module("pyarrow.parquet")
    with read.asking(Path(database), sql) as connection:
        kinds = " ".join(str(column[1]) for column in connection.description or ())
        if kind := _CHANGED.search(kinds):
            raise NotAQuestion(f"Parquet cannot hold {kind[0]} as it is. {_AS_TEXT}")
        table: Any = connection.to_arrow_table()
    table = table.rename_columns(distinct_names(tuple(table.column_names)))
    first_rows = table if limit is None else table.slice(0, limit)
    try:
        # Whole numbers of 128 bits become decimals of 38 digits, which not all of them fit.
        first_rows.validate(full=True)
        parquet.write_table(first_rows, out, compression="zstd")
    except arrow.ArrowException as error:
        raise NotAQuestion(
            f"Parquet cannot hold the answer as it is: {error} {_AS_TEXT}"
        ) from error
    return {"rows": len(first_rows), "is_cut": len(first_rows) < len(table)}

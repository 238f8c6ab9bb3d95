"""Questions of strangers, asked in a process of their own that can be killed.

DuckDB is hardened by `warehouse.query.read`, but SQL is code: one `repeat()` outgrows its memory
limit and does not hear an interrupt. So the question runs in a fresh interpreter without
environment, which can write no file, has bounded memory and time, and is killed when its time is
over.
"""

import contextlib
import json
import resource
import signal
import subprocess
import sys
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from warehouse.query import read
from warehouse.query.read import Answer, NotAQuestion, QueryFailed

SECONDS = 60.0
MEMORY = 4 * 1024**3
OPEN_FILES = 64
THREADS = 2  # as warehouse.query.read gives DuckDB: each may use CPU all the time
_KIND = "kind"
_BY_LIMIT = (-signal.SIGXCPU, -signal.SIGALRM, -signal.SIGKILL)


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
    question = {
        "database": str(database),
        "sql": sql,
        "limit": limit,
        "seconds": seconds,
        "memory_bytes": memory_bytes,
    }
    command = [sys.executable, "-I", "-m", "warehouse.query.isolated"]
    with subprocess.Popen(
        command,
        env={},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as child:
        try:
            told, _ = child.communicate(json.dumps(question).encode(), timeout=seconds)
        except subprocess.TimeoutExpired:
            raise _too_long(seconds) from None
        finally:
            child.kill()
    if child.returncode in _BY_LIMIT:
        raise _too_long(seconds)
    if child.returncode != 0:
        raise QueryFailed(
            f"The question needed more than {memory_bytes // 1024**2} MiB, or brought DuckDB "
            "down; it ran in a process of its own, and nothing was changed. Ask for less at once."
        )
    return _read(json.loads(told))


def _too_long(seconds: float) -> QueryFailed:
    return QueryFailed(
        f"The question took longer than {seconds:g} seconds and was stopped. Nothing was changed. "
        "Ask for less, or open the file itself in DuckDB."
    )


def _read(told: dict[str, Any]) -> Answer:
    if "missing" in told:
        raise FileNotFoundError(told["missing"])
    if "failed" in told:
        raise (NotAQuestion if told["is_bad"] else QueryFailed)(told["failed"])
    if "system" in told:
        raise OSError(*told["system"])
    rows = tuple(tuple(map(_value, row)) for row in told["rows"])
    return Answer(tuple(told["columns"]), rows, told["is_cut"])


def _value(told: Any) -> Any:
    """A value as DuckDB gave it: JSON keeps some kinds, the others say which they are."""
    if isinstance(told, list):
        return [_value(value) for value in told]
    if not isinstance(told, dict):
        return told
    kind, held = told[_KIND], told["value"]
    if kind == "decimal":
        return Decimal(held)
    if kind == "moment":
        return datetime.fromisoformat(held)
    return {key: _value(value) for key, value in held.items()}


def _to_json(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Decimal):
        return {_KIND: "decimal", "value": str(value)}
    if isinstance(value, datetime):
        return {_KIND: "moment", "value": value.isoformat()}
    if isinstance(value, list | tuple):
        return [_to_json(value_) for value_ in value]
    if isinstance(value, dict):
        return {_KIND: "struct", "value": {str(key): _to_json(item) for key, item in value.items()}}
    return read.text(value)


def _limit_process(seconds: float, memory_bytes: int) -> None:
    """Bound this process: also where its parent is gone, it ends by itself."""
    cpu = int(seconds * THREADS) + 1
    for what, most in (
        (resource.RLIMIT_CPU, cpu),
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, OPEN_FILES),
        (resource.RLIMIT_CORE, 0),
    ):
        with contextlib.suppress(ValueError, OSError):  # not every system knows every limit
            resource.setrlimit(what, (most, most))
    signal.setitimer(signal.ITIMER_REAL, seconds + 1)


def _answer(question: dict[str, Any]) -> dict[str, Any]:
    try:
        answer = read.run(Path(question["database"]), question["sql"], question["limit"])
    except FileNotFoundError as error:
        return {"missing": str(error)}
    except QueryFailed as error:
        return {"failed": str(error), "is_bad": isinstance(error, NotAQuestion)}
    except OSError as error:
        return {"system": [error.errno, error.strerror, str(error.filename or "")]}
    rows = [[_to_json(value) for value in row] for row in answer.rows]
    return {"columns": answer.columns, "rows": rows, "is_cut": answer.is_cut}


def main() -> None:
    """Answer the one question on standard input; no environment, no way to write."""
    question = json.load(sys.stdin.buffer)
    _limit_process(question["seconds"], question["memory_bytes"])
    sys.stdout.buffer.write(json.dumps(_answer(question)).encode())


if __name__ == "__main__":
    main()

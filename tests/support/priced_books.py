"""Small books with reference files, as a publish would load them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import msgspec

from tests.support.books import Amount, Night, night, row, written
from warehouse.contract.ops import REQUESTS
from warehouse.database.publication import publish_version
from warehouse.database.reference_files import ReferenceTables
from warehouse.reference.child import FileRows, ReadRequest
from warehouse.reference.inbox import kept_rows, receive
from warehouse.reference.reader import read_in_child
from warehouse.storage.layout import Layout

NOW = datetime(2026, 11, 21, 3, tzinfo=UTC)
TITLES = "asset_id,is_custom_asset,quote,price_text,as_of,source"


def read_at(snapshot_id: str, amounts: Iterable[Amount], minute: int = 0) -> Night:
    """Return a night whose portfolios were read some minutes after its start."""
    plain = night(snapshot_id, amounts)
    moment = datetime.strptime(snapshot_id, "%Y%m%dT%H%M%S%z").replace(minute=15 + minute)
    request = row(
        REQUESTS,
        plain.day,
        snapshot_id=snapshot_id,
        operation="list_portfolios",
        purpose="book",
        sent_at=moment,
        received_at=moment,
    )
    return replace(plain, ops={**plain.ops, "requests": [request]})


def drop(home: Path, name: str, *lines: str) -> Path:
    """Write a file of prices, or of another table if the name has a folder."""
    path = home / "reference" / (name if "/" in name else f"prices/{name}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines if "/" in name else (TITLES, *lines)) + "\n")
    return path


def publish(
    home: Path,
    nights: Sequence[Night],
    version: str = "a",
    now: datetime = NOW,
    *,
    sources: Sequence[str] = (),
    max_age: int | None = None,
    currency: str | None = None,
    cross_rate: tuple[str, str, str] | None = None,
    about: Mapping[str, Any] | None = None,
) -> Layout:
    """Receive the reference files, and publish the nights with them.

    `about` are values of each snapshot.
    """
    layout, root = Layout(home), home / "reference"
    with patch("warehouse.reference.inbox.read_file", _read_here):
        inbox = receive(root, now)
    reference = ReferenceTables(
        files=inbox.file_rows(),
        rejects=inbox.reject_rows(),
        paths={
            (file.table, file.sha256): kept_rows(root, file.table, file.sha256)
            for file in inbox.received
            if file.rows
        },
        sources=sources,
        max_age_days=max_age,
        currency=currency,
        cross_rate=cross_rate,
    )
    contents = replace(written(layout, nights), reference=reference)
    snapshots = tuple({**each, **(about or {})} for each in contents.snapshots)
    contents = replace(contents, snapshots=snapshots)
    publish_version(layout, contents, version=version, built_at=now, program_version="0.0.0")
    return layout


def _read_here(request: ReadRequest) -> FileRows:
    """Read a file in this process, because a child process takes half of a publish."""
    reply = read_in_child(msgspec.msgpack.encode(request))
    return msgspec.msgpack.decode(reply, type=FileRows)


def ask(layout: Layout, query: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query of the published file."""
    with duckdb.connect(str(layout.database), read_only=True) as connection:
        connection.execute("set TimeZone = 'America/New_York'")
        return connection.execute(query).fetchall()


def prices(layout: Layout, day: str = "9999-12-31", quote: str = "USD") -> Mapping[str, Any]:
    """Return the price of each asset if it is priced, or else its state."""
    query = (
        "select asset_id || case when is_custom_asset then '*' else '' end, "
        "case when price_state = 'priced' then price_text else price_state end "
        f"from prices_as_of('{day}', '{quote}')"
    )
    return dict(ask(layout, query))

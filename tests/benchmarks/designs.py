"""The designs that are compared: each takes a body to Parquet or DuckDB, one row per amount.

`python -m tests.benchmarks.designs NAME BODY FOLDER` runs one and prints its sums' digest and the
CPU seconds of its work. The peers need the packages of `peers.txt`.
"""

import hashlib
import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

Rows = Iterator[dict[str, Any]]
STAMP = datetime(2026, 11, 20, 2, 15, tzinfo=UTC)


def cpu() -> float:
    """CPU seconds of this process and its children so far."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def ours(body: Path, folder: Path) -> Callable[[], Path]:
    """The whole of nightbook after landing: flatten, judge, publish, all checks and totals."""
    night = importlib.import_module("pipelines.night")
    landing = importlib.import_module("pipelines.landing")
    publishing = importlib.import_module("assets.publishing")
    resources = importlib.import_module("assets.resources")
    layout = importlib.import_module("warehouse.layout").Layout(folder)
    pulling = landing.Pulling(layout, STAMP, ZoneInfo("UTC"))
    empty = b'{"data":[],"meta":{}}'
    answers = [
        _landed(landing, pulling, 1, "list_portfolios", body.read_bytes()),
        _landed(landing, pulling, 2, "list_venues", empty),
    ]
    pulling.finish(STAMP, tuple(answers), origin="", program_version="bench", clock_skew_ms=None)
    folder_of = pulling.folder
    variables = {"NIGHTBOOK_HOME": str(folder)}
    nightbook = resources.Nightbook(lambda: variables, lambda: STAMP)

    def work() -> Path:
        night.finish(layout, folder_of, STAMP)
        publishing.refresh(nightbook)
        database: Path = layout.database
        return database

    return work


def _landed(landing: Any, pulling: Any, number: int, operation: str, body: bytes) -> Any:
    file = pulling.land(f"{number:04}", body)
    digest = hashlib.sha256(body).hexdigest()
    stamp = STAMP.isoformat()
    return landing.Answer(
        number, operation, None, "", "", 200, 1, stamp, stamp, len(body), digest, file, None
    )


def _flat(body: Path) -> Rows:
    for portfolio in json.loads(body.read_bytes())["data"]:
        for position in portfolio["positions"]:
            for account in position["accounts"]:
                for bucket, parts in account["balance"].items():
                    for state, text in parts.items():
                        yield {
                            "portfolio_id": portfolio["id"],
                            "asset_id": position["assetId"],
                            "is_custom_asset": position["isCustomAsset"],
                            "venue_id": account["venueId"],
                            "account_name": account["name"],
                            "bucket": bucket,
                            "state": state,
                            "amount_text": text,
                        }


def _to_duckdb(folder: Path, table: Any) -> Path:
    duckdb = importlib.import_module("duckdb")
    importlib.import_module("pyarrow.parquet").write_table(
        table, folder / "balances.parquet", compression="zstd"
    )
    path = folder / "peer.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.register("rows", table)
        connection.execute(
            "create table balances as "
            "select *, try_cast(amount_text as decimal(38,18)) as amount from rows"
        )
    return path


def json_loops(body: Path, folder: Path) -> Callable[[], Path]:
    """The script that most people write: json, loops, row dicts, Arrow, DuckDB."""
    arrow = importlib.import_module("pyarrow")
    importlib.import_module("duckdb")
    return lambda: _to_duckdb(folder, arrow.Table.from_pylist(list(_flat(body))))


def pandas_normalize(body: Path, folder: Path) -> Callable[[], Path]:
    """`pandas.json_normalize` down to the accounts, then melted to one row per amount."""
    pandas = importlib.import_module("pandas")
    arrow = importlib.import_module("pyarrow")
    importlib.import_module("duckdb")

    def work() -> Path:
        data = json.loads(body.read_bytes())["data"]
        flat = pandas.json_normalize(
            data,
            ["positions", "accounts"],
            ["id", ["positions", "assetId"], ["positions", "isCustomAsset"]],
            errors="ignore",
        )
        flat = flat.melt(
            ["id", "positions.assetId", "positions.isCustomAsset", "venueId", "name"],
            value_name="amount_text",
        ).dropna(subset=["amount_text"])
        parts = flat.pop("variable").str.split(".", expand=True)
        flat = flat.assign(bucket=parts[1], state=parts[2])
        flat = flat.rename(columns={"positions.assetId": "asset_id"})
        return _to_duckdb(folder, arrow.Table.from_pandas(flat, preserve_index=False))

    return work


def polars_unnest(body: Path, folder: Path) -> Callable[[], Path]:
    """polars: read_json, explode, unnest, unpivot."""
    polars = importlib.import_module("polars")
    importlib.import_module("duckdb")

    def work() -> Path:
        rows = polars.read_json(body).select(polars.col("data").explode()).unnest("data")
        rows = rows.select(polars.col("id").alias("portfolio_id"), "positions").explode("positions")
        rows = rows.unnest("positions").rename({"assetId": "asset_id"}).explode("accounts")
        rows = rows.unnest("accounts").unnest("balance")
        known = [name for name in ("trading", "custody", "margin", "staking") if name in rows]
        frames = []
        for bucket in known:
            for field in rows.schema[bucket].fields:
                text = polars.col(bucket).struct.field(field.name).alias("amount_text")
                keys = ("portfolio_id", "asset_id", "isCustomAsset", "venueId", "name")
                marks = (
                    polars.lit(bucket).alias("bucket"),
                    polars.lit(field.name).alias("state"),
                )
                frames.append(rows.select(*keys, *marks, text).drop_nulls("amount_text"))
        return _to_duckdb(folder, polars.concat(frames).to_arrow())

    return work


def dlt_default(body: Path, folder: Path) -> Callable[[], Path]:
    """As the first page of dlt page shows it: nested records in, child tables out."""
    dlt = importlib.import_module("dlt")

    def work() -> Path:
        data = json.loads(body.read_bytes())["data"]
        path = folder / "peer.duckdb"
        pipeline = dlt.pipeline(
            "bench",
            pipelines_dir=str(folder / "dlt"),
            destination=dlt.destinations.duckdb(str(path)),
            dataset_name="main",
        )
        pipeline.run(data, table_name="portfolios")
        return path

    return work


def dlt_best(body: Path, folder: Path) -> Callable[[], Path]:
    """Flat rows into dlt, in large pages, with the Parquet loader."""
    dlt = importlib.import_module("dlt")
    os.environ["NORMALIZE__WORKERS"] = "2"
    os.environ["DATA_WRITER__BUFFER_MAX_ITEMS"] = "100000"

    def work() -> Path:
        path = folder / "peer.duckdb"
        pipeline = dlt.pipeline(
            "bench",
            pipelines_dir=str(folder / "dlt"),
            destination=dlt.destinations.duckdb(str(path)),
            dataset_name="main",
        )
        pipeline.run(_pages(body), table_name="balances", loader_file_format="parquet")
        return path

    return work


def _pages(body: Path) -> Iterator[list[dict[str, Any]]]:
    page: list[dict[str, Any]] = []
    for row in _flat(body):
        page.append(row)
        if len(page) == 50_000:
            yield page
            page = []
    yield page


DESIGNS: dict[str, Callable[[Path, Path], Callable[[], Path]]] = {
    "nightbook": ours,
    "json and loops": json_loops,
    "polars": polars_unnest,
    "pandas.json_normalize": pandas_normalize,
    "dlt, flat rows, best settings": dlt_best,
    "dlt, default": dlt_default,
}


def main(name: str, body: str, folder: str) -> None:
    """Run one design and print what it cost."""
    work = DESIGNS[name](Path(body), Path(folder))
    start, begun = cpu(), time.monotonic()
    database = work()
    print(f"database {database}")
    print(f"wall {time.monotonic() - begun:.3f}")
    print(f"cpu {cpu() - start:.3f}")


if __name__ == "__main__":
    main(*sys.argv[1:])

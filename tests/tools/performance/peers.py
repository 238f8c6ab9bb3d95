"""The peers: designs that a user would write with existing tools for the same job as ours.

The job: write the portfolios, positions, accounts (including those without an amount) and amounts
of a body, one row each, as Parquet (zstd) and as tables of a DuckDB file. Write each amount as the
received text and as the same value in DECIMAL(38,18). None of the tools has a cast that refuses to
round, so they use ours. Each design uses the fastest way that we found for its tool.
"""

import importlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Row = dict[str, Any]
Work = Callable[[], Path]
ABOVE = ["portfolio_id", "asset_id", "is_custom_asset"]
KEYS = [*ABOVE, "venue_id", "account_name"]
CASTS = ("pipelines.records.amounts", "pipelines.records.timestamps")
BUCKETS = ("trading", "custody", "margin", "staking")


def loaded(folder: Path, tables: dict[str, Any]) -> Path:
    """Write Arrow tables as Parquet and into DuckDB, with the exact decimals next to the texts."""
    duckdb = importlib.import_module("duckdb")
    amounts = importlib.import_module("pipelines.records.amounts")
    write = importlib.import_module("pyarrow.parquet").write_table
    path = folder / "peer.duckdb"
    with duckdb.connect(str(path), config={"threads": "2"}) as connection:
        for name, rows in tables.items():
            if name == "balances":
                texts = rows["amount_text"].combine_chunks().cast("string")
                rows = rows.append_column("amount", amounts.column(texts)[0])  # noqa: PLW2901 - the same rows, one column more
            write(rows, folder / f"{name}.parquet", compression="zstd", compression_level=1)
            connection.register("given", rows)
            connection.execute(f"create table {name} as select * from given")
            connection.unregister("given")
    return path


def ready() -> None:
    """Import the modules that `loaded` needs, so that no design pays for imports."""
    for name in ("duckdb", "pandas", "pyarrow.parquet", "numpy", *CASTS):
        importlib.import_module(name)


def flat_portfolios(data: list[Row]) -> Iterator[Row]:
    """Yield a row for each portfolio."""
    for one in data:
        yield {
            "portfolio_id": one["id"],
            "name": one["name"],
            "created_at": one["createdAt"],
            "updated_at": one["updatedAt"],
        }


def _positions(data: list[Row]) -> Iterator[tuple[Row, Row]]:
    for portfolio in data:
        for position in portfolio["positions"]:
            yield (
                position,
                {
                    "portfolio_id": portfolio["id"],
                    "asset_id": position["assetId"],
                    "is_custom_asset": position["isCustomAsset"],
                },
            )


def flat_positions(data: list[Row]) -> Iterator[Row]:
    """Return an iterator with a row for each position."""
    return (above for _, above in _positions(data))


def flat_accounts(data: list[Row]) -> Iterator[Row]:
    """Yield a row for each account."""
    for position, above in _positions(data):
        for account in position["accounts"]:
            yield above | {"venue_id": account["venueId"], "account_name": account["name"]}


def flat_balances(data: list[Row]) -> Iterator[Row]:
    """Yield a row for each amount."""
    for position, above in _positions(data):
        for account in position["accounts"]:
            for bucket, parts in account["balance"].items():
                for state, text in parts.items():
                    yield {
                        **above,
                        "venue_id": account["venueId"],
                        "account_name": account["name"],
                        "bucket": bucket,
                        "state": state,
                        "amount_text": text,
                    }


FLAT = {
    "portfolios": flat_portfolios,
    "positions": flat_positions,
    "accounts": flat_accounts,
    "balances": flat_balances,
}


def json_loops(body: Path, folder: Path) -> Work:
    """Prepare the script that most people write: json, loops, row dicts, Arrow, DuckDB."""
    ready()
    arrow = importlib.import_module("pyarrow")

    def work() -> Path:
        data = json.loads(body.read_bytes())["data"]
        return loaded(
            folder,
            {name: arrow.Table.from_pylist(list(flat(data))) for name, flat in FLAT.items()},
        )

    return work


def pandas_normalize(body: Path, folder: Path) -> Work:
    """Prepare `pandas.json_normalize` for each table. Amounts are melted to one row each."""
    ready()
    pandas = importlib.import_module("pandas")
    arrow = importlib.import_module("pyarrow")
    names = {
        "id": "portfolio_id",
        "positions.assetId": "asset_id",
        "positions.isCustomAsset": "is_custom_asset",
        "assetId": "asset_id",
        "isCustomAsset": "is_custom_asset",
        "venueId": "venue_id",
    }

    def work() -> Path:
        data = json.loads(body.read_bytes())["data"]
        tops = pandas.DataFrame(data)[["id", "name", "createdAt", "updatedAt"]]
        positions = pandas.json_normalize(data, ["positions"], ["id"])
        meta = ["id", ["positions", "assetId"], ["positions", "isCustomAsset"]]
        wide = pandas.json_normalize(data, ["positions", "accounts"], meta)
        wide = wide.rename(columns=names | {"name": "account_name"})
        flat = wide.melt(KEYS, value_name="amount_text").dropna(subset=["amount_text"])
        parts = flat.pop("variable").str.split(".", expand=True)
        frames = {
            "portfolios": tops.rename(columns=names),
            "positions": positions.drop(columns="accounts").rename(columns=names),
            "accounts": wide[KEYS],
            "balances": flat.assign(bucket=parts[1], state=parts[2]),
        }
        tables = {
            name: arrow.Table.from_pandas(frame, preserve_index=False)
            for name, frame in frames.items()
        }
        return loaded(folder, tables)

    return work


def polars_schema(body: Path, folder: Path) -> Work:
    """Prepare polars as below, but with the schema given, which saves a third of its time."""
    polars = importlib.import_module("polars")
    text, struct, several = polars.String, polars.Struct, polars.List
    parts = struct({"free": text, "locked": text}), struct({"locked": text})
    balance = dict(zip(BUCKETS, (*(parts[0],) * 2, *(parts[1],) * 2), strict=True))
    account = struct({"venueId": text, "name": text, "balance": struct(balance)})
    position = {"assetId": text, "isCustomAsset": polars.Boolean, "accounts": several(account)}
    names = dict.fromkeys(("id", "name", "createdAt", "updatedAt"), text)
    record = struct(names | {"positions": several(struct(position))})
    return polars_unnest(body, folder, {"data": several(record)})


def polars_unnest(body: Path, folder: Path, schema: dict[str, Any] | None = None) -> Work:
    """Prepare polars: read_json, explode, unnest, and a frame for each amount field."""
    ready()
    polars = importlib.import_module("polars")

    def work() -> Path:
        whole = polars.read_json(body, schema=schema)
        tops = whole.select(polars.col("data").explode()).unnest("data")
        rows = tops.select(polars.col("id").alias("portfolio_id"), "positions").explode("positions")
        rows = rows.unnest("positions").rename(
            {"assetId": "asset_id", "isCustomAsset": "is_custom_asset"}
        )
        accounts = rows.explode("accounts").unnest("accounts")
        accounts = accounts.rename({"venueId": "venue_id", "name": "account_name"})
        frames = {
            "portfolios": tops.select("id", "name", "createdAt", "updatedAt"),
            "positions": rows.select(ABOVE),
            "accounts": accounts.select(KEYS),
            "balances": _long(polars, accounts.unnest("balance")),
        }
        return loaded(folder, {name: frame.to_arrow() for name, frame in frames.items()})

    return work


def _long(polars: Any, rows: Any) -> Any:
    frames = []
    for bucket in (name for name in BUCKETS if name in rows.columns):
        for field in rows.schema[bucket].fields:
            marks = (polars.lit(bucket).alias("bucket"), polars.lit(field.name).alias("state"))
            text = polars.col(bucket).struct.field(field.name).alias("amount_text")
            frames.append(rows.select(*KEYS, *marks, text).drop_nulls("amount_text"))
    return polars.concat(frames)


def pipeline_in(folder: Path) -> tuple[Any, Path]:
    """Return a dlt pipeline into a DuckDB file in this folder, and the file."""
    path = folder / "peer.duckdb"
    dlt = importlib.import_module("dlt")
    pipeline = dlt.pipeline(
        "bench",
        pipelines_dir=str(folder / "dlt"),
        destination=dlt.destinations.duckdb(str(path)),
        dataset_name="main",
    )
    return pipeline, path


def dlt_default(body: Path, folder: Path) -> Work:
    """Prepare dlt as its first page shows it: nested records in, child tables of text out.

    dlt keeps an account's amounts in one row, and writes no Parquet. The SQL for both is measured
    too.
    """
    importlib.import_module("dlt")
    duckdb = importlib.import_module("duckdb")

    def work() -> Path:
        data = json.loads(body.read_bytes())["data"]
        pipeline, path = pipeline_in(folder)
        pipeline.run(data, table_name="portfolios")
        with duckdb.connect(str(path), config={"threads": "2"}) as connection:
            connection.execute(f"create table balances as {_ONE_EACH}")
            for name, table in DLT_TABLES.items():
                connection.execute(
                    f"copy {table} to '{folder}/{name}.parquet' "
                    "(format parquet, compression zstd, compression_level 1)"
                )
        return path

    return work


DLT_TABLES = {
    "portfolios": "portfolios",
    "positions": "portfolios__positions",
    "accounts": "portfolios__positions__accounts",
    "balances": "balances",
}
"""The names that dlt gives to tables of nested records, and the table that is made from them."""
_ONE_EACH = " union all ".join(
    "select o.id as portfolio_id, p.asset_id, p.is_custom_asset, a.venue_id, "
    f"a.name as account_name, '{bucket}' as bucket, '{state}' as state, "
    f"a.balance__{bucket}__{state} as amount_text "
    "from portfolios__positions__accounts a "
    "join portfolios__positions p on a._dlt_parent_id = p._dlt_id "
    "join portfolios o on p._dlt_parent_id = o._dlt_id "
    f"where a.balance__{bucket}__{state} is not null"
    for bucket, state in (
        ("trading", "free"),
        ("trading", "locked"),
        ("custody", "free"),
        ("custody", "locked"),
        ("margin", "locked"),
        ("staking", "locked"),
    )
)


def dlt_best(body: Path, folder: Path) -> Work:
    """Prepare dlt with flat rows, in large pages, with the Parquet loader.

    Amounts stay text, so this design has less to do than the others.
    """
    dlt = importlib.import_module("dlt")
    os.environ["NORMALIZE__WORKERS"] = "2"
    os.environ["DATA_WRITER__BUFFER_MAX_ITEMS"] = "100000"

    def work() -> Path:
        data = json.loads(body.read_bytes())["data"]
        pipeline, path = pipeline_in(folder)
        tables = [dlt.resource(_pages(flat(data)), name=name) for name, flat in FLAT.items()]
        pipeline.run(tables, loader_file_format="parquet")
        return path

    return work


def _pages(rows: Iterator[Row]) -> Iterator[list[Row]]:
    page: list[Row] = []
    for row in rows:
        page.append(row)
        if len(page) == 50_000:
            yield page
            page = []
    yield page


PEERS: dict[str, Callable[[Path, Path], Work]] = {
    "json and loops": json_loops,
    "polars": polars_unnest,
    "polars, schema given": polars_schema,
    "pandas.json_normalize": pandas_normalize,
    "dlt, flat rows, best settings": dlt_best,
    "dlt, default": dlt_default,
}

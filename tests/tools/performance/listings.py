"""The peers on instruments: 80 bodies, one row each, with DECIMAL(38,18) and timestamps."""

import importlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.tools.performance.bodies import CONSTRAINTS
from tests.tools.performance.peers import Row, Work, pipeline_in, ready

FIELDS = {
    "id": "instrument_id",
    "type": "type",
    "displayName": "display_name",
    "feedId": "feed_id",
    "venueSymbol": "venue_symbol",
    "baseAsset": "base_asset",
    "termAsset": "term_asset",
    "expiration": "expiration",
    "createdAt": "created_at",
    "updatedAt": "updated_at",
}

TIMES = ("expiration", "created_at", "updated_at")


def _loaded(folder: Path, rows: Any) -> Path:
    duckdb = importlib.import_module("duckdb")
    amounts = importlib.import_module("pipelines.records.amounts")
    times = importlib.import_module("pipelines.records.timestamps")
    write = importlib.import_module("pyarrow.parquet").write_table
    readers = dict.fromkeys(CONSTRAINTS.values(), amounts) | dict.fromkeys(TIMES, times)
    for name, reader in readers.items():
        texts = rows[name].combine_chunks().cast("string")
        place = rows.column_names.index(name)
        rows = rows.set_column(place, name, reader.column(texts)[0])
    write(rows, folder / "instruments.parquet", compression="zstd", compression_level=1)
    path = folder / "peer.duckdb"
    # Use one thread, like ours. For so few rows, two threads need a fifth more CPU.
    with duckdb.connect(str(path), config={"threads": "1"}) as connection:
        connection.register("given", rows)
        connection.execute("create table instruments as select * from given")
    return path


def _flat(folder: Path) -> Iterator[Row]:
    for file in sorted(folder.iterdir()):
        venue = file.name.split(".")[0]
        for record in json.loads(file.read_bytes())["data"]:
            row = {"venue_id": venue} | {new: record.get(old) for old, new in FIELDS.items()}
            constraints = record.get("tradingConstraints", {})
            yield row | {new: constraints.get(old) for old, new in CONSTRAINTS.items()}


def json_loops(body: Path, folder: Path) -> Work:
    """Prepare json, loops, row dicts, Arrow and DuckDB."""
    ready()
    arrow = importlib.import_module("pyarrow")
    return lambda: _loaded(folder, arrow.Table.from_pylist(list(_flat(body))))


def pandas_normalize(body: Path, folder: Path) -> Work:
    """Prepare `pandas.json_normalize` of all records at once."""
    ready()
    pandas = importlib.import_module("pandas")
    arrow = importlib.import_module("pyarrow")
    names = FIELDS | {f"tradingConstraints.{old}": new for old, new in CONSTRAINTS.items()}

    def work() -> Path:
        records = [
            record | {"venue_id": file.name.split(".")[0]}
            for file in sorted(body.iterdir())
            for record in json.loads(file.read_bytes())["data"]
        ]
        rows = pandas.json_normalize(records).rename(columns=names)
        return _loaded(folder, arrow.Table.from_pandas(rows, preserve_index=False))

    return work


def polars_unnest(body: Path, folder: Path) -> Work:
    """Prepare polars: read_json of each body, unnest, and concatenate."""
    ready()
    polars = importlib.import_module("polars")

    def work() -> Path:
        frames = []
        for file in sorted(body.iterdir()):
            rows = polars.read_json(file).select(polars.col("data").explode()).unnest("data")
            rows = rows.unnest("tradingConstraints").rename(FIELDS | CONSTRAINTS, strict=False)
            frames.append(rows.with_columns(venue_id=polars.lit(file.name.split(".")[0])))
        return _loaded(folder, polars.concat(frames, how="diagonal").to_arrow())

    return work


def dlt_best(body: Path, folder: Path) -> Work:
    """Prepare dlt with flat rows in one list and the Parquet loader. Amounts stay text."""
    dlt = importlib.import_module("dlt")
    os.environ["NORMALIZE__WORKERS"] = "2"
    os.environ["DATA_WRITER__BUFFER_MAX_ITEMS"] = "100000"

    def work() -> Path:
        pipeline, path = pipeline_in(folder)
        rows = dlt.resource(list(_flat(body)), name="instruments")
        pipeline.run(rows, loader_file_format="parquet")
        return path

    return work


LISTINGS: dict[str, Callable[[Path, Path], Work]] = {
    "json and loops": json_loops,
    "polars": polars_unnest,
    "pandas.json_normalize": pandas_normalize,
    "dlt, flat rows, best settings": dlt_best,
}

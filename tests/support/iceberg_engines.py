"""Other engines that read our Iceberg tables: their scripts, and functions that run them."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support import environments
from tests.support.postgres import Postgres

# From Debian: a tool that renames Java packages, and the JDBC driver of PostgreSQL.
JARJAR = Path("/usr/share/java/jarjar.jar")
DRIVER = Path("/usr/share/java/postgresql.jar")
# The packaged Iceberg runtime needs Jackson under this name. Spark's Jackson is the same code.
RULE = "rule com.fasterxml.jackson.** org.apache.iceberg.shaded.com.fasterxml.jackson.@1\n"

DUCKDB = """
import glob, json, sys, duckdb
place, tables, queries = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
connection = duckdb.connect()
for name in ("avro", "iceberg"):
    [path] = glob.glob(f"{place}/duckdb_extension_{name}/extensions/*/*.duckdb_extension")
    connection.execute(f"load '{path}'")
for name, location in tables.items():
    connection.execute(f"create view {name} as from iceberg_scan('{location}')")
print(json.dumps({
    name: [[str(value) for value in row] for row in connection.execute(query).fetchall()]
    for name, query in queries.items()}))
"""

POLARS = """
import json, sys, polars, pyiceberg.table
table = pyiceberg.table.StaticTable.from_metadata(sys.argv[1])
print(json.dumps({
    night: str(polars.scan_iceberg(table, snapshot_id=number)
        .filter(polars.col("snapshot_id") == night)
        .select(polars.col("amount").sum()).collect().item())
    for night, number in json.loads(sys.argv[2]).items()}))
"""

SPARK = """
import json, sys
from pyspark.sql import SparkSession
settings, queries = json.loads(sys.argv[1]), json.loads(sys.argv[2])
builder = SparkSession.builder.master("local[1]")
for name, value in settings.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("OFF")
answers = {}
for name, query in queries.items():
    try:
        answers[name] = [[str(value) for value in row] for row in spark.sql(query).collect()]
    except Exception as error:
        answers[name] = [[str(error)]]
print("answers: " + json.dumps(answers))
"""

Answers = dict[str, list[list[str]]]


def duckdb(tables: Mapping[str, str], queries: Mapping[str, str]) -> Answers:
    """Run queries in DuckDB, which reads tables by their metadata paths, without the catalog."""
    place = str(environments.packages("duckdb-iceberg"))
    command = [str(environments.python("duckdb-iceberg")), "-c", DUCKDB, place]
    return dict(json.loads(_output([*command, json.dumps(tables), json.dumps(queries)])))


def polars(location: str, nights: Mapping[str, int]) -> dict[str, str]:
    """Return the sum of each night's amounts, which polars reads at the night's snapshot."""
    places = [str(environments.packages(name)) for name in ("engines", "iceberg")]
    more = {"PYTHONPATH": os.pathsep.join(places), "POLARS_ICEBERG_PLANNER": "pyiceberg"}
    return dict(
        json.loads(_output([sys.executable, "-c", POLARS, location, json.dumps(nights)], more))
    )


def spark(server: Postgres, warehouse: str, place: Path, queries: Mapping[str, str]) -> Answers:
    """Run queries in Spark, which reads PostgreSQL's catalog as the JDBC catalog `nightbook`."""
    python = environments.python("spark-iceberg")
    if shutil.which("java") is None or not (JARJAR.is_file() and DRIVER.is_file()):
        pytest.skip("Spark needs Java, libjarjar-java and libpostgresql-jdbc-java")
    packages = environments.packages("spark-iceberg")
    runtime = next(packages.glob("snowpark_*/jars/iceberg-spark-runtime-3.5_2.12-*.jar"))
    jars = [runtime, DRIVER, *_renamed_jackson(packages / "pyspark" / "jars", place)]
    catalog = "spark.sql.catalog.nightbook"
    settings = {
        "spark.jars": ",".join(map(str, jars)),
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.type": "jdbc",
        f"{catalog}.uri": f"jdbc:postgresql://127.0.0.1:{server.port}/dagster",
        f"{catalog}.jdbc.user": "dagster",
        f"{catalog}.jdbc.password": server.password,
        f"{catalog}.jdbc.schema-version": "V1",
        f"{catalog}.warehouse": warehouse,
    }
    command = [str(python), "-c", SPARK, json.dumps(settings), json.dumps(queries)]
    output = _output(command, {"PYSPARK_PYTHON": str(python), "HOME": str(place)})
    [answers] = [line for line in output.splitlines() if line.startswith("answers: ")]
    return dict(json.loads(answers.removeprefix("answers: ")))


def path_of(uri: str) -> Path:
    """Return the path of a `file://` address."""
    return Path(uri.removeprefix("file://"))


def _renamed_jackson(jars: Path, place: Path) -> list[Path]:
    """Return Spark's Jackson JARs, renamed to the packages that the Iceberg runtime needs."""
    (place / "rules").write_text(RULE, encoding="utf-8")
    renamed = []
    for part in ("annotations", "core", "databind"):
        [source] = jars.glob(f"jackson-{part}-2.*.jar")
        plain, out = place / f"plain-{source.name}", place / f"renamed-{source.name}"
        with zipfile.ZipFile(source) as old, zipfile.ZipFile(plain, "w") as new:
            for entry in old.infolist():
                if not entry.filename.startswith("META-INF/versions"):  # classes for Java 9 only
                    new.writestr(entry, old.read(entry))
        command = [
            "java",
            "-jar",
            str(JARJAR),
            "process",
            str(place / "rules"),
            str(plain),
            str(out),
        ]
        subprocess.run(command, check=True, capture_output=True)
        renamed.append(out)
    return renamed


def _output(command: list[str], more: Mapping[str, Any] | None = None) -> str:
    answer = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **(more or {})}
    )
    assert answer.returncode == 0, answer.stderr[-3000:]
    return answer.stdout

"""Holdings of a night by portfolio, by venue and by asset, added up exactly from its files.

The rows are those of the views of the same names in the warehouse. They are stored in the lake, so
that other engines, whose sums overflow, do not have to add up.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from warehouse.contract.lake import HOLDINGS
from warehouse.sql.catalog import views
from warehouse.sql.files import open_files
from warehouse.storage.parquet import WrittenFile, conform, write


def write_holdings(
    files: Mapping[str, Path], path_of: Callable[[str], Path], snapshot_id: str
) -> dict[str, WrittenFile]:
    """Write the tables of holdings to the paths that `path_of` returns, in the order of their keys.

    `files` are the Parquet files of the night's other tables, by table.
    """
    sql_of = {view.name: view.sql for view in views()}
    written = {}
    with open_files(files) as connection:
        for table in HOLDINGS:
            query = f"{sql_of[table.name]} order by {', '.join(table.key)}"
            rows = connection.sql(query).to_arrow_table()
            columns = {name: rows[name] for name in table.names}
            batch = conform(table, columns, len(rows))
            written[table.name] = write(table, [batch], path_of(table.name), snapshot_id)
    return written

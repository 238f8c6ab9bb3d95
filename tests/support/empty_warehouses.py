"""Empty warehouses for tests. Building one takes half a second, so tests copy the first one.

`tests/warehouse/database/test_publication.py` checks that a warehouse that starts as a copy is
equal to any other. Books are copied in the same way (see `published_once`).
"""

import contextlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from duckdb import DuckDBPyConnection
from filelock import FileLock

from tests.support import books
from tests.support.shared import shared_folder
from warehouse.database import ddl, load
from warehouse.storage.layout import Layout

Make = Callable[[Layout, Path, str], DuckDBPyConnection]
make_empty: Make = load.create_empty


@pytest.fixture(scope="session", autouse=True)
def copied_when_empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Make each publish without a previous version start from a copy of an empty warehouse."""
    folder = shared_folder(tmp_path_factory) / "shared-empty"
    folder.mkdir(exist_ok=True)

    def copying(make: Make, version: Callable[[], str]) -> Make:
        def copy(layout: Layout, file: Path, memory: str) -> DuckDBPyConnection:
            template = folder / version()  # because a test may change the schema
            with FileLock(template.with_name(f"{template.name}.lock")):
                if not template.exists():
                    draft = template.with_name(f"{template.name}.draft")
                    with contextlib.closing(make(layout, draft, memory)) as connection:
                        load.complete(connection)
                    draft.rename(template)
            load.remove_copy(file)
            shutil.copyfile(template, file)
            return load.connect(layout, file, memory)

        return copy

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(load, "create_empty", copying(make_empty, ddl.schema_version))
        copies = shared_folder(tmp_path_factory) / "shared-books"
        copies.mkdir(exist_ok=True)
        patched.setattr(books, "copies", copies)
        yield

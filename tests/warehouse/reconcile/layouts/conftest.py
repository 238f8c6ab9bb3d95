"""Fixtures for a reconciliation folder over the book that all samples are based on."""

from pathlib import Path

import pytest

from tests.support.ledger_samples import BOOK
from tests.support.pasted_answers import AnswerFolder
from tests.support.reconciliation_home import Desk


@pytest.fixture(scope="package")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Publish one book for all cases, and return the path of its database."""
    desk = Desk(tmp_path_factory.mktemp("home"))
    desk.publish(BOOK)
    return desk.layout.database


@pytest.fixture
def folder(database: Path, tmp_path: Path) -> AnswerFolder:
    """Return an empty reconciliation folder over that book."""
    return AnswerFolder(database, tmp_path)

"""Tests of dry runs, which report all changes of a command exactly, but do not write."""

import hashlib
import json
import shutil
from collections import defaultdict
from collections.abc import Callable
from decimal import Decimal, getcontext
from pathlib import Path

import pytest

from tests.support.operator import Watched
from tests.support.operator_home import SECOND, THIRD, Keeper
from warehouse.contract.book import BOOK

getcontext().prec = 1000
Make = Callable[..., Watched]
# Keys: the date, the kind of figure, its name, and whether the name is a custom asset.
Figures = dict[tuple[str, str, str, bool | None], str]


def _digest(home: Path) -> str:
    """Return a digest of the name, mode, time and content of every file in a home."""
    digest = hashlib.sha256()
    for path in sorted(home.rglob("*")) if home.exists() else ():
        facts = path.lstat()
        digest.update(f"{path} {facts.st_mode} {facts.st_mtime_ns} {facts.st_size}".encode())
        if path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _figures(keeper: Keeper) -> Figures:
    """Return the published rows by table and totals by asset for each date, summed in Python."""
    figures: Figures = {}
    if not keeper.layout.database.exists():
        return figures
    for table in BOOK:
        sql = f"select snapshot_date::varchar, count(*) from history.{table.name} group by all"
        for day, count in keeper.ask(sql):
            figures[day, "rows", table.name, None] = str(count)
    totals: dict[tuple[str, str, str, bool | None], Decimal] = defaultdict(Decimal)
    for day, asset, is_custom, text in keeper.ask(
        "select snapshot_date::varchar, asset_id, is_custom_asset, amount_text "
        "from history.balances"
    ):
        totals[day, "total", asset, is_custom] += Decimal(text)
    return figures | {key: f"{total:f}" for key, total in totals.items()}


def _dry_run(keeper: Keeper, *words: str) -> tuple[Figures, Figures]:
    """Return the figures before and after, as a dry run reports them. The home must not change."""
    untouched = _digest(keeper.home)
    said = keeper(*words, "--dry-run", "--format", "json")
    assert _digest(keeper.home) == untouched
    sides: tuple[Figures, Figures] = ({}, {})
    for row in json.loads(said.out):
        for side, name in zip(sides, ("before", "after"), strict=True):
            if row[name] is not None and row["what"] != "state":
                side[row["date"], row["what"], row["name"], row["is_custom_asset"]] = row[name]
    return sides


def _differences(before: Figures, after: Figures) -> tuple[Figures, Figures]:
    """Return the figures that differ between two states of a home, as a dry run reports them."""
    changed = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    return (
        {key: before[key] for key in changed & before.keys()},
        {key: after[key] for key in changed & after.keys()},
    )


def _by_value(figures: Figures) -> dict[tuple[str, str, str, bool | None], Decimal]:
    return {key: Decimal(text) for key, text in figures.items()}


def _holds(named: tuple[Figures, Figures], happened: tuple[Figures, Figures]) -> bool:
    """Return whether a dry run reported all changes.

    It may report more, because rows can change while their number stays the same.
    """
    return all(
        _by_value(real).items() <= _by_value(said).items()
        for said, real in zip(named, happened, strict=True)
    )


def test_a_dry_run_of_accept_reports_all_changes(watched: Make) -> None:
    """`accept --dry-run` of a held night reports all changes that `accept` then makes."""
    home = watched()
    keeper = home.keeper
    assert home.night(THIRD, "portfolio-vanished") == "held"
    snapshot_id = f"{THIRD:%Y%m%d}T021500Z"
    before, named = _figures(keeper), _dry_run(keeper, "accept", snapshot_id)
    assert "Nothing was written" in keeper("accept", snapshot_id, "--dry-run").out
    refused = keeper("accept", snapshot_id)
    assert (refused.code, refused.out) == (2, "")
    assert "may lack money" in refused.err
    assert "Nothing was changed. Type: " in refused.err
    assert _figures(keeper) == before
    assert keeper("accept", snapshot_id, "--why", "the fund was closed").code == 0
    happened = _differences(before, _figures(keeper))
    assert happened[1]
    assert _holds(named, happened)
    assert keeper("accept", "20000101T000000Z", "--dry-run").code == 2


@pytest.mark.torture
def test_a_dry_run_of_rebuild_reports_all_changes(watched: Make) -> None:
    """A dry run of a rebuild reports no change, or every row if the warehouse was lost."""
    keeper = watched().keeper
    assert _dry_run(keeper, "rebuild", "--from-landing") == ({}, {})
    body = next(keeper.layout.landing.rglob("*.zst"))
    whole = body.read_bytes()
    body.write_bytes(whole[:-1])
    refused = keeper("rebuild", "--from-landing", "--dry-run")
    assert (refused.code, refused.err) == (1, keeper("rebuild", "--from-landing").err)
    assert str(body) in refused.err
    body.write_bytes(whole)
    shutil.rmtree(keeper.layout.warehouse)
    named = _dry_run(keeper, "rebuild")
    assert keeper("rebuild").code == 0
    assert {day for day, *_ in named[1]} >= {SECOND.isoformat()}
    assert _by_value(named[1]) == _by_value(_figures(keeper))


@pytest.mark.torture
def test_a_dry_run_of_restore_reports_all_figures(watched: Make, tmp_path: Path) -> None:
    """`restore --dry-run` reports all figures of a backup, and rejects a home with other nights."""
    keeper, file = watched().keeper, str(tmp_path / "book.tar")
    assert keeper("backup", file).code == 0
    new = Keeper(tmp_path / "new", keeper.sandbox)
    named = _dry_run(new, "restore", file)
    assert not new.home.exists()
    assert _by_value(named[1]) == _by_value(_figures(keeper))
    same = keeper("restore", file, "--dry-run")
    assert (same.code, same.out.splitlines()[1]) == (0, "  no changes to rows or totals")
    shutil.copytree(keeper.layout.landing, new.layout.landing)
    (new.layout.landing / "other").write_text("a file that is not in the backup", encoding="utf-8")
    refused = new("restore", file, "--dry-run")
    assert (refused.code, refused.out) == (new("restore", file).code, "")
    assert refused.code == 1
    assert not new.layout.database.exists()

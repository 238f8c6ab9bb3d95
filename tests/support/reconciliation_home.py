"""A home with a published book of a few nights, and the desk that reconciles it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Self

import openpyxl

from tests.support.books import Amount, Night, night, published_once
from warehouse.reconcile import service
from warehouse.reconcile.model import to_json
from warehouse.reconcile.record.record import Record
from warehouse.reconcile.run import RunFiles
from warehouse.reconcile.service import InitFiles
from warehouse.storage.layout import Layout

NOW = datetime(2026, 11, 21, 8, tzinfo=UTC)
SNAPSHOT = "20261120T021500Z"
HEAD = "portfolio;asset;venue;account;amount\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeskRun(RunFiles):
    """A run of a day with the figures of its result, which are zero if there was no ledger."""

    @classmethod
    def of(cls, ran: RunFiles) -> Self:
        """Return the run with its figures."""
        return cls(**{known.name: getattr(ran, known.name) for known in fields(ran)})

    @property
    def digest(self) -> str:
        """The digest of its result."""
        return self.run.digest if self.run else ""

    @property
    def counts(self) -> Mapping[str, int]:
        """The number of keys by result."""
        return self.run.counts if self.run else {}

    @property
    def breaks(self) -> int:
        """The number of breaks."""
        return len(self.run.breaks) if self.run else 0

    @property
    def open_breaks(self) -> int:
        """The number of breaks that nobody has accepted."""
        return self.run.open_breaks if self.run else 0

    @property
    def level(self) -> str:
        """The level of the comparison."""
        return self.run.coverage.level if self.run and self.run.coverage else ""


@dataclass(slots=True)
class Desk:
    """A home with its nights and its reconciliation. `versions` counts the published versions."""

    home: Path
    versions: int = 0
    nights: list[Night] = field(default_factory=list)

    @property
    def layout(self) -> Layout:
        """The paths of the home."""
        return Layout(self.home)

    @property
    def folder(self) -> Record:
        """The reconciliation folder."""
        return Record(self.home / "reconcile")

    def publish(
        self,
        amounts: Iterable[Amount],
        snapshot_id: str = SNAPSHOT,
        change: Mapping[str, Mapping[str, object]] | None = None,
    ) -> None:
        """Publish one more night with these amounts. `change` sets columns of whole tables."""
        others = [one for one in self.nights if one.snapshot_id != snapshot_id]
        made = [*others, night(snapshot_id, amounts)]
        for table, values in (change or {}).items():
            for row in made[-1].rows[table]:
                row.update(values)
        self.nights = sorted(made, key=lambda one: one.snapshot_id)
        self._publish()

    def again(self, one: Night) -> None:
        """Publish a night of a different home."""
        self.nights.append(one)
        self._publish()

    def _publish(self) -> None:
        """Publish all nights as a new version."""
        self.versions += 1
        published_once(self.layout, self.nights, f"v{self.versions}")

    def init(self) -> InitFiles:
        """Write the template and recon.toml."""
        return service.init(self.layout.database, self.folder.root)

    def put(self, text: str, name: str = "ledger.csv") -> Path:
        """Write a text ledger into the inbox."""
        self.folder.make()
        path = self.folder.inbox / name
        path.write_text(text, encoding="utf-8")
        return path

    def settle(self, text: str) -> None:
        """Write recon.toml."""
        self.folder.make()
        self.folder.config.write_text(text, encoding="utf-8")

    def run(self, as_of: date | None = None, now: datetime = NOW) -> DeskRun:
        """Run the reconciliation."""
        ran = service.run(
            self.layout.database,
            self.folder.root,
            as_of=as_of,
            program_version="0.0.0",
            now=now,
            pause=lambda: None,
        )
        return DeskRun.of(ran)

    def breaks(self, day: date | None = None) -> tuple[dict[str, Any], ...]:
        """Return the breaks of the newest result, or of a day."""
        return tuple(map(to_json, service.status(self.folder.root, day=day).run.breaks))

    def edit(
        self, book: Path, cells: Mapping[str, Mapping[str, str]], copy: Path, who: str = ""
    ) -> Path:
        """Fill in the yellow cells of breaks as a person would, and save a copy as `who`."""
        made = openpyxl.load_workbook(book)
        sheet = made["Breaks"]
        titles = {sheet.cell(2, n).value: n for n in range(1, sheet.max_column + 1)}
        for row in range(3, sheet.max_row + 1):
            for title, text in cells.get(sheet.cell(row, 1).value, {}).items():
                cell = sheet.cell(row, titles[title], text)
                cell.data_type = "s"
        copy.parent.mkdir(parents=True, exist_ok=True)
        made.properties.lastModifiedBy = who or made.properties.lastModifiedBy
        made.save(copy)
        return copy


def ledger(amounts: Iterable[Amount]) -> str:
    """Return a CSV ledger with these amounts."""
    return HEAD + "".join(
        f"{a.portfolio};{a.asset};{a.venue};{a.account};{a.text}\n" for a in amounts
    )

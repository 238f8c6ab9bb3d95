"""A firm of several organisations with real nights of small worlds: one is down, one is held."""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from assets.nightbook import Nightbook
from assets.publishing import firm, publish
from pipelines.sandbox.world.world import LivingWorld
from tests.support import nights
from warehouse.database.firm.publish import FirmBook
from warehouse.storage.firm import FIRM
from warehouse.storage.layout import Layout

FIRST, SECOND = (datetime(2026, 11, day, 2, 15, tzinfo=UTC) for day in (20, 21))
# Names are untrusted, so they must not break paths, SQL, sheets or pages.
NAMES = (
    "alpha",
    "=HYPERLINK(1)",
    "Ö'Neil; drop table balances --",
    "<b>gamma</b>",
    "../delta",
    'e"psilon',
    "zeta, eta",
    "theta",
    "iota",
    "kappa",
)
DOWN, HELD = NAMES[1], NAMES[2]


@dataclass(frozen=True, slots=True)
class FirmHome:
    """A firm's home and the homes of its organisations, by name."""

    root: Path
    names: Sequence[str]

    @property
    def layout(self) -> Layout:
        """The paths of the firm's own home."""
        return Layout(self.root / "firm")

    @property
    def nightbook(self) -> Nightbook:
        """The firm's settings and clock on the second morning."""
        variables = {"NIGHTBOOK_HOME": str(self.layout.home)}
        return Nightbook(lambda: variables, lambda: SECOND + timedelta(hours=5))

    def of(self, name: str) -> Layout:
        """Return the paths of an organisation's home."""
        return Layout(self.root / f"organisation {self.names.index(name)}" / "data")

    def describe(self, *names: str) -> None:
        """Write firm.toml with these organisations."""
        lines = [
            f"{json.dumps(name)} = {json.dumps(f'../organisation {self.names.index(name)}')}"
            for name in names
        ]
        self.layout.home.mkdir(exist_ok=True, parents=True)
        (self.layout.home / FIRM).write_text("[sources]\n" + "\n".join(lines), "utf-8")

    def take(self, name: str, moment: datetime, book: nights.Book | None = None) -> None:
        """Create a night from the organisation's own world, or from a book, and publish it."""
        layout = self.of(name)
        world = LivingWorld(seed=f"world of {name}").at(moment.date())
        nights.take(layout, book or nights.of_world(world), moment)
        variables = {"NIGHTBOOK_HOME": str(layout.home)}
        publish.refresh(Nightbook(lambda: variables, lambda: moment))

    def publish(self) -> FirmBook:
        """Publish the firm's book."""
        return firm.publish(
            self.nightbook, day=SECOND.date(), notes={DOWN: "its API does not answer"}
        )

    def landed_totals(self, name: str, day: date) -> dict[tuple[str, bool], Decimal]:
        """Return the total of each asset, calculated only from an organisation's landed bytes."""
        totals: dict[tuple[str, bool], Decimal] = defaultdict(Decimal)
        [folder] = (self.of(name).landing / day.isoformat()).iterdir()
        [body] = folder.glob("0001-*")
        with pa.OSFile(str(body)) as file, pa.CompressedInputStream(file, "zstd") as stream:
            portfolios = json.loads(stream.read())["data"]
        for position in (each for portfolio in portfolios for each in portfolio["positions"]):
            key = (position["assetId"], position["isCustomAsset"])
            for account in position["accounts"]:
                totals[key] += sum(map(Decimal, _texts(account["balance"])), Decimal(0))
        return totals


def _texts(balance: Any) -> Iterator[str]:
    """Yield every amount of a balance, at any depth."""
    if isinstance(balance, str):
        yield balance
    elif isinstance(balance, dict):
        for part in balance.values():
            yield from _texts(part)


def firm_of(root: Path, count: int) -> FirmHome:
    """Create two nights of `count` organisations. In the second, one is down and one is held."""
    home = FirmHome(root, NAMES[:count])
    for name in home.names:
        home.take(name, FIRST)
        if name == HELD:
            home.take(name, SECOND, nights.Book())
        elif name != DOWN:
            home.take(name, SECOND)
    home.describe(*home.names)
    return home

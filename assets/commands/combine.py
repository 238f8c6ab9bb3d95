"""`nightbook combine`: write the newest books of several homes to one file."""

import sys
from collections import Counter
from pathlib import Path

import click
from click import argument, option

from assets.console.command import HomeCommand
from assets.nightbook import Nightbook
from pipelines.landing.lock import hold_writer_lock
from warehouse.contract.combination import LEFT_OUT
from warehouse.contract.model import count_of
from warehouse.database.combine import combine, work_of
from warehouse.query.formats import printable

EXAMPLE = "Example:\n  nightbook combine /srv/alpha /srv/beta --out /srv/group.duckdb"


class WrongHomes(Exception):
    """Two homes have the same name, or the file to write is in a home."""

    exit_code = 2


@click.command(cls=HomeCommand, needs_home=False, epilog=EXAMPLE)
@argument(
    "homes", metavar="HOME...", nargs=-1, required=True, help="Homes, the most important first"
)
@option(
    "--out",
    type=click.Path(dir_okay=False),
    metavar="FILE.duckdb",
    required=True,
    help="File to write, or to replace if the new file is complete",
)
def combine_command(nightbook: Nightbook, *, homes: tuple[str, ...], out: str) -> int:
    """Write the newest books of several homes to one file.

    A home is named after its folder, or write NAME=HOME. If several homes see a portfolio, venue or
    instrument, it counts once, for the first of these homes. If a home has no readable book, the
    command fails and does not change the file.
    """
    file, named = Path(out).absolute(), [_parse(home) for home in homes]
    is_in_home = any(file.resolve().is_relative_to(home.resolve()) for _, home in named)
    if is_in_home or len({name for name, _ in named}) < len(named):
        listed = ", ".join(f"{name} ({home})" for name, home in named)
        raise WrongHomes(
            f"Each home must have a different name, and {file} must be outside of the homes. The "
            f"homes are {listed}. Nothing was combined. To name a home, write NAME=HOME."
        )
    with hold_writer_lock(work_of(file), f"combining {file}", nightbook.now()):
        sources, shared = combine(dict(named), file)
    print(f"{file}: {count_of(len(sources), 'home')}")
    for row in sources:
        print(printable("  {source}: the book of {snapshot_date}, {snapshot_id}".format_map(row)))
    things = {(row["kind"], row["venue_id"], row["id"]) for row in shared}
    counts = Counter(kind for kind, *_ in things)
    listed = ", ".join(count_of(count, kind) for kind, count in sorted(counts.items()))
    print(f"In several homes (see ops.shared): {listed or 'nothing'}")
    print(f"Left out, because they need one home's history: {', '.join(LEFT_OUT)}")
    if len({row["snapshot_date"] for row in sources}) > 1:
        print("The books have different dates, so views have rows for each date.", file=sys.stderr)
    servers = {row["origin"] for row in sources}
    if len(servers) > 1 and counts.total() > counts["custom asset"]:
        print(
            f"The homes read different servers ({', '.join(sorted(servers))}), but have IDs in "
            "common. If these are different portfolios, venues or instruments, the file lacks the "
            "rows of the later homes: see ops.shared and ops.sources.",
            file=sys.stderr,
        )
    if counts["custom asset"]:
        print(
            "Custom assets with one ID in several homes may be different assets, but views by "
            "asset add them up: see ops.shared.",
            file=sys.stderr,
        )
    return 0


def _parse(text: str) -> tuple[str, Path]:
    """Split NAME=HOME. By default, the name of a home is the name of its folder."""
    name, equals, folder = text.partition("=")
    is_named = bool(equals) and "/" not in name
    home = Path(folder if is_named else text).absolute()
    return name if is_named else home.name, home

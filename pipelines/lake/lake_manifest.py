"""Functions that write and read lake manifests. Writing its manifest seals a snapshot.

`lake/manifests/<snapshot_id>.json` contains the SHA-256 of each table, the facts for the guards,
and the counts. It is written last and contains its own digest.
"""

import os
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from decimal import Decimal
from functools import cached_property, partial
from pathlib import Path
from string import digits
from typing import Any

from pipelines.flatten import flatten
from pipelines.flatten.control_totals.totals import write_holdings
from pipelines.flatten.parts import PORTFOLIOS, VENUES, Parts
from pipelines.lake import measures, reject_groups
from pipelines.lake.facts import Facts, PortfolioChange, Share
from pipelines.lake.repeated_accounts import find_repeated_accounts
from pipelines.lake.slices import find_moved_slices
from pipelines.landing import night_folders, snapshots
from pipelines.landing.briefs import Briefs
from pipelines.landing.manifest import Manifest
from pipelines.landing.snapshots import Snapshot
from warehouse.contract.lake import HOLDINGS, lake_contract
from warehouse.contract.model import Table
from warehouse.contract.ops import CONTROL_TOTALS, DRIFT, INEXACT, LISTINGS, REJECTS, REQUESTS
from warehouse.exact import total as exact_total
from warehouse.sql.files import open_files
from warehouse.storage.layout import Layout, digest_of
from warehouse.storage.parquet import rows_batch, write

Row = dict[str, Any]
REMEDY = "The landed bytes were not changed. To rebuild the lake: nightbook rebuild --from-landing"
_MOMENTS = ("sent_at", "received_at")
_JSON = ".json"
_MONEY = """
select
    portfolio_id,
    portfolio_id in (
        select balances.portfolio_id from balances where amount is null or amount <> 0
    )
from portfolios
"""
_ACCOUNTS = "select asset_id, count(*) from accounts group by all"
_TOTALS_OF = """
select
    asset_id || if(is_custom_asset, ' (custom)', '') as asset,
    internal.exact_total(list(total_text))
from holdings
where portfolio_id in (select unnest(?::varchar[]))
group by all
"""
_ACCOUNTS_OF = """
select asset_id, sum(accounts)::bigint
from holdings
where portfolio_id in (select unnest(?::varchar[]))
group by all
"""
BALANCES, PORTFOLIO_HOLDINGS = "balances", HOLDINGS[0].name


class LakeManifests:
    """A cache of landed nights and lake manifests, used during one command.

    Manifests do not change, so each is read only once, although a command uses it twice, to judge a
    night and to publish it. After a decision, the command must call `note`.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._read: dict[str, Row] = {}

    @cached_property
    def briefs(self) -> Briefs:
        """The cached data of all nights (see `Briefs`)."""
        return Briefs(self.layout, self.of)

    @cached_property
    def _nights_by_id(self) -> dict[str, Snapshot]:
        return {snapshot.snapshot_id: snapshot for snapshot in self.briefs.nights()}

    @property
    def nights(self) -> list[Snapshot]:
        """All landed snapshots, oldest first."""
        return list(self._nights_by_id.values())

    def note(self, decided: Snapshot) -> None:
        """Replace a cached night with the given version, which contains a new decision."""
        self._nights_by_id[decided.snapshot_id] = decided

    def of(self, snapshot_id: str) -> Row:
        """Return a snapshot's lake manifest. Raises `landing.DamagedFile` if it was changed."""
        if snapshot_id not in self._read:
            self._read[snapshot_id] = read_manifest(self.layout, snapshot_id)
        return self._read[snapshot_id]


def seal(known: LakeManifests, manifest: Manifest, parts: Parts) -> None:
    """Write the nightly tables, holdings tables and lake manifest of a flattened snapshot."""
    layout = known.layout
    nightly = {
        table.name: asdict(_write_nightly(layout, manifest, table, rows))
        for table, rows in _nightly_rows(manifest, parts)
    }
    snapshot_id = manifest.snapshot_id
    place = partial(layout.staged_file, snapshot_id=snapshot_id)
    files = {name: place(name) for name in parts.tables}
    tables = {**parts.tables, **write_holdings(files, place, snapshot_id)}
    facts = _facts(files, manifest, parts)
    compared = measures.bases(facts_before(known, manifest, last=2))
    facts |= {"drops": _smallest_moves(Facts.of(facts), compared)}
    facts |= _changes(layout, manifest, facts["money"], compared)
    content = {
        "snapshot_id": manifest.snapshot_id,
        "snapshot_date": manifest.snapshot_date.isoformat(),
        "tables": {name: asdict(table) for name, table in tables.items()},
        "nightly": nightly,
        "facts": facts,
        "money_shapes": [asdict(shape) for shape in reject_groups.group_rejects(manifest, parts)],
        "differing_totals": [
            f"{total.table_name} {total.measure} {total.asset_id} {total.bucket}".strip()
            for part in parts
            for total in part.totals
            if total.differs
        ],
        "repeated": [
            asdict(venue) for venue in find_repeated_accounts(files["accounts"], files["balances"])
        ],
        "carried": parts.venues.stale_venues,
        "emptied": parts.venues.emptied,
        "counts": {
            name: sum(len(getattr(part, name)) for part in parts)
            for name in ("rejects", "inexact", "drift")
        },
        "contract": lake_contract(),
        "parts": {
            part: digest_of(layout.part(part, manifest.snapshot_id))
            for part in (PORTFOLIOS, VENUES)
        },
    }
    night_folders.write(layout.manifest(manifest.snapshot_id), content)


def sealed_ids(layout: Layout) -> set[str]:
    """Return the IDs of the snapshots that have a manifest in the lake."""
    if not layout.manifests.is_dir():
        return set()
    names = os.listdir(layout.manifests)  # noqa: PTH208 - years of nights, and paths are slower
    return {name[: -len(_JSON)] for name in names if name[0] in digits and name.endswith(_JSON)}


def read_manifest(layout: Layout, snapshot_id: str) -> Row:
    """Read a snapshot's lake manifest. Raises `landing.DamagedFile` if it was changed."""
    return night_folders.read(layout.manifest(snapshot_id), REMEDY)


def facts_before(known: LakeManifests, manifest: Manifest, last: int = 0) -> list[Facts]:
    """Return facts about the nights accepted before a snapshot was taken, oldest first.

    If `last` is given, stop as soon as that many nights are not suspect. Nights that are compared
    with the snapshot include all facts. Other nights include only their moves, because the limits
    depend on them.
    """
    layout, moment = known.layout, datetime.fromisoformat(manifest.finished_at)
    before = snapshots.accepted_before(known.nights, manifest.snapshot_id, moment)
    sealed = sealed_ids(layout)
    # Read only the manifests of the two newest nights and of the latest night that is not suspect.
    # The other nights are only needed for the limits, and their cached changes are enough for that.
    newest_first: list[tuple[Snapshot, bool]] = []
    for snapshot in before:
        if snapshot.snapshot_id in sealed:
            newest_first.append((snapshot, snapshot.is_suspect_at(moment)))
            if last and sum(not is_suspect for _, is_suspect in newest_first) == last:
                break
    sure = [place for place, (_, is_suspect) in enumerate(newest_first) if not is_suspect]
    whole = {0, 1, *sure[:1]}
    return [
        Facts.of(
            known.of(snapshot.snapshot_id)["facts"], snapshot.snapshot_id, is_suspect=is_suspect
        )
        if place in whole
        else Facts(
            counts={},
            totals={},
            money={},
            drops=known.briefs.of(snapshot).drops,
            snapshot_id=snapshot.snapshot_id,
            is_suspect=is_suspect,
        )
        for place, (snapshot, is_suspect) in reversed([*enumerate(newest_first)])
    ]


def portfolios_before(layout: Layout, snapshot_id: str, moment: datetime) -> dict[str, bool]:
    """Return the portfolios in the book before a new snapshot, and whether each held money."""
    landed = snapshots.landed_snapshots(layout)
    last = next(snapshots.accepted_before(landed, snapshot_id, moment), None)
    if last is None or not layout.manifest(last.snapshot_id).is_file():
        return {}
    return dict(read_manifest(layout, last.snapshot_id)["facts"]["money"])


def _smallest_moves(facts: Facts, compared: list[Facts]) -> dict[str, str]:
    """Return how far each measure has moved since the most similar earlier book."""
    drops_by_base = [measures.drops(facts, base) for base in compared]
    return min(drops_by_base, key=lambda drops: max(map(Decimal, drops.values())), default={})


def _changes(
    layout: Layout, manifest: Manifest, money: Mapping[str, bool], compared: list[Facts]
) -> Row:
    """Compare a night with each earlier book: moved slices, and missing and new portfolios.

    The results are stored by the snapshot ID of the earlier book. A missing portfolio is listed
    only if it held money, because empty portfolios do not contribute to any sum.
    """
    moved: dict[str, list[Row]] = {}
    changes: dict[str, Row] = {}
    now = layout.staged_file(BALANCES, manifest.snapshot_id)
    held_now = layout.staged_file(PORTFOLIO_HOLDINGS, manifest.snapshot_id)
    for base in compared:
        before = _table_file(layout, BALANCES, base.snapshot_id)
        if before is None:  # The earlier book was pruned after this night was judged.
            continue
        moved[base.snapshot_id] = [asdict(move) for move in find_moved_slices(before, now)]
        missing = sorted(name for name, has in base.money.items() if has and name not in money)
        new = sorted(money.keys() - base.money.keys())
        held_before = _table_file(layout, PORTFOLIO_HOLDINGS, base.snapshot_id)
        if not (missing or new) or held_before is None:
            continue
        change = PortfolioChange(
            missing=missing,
            new=new,
            missing_share=_share(held_before, missing),
            new_share=_share(held_now, new),
            slices=find_moved_slices(before, now, without=[*missing, *new]),
        )
        changes[base.snapshot_id] = asdict(change)
    return {"slices": moved} | ({"portfolio_changes": changes} if changes else {})


def _share(holdings: Path, portfolios: list[str]) -> Share:
    """Return the total and the account count per asset of the given portfolios."""
    with open_files({"holdings": holdings}) as connection:
        totals = connection.execute(_TOTALS_OF, [portfolios]).fetchall()
        accounts = connection.execute(_ACCOUNTS_OF, [portfolios]).fetchall()
    return Share(dict(totals), dict(accounts))


def _table_file(layout: Layout, table: str, snapshot_id: str) -> Path | None:
    """Return the path of an accepted night's file for a table, or None if it was pruned."""
    day = snapshots.find(layout, snapshot_id).snapshot_date
    places = (layout.parquet(table, day, snapshot_id), layout.staged_file(table, snapshot_id))
    return next((path for path in places if path.is_file()), None)


def _facts(files: Mapping[str, Path], manifest: Manifest, parts: Parts) -> Row:
    defects = reject_groups.find_defects_everywhere(manifest, parts)
    with open_files(files) as connection:
        money = dict(connection.execute(_MONEY).fetchall())
        accounts = dict(connection.execute(_ACCOUNTS).fetchall())
    sums: dict[str, list[str]] = {}
    for total in parts.portfolios.totals:
        if total.measure == "sum":
            asset = total.asset_id + (" (custom)" if total.is_custom_asset else "")
            sums.setdefault(asset, []).append(total.in_lake)
    return {
        "counts": {name: table.rows for name, table in parts.tables.items()},
        "totals": {asset: exact_total(texts) for asset, texts in sums.items()},
        "money": money,
        "drops": {},
        "everywhere": list(defects),
        "defect_messages": defects,
        "kinds": sorted({total.bucket for total in parts.portfolios.totals if total.bucket}),
        "accounts": accounts,
        "unread": sorted({*flatten.failed_venues(manifest), *parts.venues.stale_venues}),
    }


def _nightly_rows(manifest: Manifest, parts: Parts) -> list[tuple[Table, list[Row]]]:
    keys = ("venue_id", "instrument_id", "missing_from")
    listings = [dict(zip(keys, row, strict=True)) for row in parts.venues.listings]
    totals = [asdict(total) | {"in_warehouse": None} for part in parts for total in part.totals]
    requests = [_request(asdict(answer)) for answer in manifest.answers]
    return [
        (REQUESTS, requests),
        (REJECTS, [reject.row() for reject in parts.rejects]),
        (INEXACT, [asdict(inexact) for part in parts for inexact in part.inexact]),
        (DRIFT, [asdict(drift) for part in parts for drift in part.drift]),
        (LISTINGS, listings),
        (CONTROL_TOTALS, totals),
    ]


def _request(answer: Row) -> Row:
    times = {
        name: None if answer[name] is None else datetime.fromisoformat(answer[name])
        for name in _MOMENTS
    }
    return answer | times


def _write_nightly(layout: Layout, manifest: Manifest, table: Table, rows: list[Row]) -> Any:
    key = {"snapshot_date": manifest.snapshot_date, "snapshot_id": manifest.snapshot_id}
    batch = rows_batch(table, [key | row for row in rows])
    path = layout.parquet(table.name, manifest.snapshot_date, manifest.snapshot_id)
    return write(table, [batch], path, manifest.snapshot_id)

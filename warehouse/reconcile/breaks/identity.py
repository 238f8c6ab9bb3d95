"""A break from night to night: its id, its episode, its age, and what changed.

The id is made of the reconciliation's name, the level and the key, so that the same difference has
the same id every night, whatever its amount.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from warehouse.exact import plain
from warehouse.reconcile.dimensions import display_asset
from warehouse.reconcile.matching.classify import ClassifiedPair
from warehouse.reconcile.matching.key_resolution import UNMAPPED

_SHORTEST = 8


@dataclass(frozen=True, slots=True)
class Break:
    """One break of one day, as it is stored and shown; amounts are exact texts.

    `change` is new, changed or unchanged since the run of the day before; `accepted` is the
    difference that was accepted, empty where none is.
    """

    id: str
    episode: int
    key: tuple[str, ...]
    names: Mapping[str, str]
    result: str
    ledger: str | None
    snapshot: str | None
    difference: str
    rows: int
    source: str
    rule: str
    placement: str
    cause: str
    note: str
    first_seen: date
    ever_seen: date
    age_days: int
    change: str
    status: str = "Open"
    owner: str = ""
    root_cause: str = ""
    comment: str = ""
    accepted: str = ""


def break_ids(name: str, fields: tuple[str, ...], keys: Iterable[tuple[str, ...]]) -> list[str]:
    """The ids of keys, in their order; where two begin alike, both grow until they do not."""
    digests = [
        hashlib.sha256("\x1f".join((name, *fields, "", *key)).encode()).hexdigest().upper()
        for key in keys
    ]
    lengths = dict.fromkeys(digests, _SHORTEST)
    for _ in range(len(digests[0]) if digests else 0):
        seen: dict[str, str] = {}
        grown = False
        for digest in lengths:
            other = seen.setdefault(digest[: lengths[digest]], digest)
            if other != digest:
                lengths[other] += 1
                lengths[digest] = lengths[other]
                grown = True
        if not grown:
            break
    return [f"B-{digest[: lengths[digest]]}" for digest in digests]


def shown_names(
    fields: tuple[str, ...],
    key: Sequence[str],
    shown: Mapping[str, Mapping[str, str]],
    *,
    is_unmapped: bool,
) -> dict[str, str]:
    """A key as people see it: names for ids; of an unmapped key unknown names, as folded."""
    names = {}
    for name, id_ in zip(fields, key, strict=True):
        text = shown.get(name, {}).get(id_, id_)
        text = display_asset(text) if name == "asset" else text
        names[name] = text.removeprefix(UNMAPPED) if is_unmapped else text
    return names


def age_of(
    judged: ClassifiedPair,
    id_: str,
    day: date,
    before: Mapping[str, Any],
    episodes: Mapping[str, Any],
) -> dict[str, Any]:
    """Episode, first day and change of a break: `before` are the breaks of the day before.

    A break that was away begins a new episode, and its age begins anew.
    """
    known = before.get(id_)
    last, ever = episodes.get(id_, (0, day.isoformat()))
    if known is None:
        return {"episode": last + 1, "first_seen": day, "ever_seen": date.fromisoformat(ever)} | {
            "age_days": 0,
            "change": "returned" if last else "new",
        }
    first = date.fromisoformat(known["first_seen"])
    same = (
        known["difference"] == plain(judged.difference) and known["result"] == judged.result.value
    )
    return {
        "episode": known["episode"],
        "first_seen": first,
        "ever_seen": date.fromisoformat(known["ever_seen"]),
        "age_days": (day - first).days,
        "change": "unchanged" if same else "changed",
    }


def previous_ids(
    before: Mapping[str, Any], old: tuple[str, ...], new: tuple[str, ...], keys: Mapping[str, Any]
) -> dict[str, str]:
    """Where the level changed: ids of now and the one id before that can only be the same break.

    `keys` are the keys of now by id. Only a pair that stands alone on both sides is mapped.
    """
    shared = [name for name in old if name in new]

    def bare(fields: tuple[str, ...], key: Sequence[str]) -> tuple[str, ...]:
        return tuple(key[fields.index(name)] for name in shared)

    then: dict[tuple[str, ...], list[str]] = {}
    now: dict[tuple[str, ...], list[str]] = {}
    for id_, known in before.items():
        then.setdefault(bare(old, known["key"]), []).append(id_)
    for id_, key in keys.items():
        now.setdefault(bare(new, key), []).append(id_)
    return {
        ids[0]: then[key][0]
        for key, ids in now.items()
        if len(ids) == 1 and len(then.get(key, [])) == 1
    }

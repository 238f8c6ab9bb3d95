"""A break from night to night: its id, its age, and how people see its key.

The id is made of the reconciliation's name, the level and the key, so that the same difference has
the same id every night, whatever its amount.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from warehouse.exact import plain
from warehouse.reconcile.matching.classify import ClassifiedPair
from warehouse.reconcile.matching.key_resolution import UNMAPPED
from warehouse.reconcile.store.records import Break
from warehouse.reconcile.terms.dimensions import display_asset

_SHORTEST = 8
Key = tuple[str, ...]


def break_ids(name: str, fields: Key, keys: Iterable[Key]) -> list[str]:
    """Return the ids of keys, in their order: the beginning of a digest, as short as it may be."""
    digests = [
        hashlib.sha256("\x1f".join((name, *fields, "", *key)).encode()).hexdigest().upper()
        for key in keys
    ]
    # Where two of this run begin alike, both grow letter by letter until they differ. A longer
    # beginning may meet a third one, so the pass is repeated until nothing grows.
    lengths = dict.fromkeys(digests, _SHORTEST)
    for _ in range(len(digests[0]) if digests else 0):
        seen: dict[str, str] = {}
        grown = False
        for digest in lengths:
            first = seen.setdefault(digest[: lengths[digest]], digest)
            if first != digest:
                lengths[first] += 1
                lengths[digest] = lengths[first]
                grown = True
        if not grown:
            break
    return [f"B-{digest[: lengths[digest]]}" for digest in digests]


def display_names(
    fields: Key, key: Sequence[str], names: Mapping[str, Mapping[str, str]], *, is_unmapped: bool
) -> dict[str, str]:
    """Return a key as people see it: names for ids; of an unmapped key unknown names, as folded."""
    texts = {}
    for field, id_ in zip(fields, key, strict=True):
        text = names.get(field, {}).get(id_, id_)
        text = display_asset(text) if field == "asset" else text
        texts[field] = text.removeprefix(UNMAPPED) if is_unmapped else text
    return texts


@dataclass(frozen=True, slots=True, kw_only=True)
class Age:
    """How long a break is known; each time that it comes back begins a new episode."""

    episode: int
    first_seen: date
    ever_seen: date
    days: int
    change: str


def age_of(
    pair: ClassifiedPair, day: date, earlier: Break | None, last_episode: tuple[int, str] | None
) -> Age:
    """Return the age of a break: `earlier` is the same one in the run before.

    A break that was away begins a new episode, and keeps its age: whatever hid it meanwhile, like a
    tolerance, it is as old as when it was first seen.
    """
    if earlier is None:
        last, ever = last_episode or (0, day.isoformat())
        ever_seen = date.fromisoformat(ever)
        return Age(
            episode=last + 1,
            first_seen=day,
            ever_seen=ever_seen,
            days=(day - ever_seen).days,
            change="returned" if last else "new",
        )
    is_same = (earlier.difference, earlier.result) == (plain(pair.difference), pair.result.value)
    return Age(
        episode=earlier.episode,
        first_seen=earlier.first_seen,
        ever_seen=earlier.ever_seen,
        days=(day - earlier.ever_seen).days,
        change="unchanged" if is_same else "changed",
    )


def previous_ids(
    before: Mapping[str, Break], old: Key, new: Key, keys: Mapping[str, Key]
) -> dict[str, str]:
    """Return, where the level changed, by ids of now the one before that can only be the same.

    `keys` are the keys of now by id.
    """
    # Keys are compared by the fields that both levels have. Only a break that stands alone under
    # such a short key on both sides is the same one; of several nobody can say which is which.
    shared = [name for name in old if name in new]

    def short_key(fields: Key, key: Key) -> Key:
        return tuple(key[fields.index(name)] for name in shared)

    then: dict[Key, list[str]] = {}
    now: dict[Key, list[str]] = {}
    for id_, break_ in before.items():
        if {*shared} <= {*break_.fields}:
            then.setdefault(short_key(break_.fields, break_.key), []).append(id_)
    for id_, key in keys.items():
        now.setdefault(short_key(new, key), []).append(id_)
    return {
        ids[0]: then[key][0]
        for key, ids in now.items()
        if len(ids) == 1 and len(then.get(key, [])) == 1
    }

"""A break from night to night: its id, its age, and how people see its key.

The id is made of the reconciliation's name, the level and the key, so that the same difference has
the same id every night, whatever its amount.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import chain, product

from warehouse.exact import plain
from warehouse.reconcile.ledger.model import WHOLE
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
    """How long a break has been there; each time that it comes back begins a new episode."""

    episode: int
    first_seen: date
    ever_seen: date
    days: int
    change: str


def age_of(
    pair: ClassifiedPair, day: date, earlier: Break | None, last_episode: tuple[int, str] | None
) -> Age:
    """Return the age of a break: `earlier` is the same one in the run before.

    A break that was away begins a new episode, and its age counts from there. `ever_seen` is the
    first day of its first episode.
    """
    if earlier is None:
        last, ever = last_episode or (0, day.isoformat())
        ever_seen = date.fromisoformat(ever)
        return Age(
            episode=last + 1,
            first_seen=day,
            ever_seen=ever_seen,
            days=0,
            change="returned" if last else "new",
        )
    is_same = (earlier.difference, earlier.result) == (plain(pair.difference), pair.result.value)
    return Age(
        episode=earlier.episode,
        first_seen=earlier.first_seen,
        ever_seen=earlier.ever_seen,
        days=(day - earlier.first_seen).days,
        change="unchanged" if is_same else "changed",
    )


def previous_ids(
    before: Mapping[str, Break], fields: Key, keys: Mapping[str, Key]
) -> dict[str, str]:
    """Return by ids of now the id in the run before that can only be the same break.

    `keys` are the keys of now by id, and have these fields.
    """
    same = {id_: id_ for id_ in keys if id_ in before}
    then = _by_level({id_: (of.fields, of.key) for id_, of in before.items() if id_ not in same})
    now = _by_level({id_: (fields, key) for id_, key in keys.items() if id_ not in same})
    # Keys of two levels are compared by the fields that both have. Only a break that is alone
    # under such a short key on both sides is the same break, and only if no other level has one.
    met = [
        ids
        for (old, olds), (new, news) in product(then.items(), now.items())
        for ids in _by_short_key([name for name in old if name in new], olds, news)
    ]
    often = Counter(id_ for ids in met for id_ in chain(*ids))
    return same | {
        new[0]: old[0]
        for old, new in met
        if len(old) == len(new) == 1 and often[old[0]] == often[new[0]] == 1
    }


_Names = Mapping[str, Mapping[str, str]]  # by id, the value of each field


def _by_level(keys: Mapping[str, tuple[Key, Key]]) -> dict[Key, _Names]:
    """Return the values of keys by level and id; a field that is not in the ledger is left out."""
    levels: defaultdict[Key, dict[str, dict[str, str]]] = defaultdict(dict)
    for id_, (fields, key) in keys.items():
        pairs = zip(fields, key, strict=True)
        names = {name: value for name, value in pairs if value != WHOLE}
        levels[tuple(names)][id_] = names
    return dict(levels)


def _by_short_key(
    shared: Sequence[str], then: _Names, now: _Names
) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the ids of before and of now that have the same values in the shared fields."""
    groups: defaultdict[Key, tuple[list[str], list[str]]] = defaultdict(lambda: ([], []))
    for side, names_by_id in enumerate((then, now)):
        for id_, names in names_by_id.items():
            groups[tuple(names[name] for name in shared)][side].append(id_)
    yield from (ids for ids in groups.values() if all(ids))

"""Text around a ledger's names, like `BTC Curncy`, and questions about it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, combinations_with_replacement
from operator import itemgetter

import pyarrow as pa

from warehouse.reconcile.book import KnownNames
from warehouse.reconcile.ledger.amounts import split_footnote, without_footnote
from warehouse.reconcile.ledger.columns import LedgerBody
from warehouse.reconcile.ledger.header import Header
from warehouse.reconcile.settings.layout import ANY, NAME, SPELLED
from warehouse.reconcile.settings.toml import quote_list, setting
from warehouse.reconcile.terms import Ambiguous

_MIN_SHARE = 0.5  # a spelling must match more than this fraction of the unknown names
_MAX_PARTS = 8  # maximum number of words in a string to search for names
_PART = re.compile(r"[^\W_]+")
_SEPARATOR = re.compile(r"\s*(?:[:/\\>|]|->)\s*")
_AROUND = re.compile(r"[^\W_](?:.*[^\W_])?")

# Words that give the name next to them a different meaning, such as a future or a loan.
_OTHER_THING = re.compile(
    r"perp|swap|fut|option|call|put\b|warrant|short|long|loan|borrow|debt|margin|staked|locked|wrapped"
    r"|lp\b|[0-9]{4}",
    re.IGNORECASE,
)

Rename = Callable[[str], str]


def renames_of(head: Header) -> dict[str, Rename]:
    """Map each field to a function that removes the text around the field's names."""
    patterns = {field: _regex(text) for field, text in head.shape.spellings.items()}
    known, marks = head.context.known, head.shape.footnotes

    def rename(field: str, text: str) -> str:
        if known.has(field, text):
            return text
        bare = without_footnote(text, marks)
        text = bare if known.has(field, bare) else text
        match = patterns[field].fullmatch(text.strip()) if field in patterns else None
        return match["name"] if match else text

    fields = SPELLED if marks else [field for field in SPELLED if field in patterns]
    return {field: partial(rename, field) for field in fields}


def rename_all(names: pa.Array, rename: Rename | None) -> pa.Array:
    """Rename every name in a column. Each distinct name is looked up only once."""
    if rename is None:
        return names
    coded = names.dictionary_encode()
    renamed = [rename(text) if text else "" for text in coded.dictionary.to_pylist()]
    return pa.array(renamed, pa.string()).take(coded.indices)


def ask_for_paths(body: LedgerBody, missing: Collection[str]) -> None:
    """Raise `Ambiguous` if most names in a column are paths of names, like `Assets:Fund:Venue`."""
    head, known = body.head, body.known_names
    for field in ("account", "portfolio", "venue"):
        column = head.columns.get(field)
        if column is None or field in {*head.shape.columns, *head.shape.spellings}:
            continue
        unknown = [text for text in body.values(column) if not known.has(field, text)]
        paths, separator = _paths(unknown)
        if 2 * len(paths) <= len(body.values(column)):
            continue
        steps = [*zip(*paths, strict=True)]
        places = _places(steps, field, known, missing)
        if len(steps) > 2 or {*places} - {field}:  # noqa: PLR2004 - else the text is around a name
            _ask_for_path(head, field, steps, separator, places)


def _paths(texts: Sequence[str]) -> tuple[list[list[str]], str]:
    """Return the most common kind of path among these strings: its parts, and the separator."""
    found: dict[tuple[str, int], list[list[str]]] = {}
    for text in texts:
        match = _SEPARATOR.search(text)
        parts = text.split(match[0]) if match else []
        if match and all(map(str.strip, parts)):
            found.setdefault((match[0], len(parts)), []).append(parts)
    kind = max(found, key=lambda kind: len(found[kind]), default=("", 0))
    return found.get(kind, []), kind[0]


def _places(
    steps: Sequence[Sequence[str]], field: str, known: KnownNames, missing: Collection[str]
) -> dict[str, int]:
    """Return the places of a path that have the names of the column's field or a missing field.

    The result is empty if no place has names of the book.
    """
    places: dict[str, int] = {}
    for place, names in enumerate(steps):
        for name in (field, *missing):
            is_named = 2 * sum(known.has(name, text) for text in names) > len(names)
            if is_named and name not in places and place not in places.values():
                places[name] = place
    others = {place for place in range(len(steps)) if len({*steps[place]}) > 1}
    others -= {*places.values()}
    if places and field not in places and others:
        places[field] = max(others)
    return places


def _ask_for_path(
    head: Header,
    field: str,
    steps: Sequence[Sequence[str]],
    separator: str,
    places: Mapping[str, int],
) -> None:
    if not places:
        return
    title = head.title_of(head.columns[field])
    lines = [] if field in places else [setting(field, "")]
    for name, place in places.items():
        parts = [NAME if at == place else ANY for at in range(len(steps))]
        lines += [setting(name, title), setting(f"{name}_spelling", separator.join(parts))]
    example = separator.join(step[0] for step in steps)
    raise Ambiguous(
        f"{head.place}: names in the {title!r} column, like {example[:80]!r}, are paths that "
        f"contain names of the book ({', '.join(places)}). In these settings, {NAME} represents "
        "the name, and the other parts are ignored.",
        "\n".join([head.table, *lines]),
    )


def ask_for_spellings(body: LedgerBody) -> None:
    """Raise `Ambiguous` if most names in a column are book names with text around them."""
    head, known = body.head, body.known_names
    renames = renames_of(head)
    for field in SPELLED:
        column = head.columns.get(field)
        if column is None or not known.folded.get(field):
            continue
        written = [text for text in body.counts(column)[0] if text]
        unknown = [text for text in written if not known.has(field, text)]
        unknown = [text for text in unknown if field not in renames or renames[field](text) == text]
        examples = " and ".join(repr(text[:40]) for text in unknown[:2])
        marks = [mark for text in unknown if (mark := _mark(text, field, known))]
        if marks:
            listed = quote_list(dict.fromkeys([*head.shape.footnotes, *marks]))
            raise Ambiguous(
                f"{head.place}: names like {examples} are names from the book, followed by a "
                "mark that seems to refer to a footnote.",
                f"{head.table}\nfootnotes = {listed}",
            )
        pattern = _spelling(unknown, field, known)
        are_most = len(unknown) > _MIN_SHARE * len(written)
        if pattern and are_most and field not in head.shape.spellings:
            raise Ambiguous(
                f"{head.place}: strings like {examples} are names of the book's {field}s with "
                f"other text before or after them. In this setting, {NAME} represents the name, "
                "and the other text is ignored.",
                f"{head.table}\n{setting(f'{field}_spelling', pattern)}",
            )


def _mark(text: str, field: str, known: KnownNames) -> str:
    name, mark = split_footnote(text)
    return mark if known.has(field, name) else ""


def _spelling(unknown: Sequence[str], field: str, known: KnownNames) -> str:
    """Return the spelling that most of these strings share, or an empty string."""
    patterns = [list(_patterns(text.strip(), field, known)) for text in unknown]
    # First try a spelling with the exact text around the names, then a pattern that allows any
    # text.
    for number in (0, 1):
        # Count each distinct string once for each pattern. Use a dict, because the order of a set
        # is not reproducible.
        unique = (dict.fromkeys(pair[number] for pair in found) for found in patterns)
        counted = Counter(chain.from_iterable(unique))
        pattern, count = max(counted.items(), key=itemgetter(1), default=("", 0))
        # If only one name has text around it, a space must separate the text from the name. Without
        # a space, the match may be a coincidence.
        is_sure = count > 1 or (count == 1 and " " in pattern and pattern.count(ANY) == 0)
        if is_sure and count > _MIN_SHARE * len(unknown):
            return pattern
    return ""


def _patterns(text: str, field: str, known: KnownNames) -> Iterator[tuple[str, str]]:
    """Yield two patterns for each name in a string: exact, and with wildcards around the name."""
    for first, last in combinations_with_replacement(list(_PART.finditer(text))[:_MAX_PARTS], 2):
        before, after = text[: first.start()], text[last.end() :]
        name = text[first.start() : last.end()]
        is_other = any(mark in before + after for mark in f"{NAME}{ANY}")
        is_other = is_other or bool(_OTHER_THING.search(before + after))
        if known.has(field, name) and not is_other:
            general = f"{_AROUND.sub(ANY, before)}{NAME}{_AROUND.sub(ANY, after)}"
            yield f"{before}{NAME}{after}", general


def _regex(pattern: str) -> re.Pattern[str]:
    parts = map(re.escape, pattern.replace(ANY, "\0").replace(NAME, "\1"))
    wildcards: Mapping[str, str] = {"\0": ".+?", "\1": "(?P<name>.+?)"}
    return re.compile("".join(wildcards.get(part, part) for part in parts))

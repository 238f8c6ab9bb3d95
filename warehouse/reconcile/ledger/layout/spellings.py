"""Names that a ledger writes with more text around them, like `BTC Curncy` or `Bitcoin (BTC)`."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations_with_replacement
from operator import itemgetter

import pyarrow as pa

from warehouse.reconcile.ledger.cells.amounts import split_footnote, without_footnote
from warehouse.reconcile.ledger.header.header_row import Header
from warehouse.reconcile.ledger.header.known_names import KnownNames
from warehouse.reconcile.ledger.unread import LedgerBody
from warehouse.reconcile.settings.shape import ANY, NAME, SPELLED
from warehouse.reconcile.settings.toml_table import quote, setting
from warehouse.reconcile.terms.errors import Ambiguous

_MOST = 0.5  # of the different names that the book does not know
_MOST_PARTS = 8  # words of a text in which names are looked for
_PART = re.compile(r"[^\W_]+")
_AROUND = re.compile(r"[^\W_](?:.*[^\W_])?")
# Text beside a name that makes it the name of something else, like a future or a loan.
_OTHER_THING = re.compile(
    r"perp|swap|fut|option|call|put\b|warrant|short|long|loan|borrow|debt|margin|staked|locked|wrapped"
    r"|lp\b|[0-9]{4}",
    re.IGNORECASE,
)
Rename = Callable[[str], str]


def renames_of(head: Header, known: KnownNames) -> dict[str, Rename]:
    """Return by field how the names of a sheet are taken out of the text around them."""
    patterns = {field: _regex(text) for field, text in head.shape.spellings.items()}
    marks = head.shape.footnotes

    def rename(field: str, text: str) -> str:
        if known.has(field, text):
            return text
        bare = without_footnote(text, marks)
        text = bare if known.has(field, bare) else text
        match = patterns[field].fullmatch(text.strip()) if field in patterns else None
        return match["name"] if match else text

    fields = SPELLED if marks else [field for field in SPELLED if field in patterns]
    return {field: partial(rename, field) for field in fields}


def rename_all(names: pa.Array, rename: Rename) -> pa.Array:
    """Return a column of names, each renamed; each different name is looked at once."""
    coded = names.dictionary_encode()
    renamed = pa.array([rename(text) for text in coded.dictionary.to_pylist()], pa.string())
    return renamed.take(coded.indices)


def ask_for_spellings(body: LedgerBody, where: str) -> None:
    """Raise `Ambiguous` if most names of a column are names of the book with text around them."""
    head, known = body.head, body.known
    renames = renames_of(head, known)
    for field in SPELLED:
        place = head.columns.get(field)
        if place is None or not known.folded.get(field):
            continue
        written = [text for text in body.counts(place)[0] if text]
        unknown = [text for text in written if not known.has(field, text)]
        unknown = [text for text in unknown if field not in renames or renames[field](text) == text]
        examples = " and ".join(repr(text[:40]) for text in unknown[:2])
        marks = [mark for text in unknown if (mark := _mark(text, field, known))]
        if marks:
            listed = ", ".join(map(quote, dict.fromkeys([*head.shape.footnotes, *marks])))
            raise Ambiguous(
                f"{where}: {examples} have a mark behind a name of the book, which seems to refer "
                "to a footnote.",
                f"{head.table}\nfootnotes = [{listed}]",
            )
        pattern = _spelling(unknown, field, known)
        if pattern and field not in head.shape.spellings and len(unknown) > _MOST * len(written):
            raise Ambiguous(
                f"{where}: {examples} are names of the book's {field}s with other text around "
                f"them. With this setting, {NAME} is the name, and the text around it is not read.",
                f"{head.table}\n{setting(f'{field}_spelling', pattern)}",
            )


def _mark(text: str, field: str, known: KnownNames) -> str:
    name, mark = split_footnote(text)
    return mark if known.has(field, name) else ""


def _spelling(unknown: Sequence[str], field: str, known: KnownNames) -> str:
    """Return the pattern of most of these texts, or an empty string."""
    patterns = [list(_patterns(text.strip(), field, known)) for text in unknown]
    for number in (0, 1):  # one text around all names, then any text
        counted = Counter(pattern for found in patterns for pattern in {of[number] for of in found})
        pattern, count = max(counted.items(), key=itemgetter(1), default=("", 0))
        # One name alone may have a text beside it by chance, if no space is between them.
        is_sure = count > 1 or (count == 1 and " " in pattern and pattern.count(ANY) == 0)
        if is_sure and count > _MOST * len(unknown):
            return pattern
    return ""


def _patterns(text: str, field: str, known: KnownNames) -> Iterator[tuple[str, str]]:
    """Yield the spellings of a text around each name in it: with its other text, and with any."""
    parts = list(_PART.finditer(text))[:_MOST_PARTS]
    for first, last in combinations_with_replacement(parts, 2):
        before, after = text[: first.start()], text[last.end() :]
        name = text[first.start() : last.end()]
        is_thing = any(mark in before + after for mark in f"{NAME}{ANY}")
        if known.has(field, name) and not is_thing and not _OTHER_THING.search(before + after):
            general = f"{_AROUND.sub(ANY, before)}{NAME}{_AROUND.sub(ANY, after)}"
            yield f"{before}{NAME}{after}", general


def _regex(pattern: str) -> re.Pattern[str]:
    parts = map(re.escape, pattern.replace(ANY, "\0").replace(NAME, "\1"))
    wildcards: Mapping[str, str] = {"\0": ".+?", "\1": "(?P<name>.+?)"}
    return re.compile("".join(wildcards.get(part, part) for part in parts))

"""Lines of text between and below a ledger's rows, such as `Preliminary` or `as of 31 October`.

They are quoted in the result. If a line may change what the amounts mean, a person must read it.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import date

from warehouse.reconcile.ledger.days import stated_days
from warehouse.reconcile.ledger.header import Header
from warehouse.reconcile.model import FilePart, Unused
from warehouse.reconcile.settings.toml import quote_list
from warehouse.reconcile.terms import Ambiguous
from warehouse.spreadsheet.reading.delimited_text import Row
from warehouse.spreadsheet.reading.text import as_text, fold

NOTE = "title or note"  # the reason to skip a row
_MAX_QUOTED = 20  # maximum number of lines to quote
_MAX_LENGTH = 160  # maximum number of characters to quote from a line
# A longer line is a legal text. It is quoted, but it has such words for other reasons.
_MAX_ASKED = 160
# Words that say that amounts are left out, are cut off or may change, in several languages.
_CHANGES = re.compile(
    r"\bexclud(?:e[sd]?|ing)\b|\bexcl\.|\bnet of\b|\bprelim|\bprovision(?:al|isch|ale|nel)\b"
    r"|\bdraft\b|\btruncat|\bincomplete\b|\bnot final\b|\bprovisoire\b|\btronqu|\bhors\b"
    r"|\bvorl(?:\u00e4|ae)ufig|\bentwurf\b|\bohne\b|\bausgenommen\b|\babz(?:\u00fc|ue)glich\b"
    r"|\bgek(?:\u00fc|ue)rzt\b|\bunvollst(?:\u00e4|ae)ndig|\bexcluye|\bexcluido|\bprovvisori"
    r"|\besclus[oi]\b|\bvoorlopig\b|\bexclusief\b|\b[0-9][0-9.,]* (?:of|von|de|di|van|sur) "
    r"[0-9][0-9., ]* (?:rows|records|positions|lines|entries|zeilen|positionen|lignes|filas)\b",
    re.IGNORECASE,
)


def note_text(cells: Row) -> str:
    """Return the text of a line, with single spaces."""
    return " ".join(" ".join(map(as_text, cells)).split())


def unused_notes(head: Header, notes: Mapping[int, str]) -> Iterator[Unused]:
    """Yield the lines of text by row number, each with its text. Count the lines after the 20th."""
    counts = Counter(text[:_MAX_LENGTH] for text in notes.values())
    first = {text[:_MAX_LENGTH]: number for number, text in reversed([*notes.items()])}
    for text, count in [*counts.items()][:_MAX_QUOTED]:
        reason = f'{NOTE}: "{text}"'
        yield Unused(head.place, FilePart.ROW, f"row {first[text]}", reason, "low", count)
    if rest := sum([*counts.values()][_MAX_QUOTED:]):
        yield Unused(head.place, FilePart.ROW, "", NOTE, "low", rest)


def ask_for_notes(head: Header, notes: Mapping[int, str], stated: date | None) -> None:
    """Raise `Ambiguous` if a line may change what the amounts mean, and recon.toml lacks it.

    `stated` is the day that the ledger states elsewhere.
    """
    known = {*map(fold, head.shape.notes)}
    texts = [text for text in dict.fromkeys(notes.values()) if fold(text) not in known]
    asked = [text for text in texts if _may_change(text, stated)]
    if asked:
        shown = "; ".join(f'"{text[:_MAX_LENGTH]}"' for text in asked[:_MAX_QUOTED])
        line = f"notes = {quote_list([*head.shape.notes, *asked])}"
        raise Ambiguous(
            f"{head.place}: these lines may change what the amounts mean: {shown}. Amounts may be "
            "missing, provisional, or of another day. If the ledger can be compared anyway, add "
            "the lines to recon.toml. Otherwise, ask for a complete ledger.",
            f"{head.table}\n{line}   # read, and the amounts can be compared",
        )


def day_of_notes(notes: Mapping[int, str], day: date) -> date | None:
    """Return the day of the amounts that the lines state, with words like `as of`, or None."""
    days = stated_days(([text] for text in notes.values()), day)
    return day if day in days else max(days, default=None)


def _may_change(text: str, stated: date | None) -> bool:
    if len(text) > _MAX_ASKED:
        return False
    is_other_day = stated is not None and any(
        found != stated for found in stated_days([[text]], stated)
    )
    return is_other_day or bool(_CHANGES.search(text))

"""Tests of the lines about a held night: the worst reason is first, and similar ones are one."""

from pipelines.lake.reason_lines import lines_of, order
from pipelines.landing.reasons import Reason

MISSING = Reason("missing: portfolios", "1 portfolio that held money is missing: p1")
NOTICE = Reason("notice: meta.next: says that there is more", "a response looks like a page")
KNOWN = Reason("empty: venues", "the list of venues is empty", is_known=True)


def empty(name: str) -> Reason:
    """Return the reason that a venue is empty."""
    return Reason(f"slice: venue {name} gone", f"venue {name} is now empty, but had 3 before")


def test_the_worst_reason_is_first_and_harmless_ones_are_last() -> None:
    """Missing money comes before notices, and a reason that is known to be harmless comes last."""
    assert order([KNOWN, NOTICE, empty("a"), MISSING]) == (MISSING, empty("a"), NOTICE, KNOWN)


def test_many_reasons_of_one_kind_are_one_line() -> None:
    """Twelve empty venues are one line with the first of them, their count and five names."""
    venues = [empty(f"v {number:02}") for number in range(12)]
    first, second = lines_of([MISSING, *venues])
    assert first == MISSING.words
    assert second.startswith("venue v 00 is now empty, but had 3 before; 11 more reasons of this")
    assert "(venue gone: v 00, v 01, v 02, v 03, v 04 and 7 more)" in second


def test_few_reasons_of_one_kind_stay_apart() -> None:
    """Three reasons of one kind have a line each."""
    assert len(lines_of([empty("a"), empty("b"), empty("c")])) == 3

"""The values of breaks, and the limits in recon.toml that depend on them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from warehouse.contract.model import count_of, literal
from warehouse.exact import exact
from warehouse.reconcile.match.inputs import MatchInputs
from warehouse.reconcile.model import (
    ACCEPTED,
    BY_RULE,
    ENGINE,
    NEEDS_SECOND,
    OPEN,
    UNMAPPED,
    Break,
    History,
    Notice,
)
from warehouse.reconcile.settings.materiality import Materiality
from warehouse.reconcile.terms import CUSTOM

_VALUED = Path(__file__).with_name("valued.sql").read_text("utf-8")
_BOTH = 2  # number of people who must accept a large break


class Value(NamedTuple):
    """The value of a break, and the state of its price."""

    value: str | None
    price_state: str


def value_breaks(inputs: MatchInputs, limits: Materiality) -> dict[int, Value]:
    """Return the values of all breaks by pair number."""
    query = _VALUED.format(
        currency=literal(limits.currency),
        day=f"date {literal(inputs.source.day.isoformat())}",
        custom=literal(CUSTOM),
        unmapped=UNMAPPED,
    )
    return {no: Value(*row) for no, *row in inputs.connection.execute(query).fetchall()}


def apply_limits(
    break_: Break, value: Value, limits: Materiality, id_: str, history: History
) -> Break:
    """Return a break with its value, and with the status that the limits give it.

    `id_` is the break's ID in the comments. If a person reopened a break, it is not accepted by
    rule.
    """
    decision, note = history.comments.decision(id_), ""
    is_reopened = decision.by not in ("", ENGINE) and (decision.status, decision.episode) == (
        OPEN,
        break_.episode,
    )
    status = break_.status
    if status == OPEN and not is_reopened and limits.is_small(value.value):
        status, note = BY_RULE, f"its value is below {limits.accept_below:f} {limits.currency}"
    elif status == ACCEPTED and limits.is_large(value.value):
        people = history.acceptors(id_)
        note = f"accepted by {' and '.join(people) or 'a person without a name'}"
        if len(people) < _BOTH:
            status, above = NEEDS_SECOND, f"{limits.second_person_above:f} {limits.currency}"
            note += f", but its value is above {above} or not known, so it needs a second person"
    notes = "; ".join(filter(None, (note, break_.note)))
    changes = {"status": status, "note": notes, "currency": limits.currency}
    return replace(break_, **changes, **value._asdict())


def largest_first(break_: Break) -> tuple[bool, Decimal]:
    """Return a sort key: breaks without a value, and then the largest value first."""
    # Unlike the minus sign, `copy_negate` does not round.
    return break_.value is not None, exact(break_.value or "0").copy_negate()


def unpriced_notices(breaks: Sequence[Break], limits: Materiality) -> Iterator[Notice]:
    """Yield a notice if breaks have no value."""
    states = Counter(break_.price_state for break_ in breaks if break_.value is None)
    if not states:
        return
    counts = ", ".join(f"{count:,} {state}" for state, count in sorted(states.items()))
    yield Notice(
        "medium",
        f"{count_of(states.total(), 'break')} of {len(breaks):,} without a value in "
        f"{limits.currency} ({counts}). A break without a value is never below a limit. To give "
        "it a value, put a file with a price into reference/prices, and type "
        "`nightbook reference load` and `nightbook reconcile run`",
    )


def judge_again(
    breaks: Iterable[Break], limits: Materiality | None, history: History
) -> Iterator[Break]:
    """Yield breaks that were not compared. Today's limits apply to their last values."""
    for break_ in breaks:
        status = break_.status
        value = break_.value if limits and break_.currency == limits.currency else None
        if status == BY_RULE and not (limits and limits.is_small(value)):
            status = OPEN
        elif status == NEEDS_SECOND:
            is_large = limits is not None and limits.is_large(value)
            is_waiting = is_large and len(history.acceptors(break_.id)) < _BOTH
            status = NEEDS_SECOND if is_waiting else ACCEPTED
        yield break_ if status == break_.status else replace(break_, status=status)

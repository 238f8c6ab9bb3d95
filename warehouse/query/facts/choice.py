"""What a person means by an id or a name: one thing, or a sentence that says what there is."""

import difflib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from warehouse.contract.wording import and_more, count_of
from warehouse.query.printable import printable

_SHOWN = 8


class NothingThere(LookupError):
    """What was asked for is not in the book."""

    exit_code = 2


class SeveralMeant(LookupError):
    """What was asked for may be several things of the book."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class NamedThing:
    """Something that has an id, and may have a name for people."""

    id: str
    name: str | None = None

    @property
    def words(self) -> str:
        """As a person reads it, on one line."""
        name = "" if self.name is None or self.name == self.id else f" ({printable(self.name)})"
        return f"{printable(self.id)!r}{name}"

    @property
    def handles(self) -> tuple[str, ...]:
        """What it may be called."""
        return (self.id,) if self.name is None else (self.id, self.name)


def choose(asked: str, there: Sequence[NamedThing], *, noun: str, where: str) -> NamedThing:
    """Return what has that id, or else that name, at last whatever its case.

    Raises `NothingThere` and `SeveralMeant`.
    """
    folded = asked.casefold()
    by_case = [thing for thing in there if folded in map(str.casefold, thing.handles)]
    by_id = [thing for thing in there if thing.id == asked]
    for meant in (by_id, [thing for thing in there if thing.name == asked], by_case):
        if len(meant) == 1:
            return meant[0]
        if meant:
            raise SeveralMeant(
                f"{printable(asked)!r} may be {count_of(len(meant), noun)} of {where}: "
                f"{_list_words(meant)}. Nothing was traced. Give the id, as --{noun} "
                f"{shlex.quote(printable(meant[0].id))}"
            )
    raise NothingThere(
        f"There is no {noun} {printable(asked)!r} in {where}. {_what_is_there(asked, there, noun)} "
        "Nothing was traced."
    )


def _list_words(things: Sequence[NamedThing]) -> str:
    return and_more([thing.words for thing in things], _SHOWN)


def _what_is_there(asked: str, there: Sequence[NamedThing], noun: str) -> str:
    """Say what there is, what is spelt most like it first."""
    if not there:
        return f"It has no {noun} at all."
    by_handle = {handle.casefold(): thing for thing in there for handle in thing.handles}
    near = difflib.get_close_matches(asked.casefold(), by_handle, n=_SHOWN)
    ordered = dict.fromkeys([*(by_handle[handle] for handle in near), *there])
    return f"It has {count_of(len(there), noun)}: {_list_words(list(ordered))}."

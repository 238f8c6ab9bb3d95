"""The end of a pull: both lists are read once more, and what moved or vanished is looked into.

It costs two requests without any `include` on a night that stood still. What moved is read again
once; portfolios that are gone from the list are asked for by their id, which tells access that
was taken away from a portfolio that was deleted (4.1 rule 2, 4.2).
"""

from collections.abc import Callable, Mapping

from pipelines.edge.errors import InvalidId
from pipelines.edge.requests import get_portfolio, list_portfolios, list_venues
from pipelines.landing.manifest import (
    CLOSING,
    CONFIRMING,
    MOVED,
    MOVING,
    STILL,
    UNKNOWN,
    UNTOLD,
    Window,
)
from pipelines.pull import recorder
from pipelines.pull.recorder import CONFIRM_AFTER, PlannedRequest, Recorder


class Recheck:
    """Compares the end of a pull with its beginning.

    `instruments` reads those of some venues; `known` are the portfolios of the book before.
    `since` gives the seconds since the first lists were in, `left` those until the deadline.
    """

    def __init__(
        self,
        asking: Recorder,
        portfolios: PlannedRequest,
        venues: PlannedRequest,
        instruments: Callable[[list[str]], None],
        known: Mapping[str, bool],
        *,
        since: Callable[[], float],
        left: Callable[[], float | None],
    ) -> None:
        self._asking, self._instruments, self._known = asking, instruments, known
        self._portfolios, self._venues = portfolios, venues
        self._since, self._left = since, left

    def window(self, pause: Callable[[float], None]) -> Window:
        """Read the lists again and say how still the book stood.

        Raises `EdgeError` only where the key is refused: the book is landed already.
        """
        asking, first = self._asking, self._portfolios
        has_lost = bool(recorder.to_request(self._known, asking.marks[first.number]))
        if has_lost:
            pause(self._wait())
        after = round(self._since())
        second = asking.next_request("portfolios", list_portfolios(), purpose=CLOSING)
        venues = asking.next_request("venues", list_venues(), purpose=CLOSING)
        asking.ask([second, venues])
        state, moved = self._compare(second, venues)
        if not (has_lost and self._is_in(second)):
            return Window(state, moved, self._missing())
        return Window(
            state=state,
            moved=moved,
            missing=self._missing(),
            second_count=len(asking.marks[second.number]),
            second_after=after,
        )

    def _wait(self) -> float:
        """Return the seconds until a second read says more, at most half of what is left."""
        wait, left = max(0.0, CONFIRM_AFTER - self._since()), self._left()
        return wait if left is None else min(wait, max(0.0, left / 2))

    def _is_in(self, asked: PlannedRequest) -> bool:
        return asked.number in self._asking.marks

    def _compare(
        self, second: PlannedRequest, venues: PlannedRequest
    ) -> tuple[str, tuple[str, ...]]:
        """Return how still it stood, and what differed; what moved has been read again."""
        if not (self._is_in(second) and self._is_in(venues)):
            return UNKNOWN, ()
        marks = self._asking.marks
        differences = {
            "portfolios": recorder.difference(
                "portfolios", marks[self._portfolios.number], marks[second.number]
            ),
            "venues": recorder.difference(
                "venues", marks[self._venues.number], marks[venues.number]
            ),
        }
        moved = tuple(words for words in differences.values() if words)
        if not moved:
            return STILL, ()
        stood = [not differences["portfolios"] or self._again(second)]
        stood.append(not differences["venues"] or self._venues_again(venues))
        return (MOVED if all(stood) else MOVING), moved

    def _again(self, second: PlannedRequest) -> bool:
        """Read the portfolios again, as the book; whether they are as at the second read."""
        asking = self._asking
        again = asking.next_request("portfolios", list_portfolios(integrations=True))
        asking.ask([again])
        if not self._is_in(again):
            return False
        asking.replace(again.call.operation, but=again.number)
        self._portfolios = again
        return asking.marks[again.number] == asking.marks[second.number]

    def _venues_again(self, second: PlannedRequest) -> bool:
        """Read the venues again, and the instruments of those that are new or were changed."""
        asking = self._asking
        again = asking.next_request("venues", list_venues(instruments=True))
        asking.ask([again])
        if not self._is_in(again):
            return False
        before, after = asking.marks[self._venues.number], asking.marks[again.number]
        asking.replace(again.call.operation, but=again.number)
        # Only venues that are new or were changed are asked for their instruments again; the
        # others' lists stay the book.
        changed = recorder.changed_ids(before, after)
        asking.replace("list_instruments", venues=changed)
        asking.failed -= changed
        for venue in changed:
            asking.listed.pop(venue, None)
        self._instruments(sorted(changed & after.keys()))
        return after == asking.marks[second.number]

    def _missing(self) -> dict[str, str]:
        """Ask the API by id for portfolios of the book before that the list lacks."""
        asking = self._asking
        asked: dict[str, PlannedRequest] = {}
        fates: dict[str, str] = {}
        for portfolio_id in recorder.to_request(self._known, asking.marks[self._portfolios.number]):
            try:
                call = get_portfolio(portfolio_id)
            except InvalidId:
                fates[portfolio_id] = UNTOLD
            else:
                asked[portfolio_id] = asking.next_request("portfolio", call, purpose=CONFIRMING)
        asking.ask(asked.values())
        for portfolio_id, request in asked.items():
            error = asking.errors.get(request.number)
            is_another = error is None and portfolio_id not in asking.marks.get(request.number, ())
            fates[portfolio_id] = UNTOLD if is_another else recorder.final_state(error)
        return dict(sorted(fates.items()))

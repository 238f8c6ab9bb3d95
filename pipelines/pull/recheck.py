"""The recheck at the end of a pull, which rereads both lists and requests missing portfolios.

The lists of portfolios and venues are reread. If nothing has changed, this takes two requests
without `include`. If a list has changed, it is reread once. Portfolios that have left the list are
requested by ID, because the response shows whether access was removed or the portfolio was deleted
(4.1 rule 2, 4.2).
"""

from collections.abc import Callable, Mapping

from pipelines.edge.errors import InvalidId
from pipelines.edge.requests import Call, get_portfolio, list_portfolios, list_venues
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
    """A comparison of the lists of portfolios and venues at the end and at the beginning of a pull.

    `instruments` reads some venues' instruments. `known` maps the previous book's portfolios to
    whether each had money. `since` returns the seconds since the first lists were read, and `left`
    returns the seconds until the deadline.
    """

    def __init__(
        self,
        session: Recorder,
        portfolios: PlannedRequest,
        venues: PlannedRequest,
        instruments: Callable[[list[str]], None],
        known: Mapping[str, bool],
        *,
        since: Callable[[], float],
        left: Callable[[], float | None],
    ) -> None:
        self._recorder, self._instruments, self._known = session, instruments, known
        self._portfolios, self._venues = portfolios, venues
        self._since, self._left = since, left

    def window(self, pause: Callable[[float], None]) -> Window:
        """Reread the lists, and return the changes since the beginning of the pull.

        The book's responses are already stored at this point, so only a refused key raises
        `EdgeError`.
        """
        session, first = self._recorder, self._portfolios
        has_lost = bool(recorder.to_request(self._known, session.marks[first.number]))
        if has_lost:
            pause(self._seconds_to_wait())
        after = round(self._since())
        second = session.next_request("portfolios", list_portfolios(), purpose=CLOSING)
        venues = session.next_request("venues", list_venues(), purpose=CLOSING)
        session.send([second, venues])
        state, moved = self._compare(second, venues)
        is_confirmed = has_lost and self._was_read(second)
        return Window(
            state=state,
            moved=moved,
            missing=self._missing(),
            second_count=len(session.marks[second.number]) if is_confirmed else None,
            second_after=after if is_confirmed else None,
        )

    def _seconds_to_wait(self) -> float:
        """Return the seconds to wait before the second read, at most half of the remaining time."""
        wait, left = max(0.0, CONFIRM_AFTER - self._since()), self._left()
        return wait if left is None else min(wait, max(0.0, left / 2))

    def _was_read(self, asked: PlannedRequest) -> bool:
        """Return whether a request for a list succeeded and its records were read."""
        return asked.number in self._recorder.marks

    def _compare(
        self, second: PlannedRequest, venues: PlannedRequest
    ) -> tuple[str, tuple[str, ...]]:
        """Compare both reads of each list, reread changed lists. Return the state and changes."""
        if not (self._was_read(second) and self._was_read(venues)):
            return UNKNOWN, ()
        marks = self._recorder.marks
        differences = {
            "portfolios": recorder.difference(
                "portfolios", marks[self._portfolios.number], marks[second.number]
            ),
            "venues": recorder.difference(
                "venues", marks[self._venues.number], marks[venues.number]
            ),
        }
        moved = tuple(difference for difference in differences.values() if difference)
        if not moved:
            return STILL, ()
        is_stable = [not differences["portfolios"] or self._reread_portfolios(second)]
        is_stable.append(not differences["venues"] or self._reread_venues(venues))
        return (MOVED if all(is_stable) else MOVING), moved

    def _reread(self, name: str, call: Call) -> PlannedRequest | None:
        """Reread a list, and use the new response for the book. Return None if this fails."""
        reread = self._recorder.next_request(name, call)
        self._recorder.send([reread])
        if not self._was_read(reread):
            return None
        self._recorder.replace(call.operation, but=reread.number)
        return reread

    def _reread_portfolios(self, second: PlannedRequest) -> bool:
        """Reread the list of portfolios, and use it for the book.

        Return whether the list has not changed since the second read.
        """
        session = self._recorder
        reread = self._reread("portfolios", list_portfolios(integrations=True))
        if reread is None:
            return False
        self._portfolios = reread
        return session.marks[reread.number] == session.marks[second.number]

    def _reread_venues(self, second: PlannedRequest) -> bool:
        """Reread the list of venues, and the instruments of new or changed venues.

        Return whether the list has not changed since the second read.
        """
        session = self._recorder
        reread = self._reread("venues", list_venues(instruments=True))
        if reread is None:
            return False
        before, after = session.marks[self._venues.number], session.marks[reread.number]
        # Reread instruments only for new and changed venues. For all other venues, the first
        # instrument lists remain in the book.
        changed = recorder.changed_ids(before, after)
        session.replace("list_instruments", venues=changed)
        session.failed -= changed
        for venue in changed:
            session.listed.pop(venue, None)
        self._instruments(sorted(changed & after.keys()))
        return after == session.marks[second.number]

    def _missing(self) -> dict[str, str]:
        """Request by ID each portfolio that is no longer listed. Return the result for each ID."""
        session = self._recorder
        asked: dict[str, PlannedRequest] = {}
        fates: dict[str, str] = {}
        for portfolio_id in recorder.to_request(
            self._known, session.marks[self._portfolios.number]
        ):
            try:
                call = get_portfolio(portfolio_id)
            except InvalidId:
                fates[portfolio_id] = UNTOLD
            else:
                asked[portfolio_id] = session.next_request("portfolio", call, purpose=CONFIRMING)
        session.send(asked.values())
        for portfolio_id, request in asked.items():
            error = session.errors.get(request.number)
            is_other = error is None and portfolio_id not in session.marks.get(request.number, ())
            fates[portfolio_id] = UNTOLD if is_other else recorder.final_state(error)
        return dict(sorted(fates.items()))

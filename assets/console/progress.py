"""Progress of long work: a bar where somebody watches, a line now and then in a log.

Both are paced by the keeper's clock: a bar does not flicker, and a log of a long night has lines
to show that it goes on, while that of a short one has none.
"""

from collections.abc import Callable
from datetime import timedelta

from assets.nightbook import Nightbook, Tell
from warehouse.progress import Progress, Say, silent

GLIMPSE = timedelta(seconds=0.1)
EVERY = timedelta(seconds=10)


def progress_reporter(
    nightbook: Nightbook, tell: Tell | None, event: str, snapshot: str = ""
) -> Say:
    """Return what hears how far work is: a bar if somebody watches, else lines of a log."""
    # It is called by one thread at a time: a `Tally` sees to that. A bar moves with each thing that
    # is done, and ten times a second in between; a log has a line every ten seconds.
    if nightbook.watch is not None:
        return _throttle(nightbook, nightbook.watch, GLIMPSE, each=True)
    if tell is None:
        return silent

    def line(progress: Progress) -> None:
        tell(progress.words, event=event, snapshot=snapshot)

    return _throttle(nightbook, line, EVERY, each=False)


def _throttle(
    nightbook: Nightbook, show: Callable[[Progress], None], pause: timedelta, *, each: bool
) -> Say:
    # Paced by the keeper's clock, not by counts: reports come by the thousand in a second or once
    # in a minute. With `each` a change of the count is shown at once, bytes only with the pace.
    last, next_at = (-1, ""), nightbook.now() + pause

    def say(progress: Progress) -> None:
        nonlocal last, next_at
        now, at = nightbook.now(), (progress.done, progress.things)
        if now >= next_at or (each and at != last):
            last, next_at = at, now + pause
            show(progress)

    return say

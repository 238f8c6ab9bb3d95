"""Whether a store keeps its word: what was created is not created again, nor swapped unseen.

Some take the conditions of a request and ignore them: two writers would both believe to have
committed, and one night would be lost in silence. Such a store is refused before anything is on it.
"""

from pipelines.shelf.object_keys import PROBE
from pipelines.shelf.object_store import ObjectStore, StoreFailed

TRIES = 5


class BreaksItsWord(Exception):
    """A store takes a write that it was told to refuse."""

    exit_code = 2

    def __init__(self, url: str, what: str) -> None:
        super().__init__(
            f"The store of {url} does not keep its word: {what}. Two machines could overwrite each "
            "other's nights there unseen, so nothing is shelved on it. Use a store with "
            "conditional writes (S3 and most that speak its language, Azure, Google), or a newer "
            "version of this one; nightbook doctor probes it again."
        )


def probe(store: ObjectStore, token: str) -> None:
    """See that a second create and a swap with a stale tag are refused; raises `BreaksItsWord`."""
    first, second, third = (f"{token} {number}\n".encode() for number in range(3))
    store.put_new(PROBE, first)  # it is there from now on, if it was not before
    if store.put_new(PROBE, second) or _content(store) == second:
        raise BreaksItsWord(store.address.url, "it created an object that was there already")
    for _ in range(TRIES):
        there = store.get(PROBE)
        if there is None:
            raise BreaksItsWord(store.address.url, "it took an object and does not have it")
        if store.swap(PROBE, second, there.tag):
            if store.swap(PROBE, third, there.tag) or _content(store) == third:
                raise BreaksItsWord(
                    store.address.url, "it replaced an object that had changed since it was read"
                )
            return
    raise StoreFailed(store.address.url, f"swap {PROBE}", "others kept changing it")


def _content(store: ObjectStore) -> bytes:
    there = store.get(PROBE)
    return b"" if there is None else there.content

"""What is on the shelf: the newest manifest of each night, and each of them read and proved."""

import contextlib
from collections.abc import Iterable
from pathlib import Path

import msgspec

from pipelines.landing.sealed_json import Damaged
from pipelines.shelf.night_manifest import ADVICE, NightManifest, decode
from pipelines.shelf.object_keys import FOLDER, LATEST, generation_of
from pipelines.shelf.object_store import ObjectStore, StoreFailed
from warehouse.contract.wording import count_of


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """What `LATEST` holds: the newest manifest, and the token of the run that wrote it."""

    snapshot_id: str = ""
    generation: int = 0
    manifest: str = ""
    token: str = ""

    @property
    def rank(self) -> tuple[str, int]:
        """What a newer one has more of."""
        return (self.snapshot_id, self.generation)


def read_head(content: bytes) -> Head:
    """Return what `LATEST` says; nothing where it is not readable, and the next writer mends it."""
    with contextlib.suppress(msgspec.MsgspecError):
        return msgspec.json.decode(content, type=Head)
    return Head()


def newest_manifests(store: ObjectStore, known: Iterable[str] = ()) -> dict[str, str]:
    """Return the key of the newest generation of each night, by its id.

    Raises `Damaged` where the store does not list what `LATEST` names: of a list that is not whole,
    a night that is missing would look like one that never was. Raises `StoreFailed` if one of the
    `known` nights is missing, as in the empty folder of a disk that is not mounted.
    """
    head = store.get(LATEST)  # read first: what is named by then must be listed
    keys = [entry.key for entry in store.list(f"{FOLDER}/")]
    named = read_head(head.content).manifest if head else ""
    if named and named not in keys:
        raise Damaged(Path(FOLDER), f"a list of {len(keys)} without {named}", "it", ADVICE)
    newest: dict[str, tuple[int, str]] = {}
    for key in keys:
        snapshot_id, generation = generation_of(key)
        if snapshot_id and generation > newest.get(snapshot_id, (0, ""))[0]:
            newest[snapshot_id] = (generation, key)
    if lost := sorted(set(known) - newest.keys()):
        raise StoreFailed(
            store.address.url,
            f"list {lost[-1]}",
            f"{count_of(len(lost), 'night')} that this home found there before "
            f"{'is' if len(lost) == 1 else 'are'} missing. Is the store mounted, and its address "
            "right? If they were deleted, remove shelf.json in this home to shelve all again",
        )
    return {snapshot_id: key for snapshot_id, (_, key) in sorted(newest.items())}


def read_night(store: ObjectStore, key: str) -> NightManifest:
    """Read a manifest that is listed; raises `Damaged` where it is not as it was written."""
    content = store.get(key)
    if content is None:
        raise StoreFailed(store.address.url, f"give {key}", "it was listed, and is not there")
    return decode(content.content, key)

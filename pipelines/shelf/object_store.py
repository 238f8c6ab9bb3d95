"""An object store by a few verbs, whoever runs it: the one home of obstore.

Nothing is locked, renamed, overwritten or streamed into the store. Files go up whole, from disk,
to keys of their own; what others rely on is created once (`put_new`), or swapped against the tag
of what was read (`swap`). A store that does not keep its word on those two is refused by `probe`.
"""

import contextlib
import fcntl
import importlib
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipelines.shelf.address import SETTING, StoreAddress
from warehouse.storage.layout import FILE_MODE, make_directory

CLIENT = {"connect_timeout": "10s", "timeout": "600s"}
RETRIES = 5
TRIES = 3
CHUNK = 8 * 1024 * 1024
LONGEST = 500
ERRORS = (OSError, ValueError, NotImplementedError)
_QUERY = re.compile(r"\?\S+")
SECRET = re.compile(r"KEY|SECRET|TOKEN|SAS|PASSWORD|CREDENTIAL", re.IGNORECASE)
LEAST_SECRET = 6
_SERVER = re.compile(r"Error performing [A-Z]+ (https?://[^/\s?]+)")
_STATUS = re.compile(r"status code: (\d{3}[A-Za-z ]*)")
_ELEMENT = re.compile(r"<(Code|Message)>\s*(.*?)\s*</\1>", re.DOTALL)
_CAUSE = re.compile(r'(?:message|error): "((?:[^"\\]|\\.)*)"')
# Where a library looks for the role of a machine in a cloud, if no keys are given.
_METADATA = re.compile(r"//(169\.254\.|\[?fd00:ec2:|metadata\.)")
KEYS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS",
}
KEYS_OF_AZURE = (
    "AZURE_STORAGE_ACCOUNT_KEY, or AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET"
)


class StoreFailed(Exception):
    """The object store could not be reached, or did not do what was asked."""

    def __init__(self, url: str, doing: str, why: str) -> None:
        super().__init__(
            f"The shelf {url} did not {doing}: {why}. This machine's book is untouched, and no "
            "reader of the shelf sees anything half. See that the store can be reached and that "
            "its keys are right (nightbook doctor), then: nightbook shelve"
        )


class StoreNotInstalled(Exception):
    """A shelf is set, and what reaches it is not there."""

    exit_code = 2

    def __init__(self) -> None:
        super().__init__(
            f"{SETTING} is set, and the package that reaches object stores is not installed. "
            "Nothing was shelved or fetched, and this machine's book is untouched. Install it "
            "where nightbook is (pip install 'nightbook[lakehouse]'), or unset the setting."
        )


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object as the store lists it."""

    key: str
    size: int


@dataclass(frozen=True, slots=True)
class Content:
    """What an object holds, and the tag by which it may be swapped."""

    content: bytes
    tag: str


@dataclass(frozen=True, slots=True)
class ObjectStore:
    """A place in an object store; every key is below its prefix."""

    address: StoreAddress
    client: Any
    library: Any = field(repr=False)

    def put_file(self, key: str, path: Path) -> None:
        """Upload a finished file under a key that is its alone."""
        with self._naming(f"take {key}"):
            self.library.put(self.client, key, path)

    def put_new(self, key: str, content: bytes) -> bool:
        """Create an object; False where another one is there already.

        An answer that was lost makes the client ask again, and the store then refuses what it
        took: where the very bytes are there, they are these (they hold the writer's token).
        """
        for _ in range(TRIES):
            with self._naming(f"create {key}"):
                try:
                    self.library.put(self.client, key, content, mode="create")
                except self._refusals:
                    if (there := self.get(key)) is not None:
                        return there.content == content
                else:
                    return True
        raise self._failure(f"create {key}", "it says that one is there, and gives none")

    def get(self, key: str) -> Content | None:
        """Read an object; None where there is none."""
        with self._naming(f"give {key}"):
            try:
                answer = self.library.get(self.client, key)
                content = bytes(answer.bytes())
            except FileNotFoundError:
                return None
            return Content(content, str(answer.meta["e_tag"]))

    def get_blocks(self, key: str, offset: int, size: int) -> Iterator[bytes]:
        """Read part of an object, block by block; ends early where it is shorter or not there."""
        for start in range(offset, offset + size, CHUNK):
            with self._naming(f"give {key}"):
                length = min(CHUNK, offset + size - start)
                try:
                    yield bytes(
                        self.library.get_range(self.client, key, start=start, length=length)
                    )
                except FileNotFoundError:
                    return

    def list(self, prefix: str) -> list[StoredObject]:
        """Return the objects below a prefix that ends a folder, by their keys."""
        with self._naming(f"list {prefix}"):
            entries = [meta for page in self.library.list(self.client, prefix) for meta in page]
        return sorted(
            (StoredObject(str(meta["path"]), int(meta["size"])) for meta in entries),
            key=lambda entry: entry.key,
        )

    def head(self, key: str) -> StoredObject | None:
        """Return an object without reading it; None where there is none."""
        with self._naming(f"tell of {key}"):
            try:
                meta = self.library.head(self.client, key)
            except FileNotFoundError:
                return None
            return StoredObject(key, int(meta["size"]))

    def swap(self, key: str, content: bytes, tag: str) -> bool:
        """Replace an object that still has a tag; False where it has changed since."""
        with self._naming(f"swap {key}"):
            try:
                if (folder := self.address.folder) is not None:
                    return self._swap_on_disk(folder, key, content, tag)
                self.library.put(self.client, key, content, mode={"e_tag": tag})
            except self._refusals:
                there = self.get(key)
                return there is not None and there.content == content
            return True

    def _swap_on_disk(self, folder: Path, key: str, content: bytes, tag: str) -> bool:
        """Swap in a folder: obstore cannot, and on one disk a lock does."""
        descriptor = os.open(folder / ".swap", os.O_RDWR | os.O_CREAT, FILE_MODE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            there = self.get(key)
            if there is None or there.tag != tag:
                return False
            self.library.put(self.client, key, content)
            return True
        finally:
            os.close(descriptor)

    def delete(self, keys: Sequence[str]) -> None:
        """Delete objects that nothing names any more; those that are gone already are no fault."""
        with self._naming("delete what was pruned"), contextlib.suppress(FileNotFoundError):
            self.library.delete(self.client, list(keys))

    @property
    def _refusals(self) -> tuple[type[Exception], ...]:
        """What is raised where a condition does not hold."""
        errors = self.library.exceptions
        return (errors.AlreadyExistsError, errors.PreconditionError)

    @contextlib.contextmanager
    def _naming(self, doing: str) -> Iterator[None]:
        """Say in our words what failed; what a library says may hold a key."""
        try:
            yield
        except (self.library.exceptions.BaseError, *ERRORS) as error:
            raise self._failure(doing, str(error) or type(error).__name__) from None

    def _failure(self, doing: str, said: str) -> StoreFailed:
        why = _reason(said, self.address.url)
        for name, value in {**os.environ, **self.address.options}.items():
            if SECRET.search(name) and len(value) >= LEAST_SECRET:
                why = why.replace(value, "...")
        return StoreFailed(self.address.url, doing, why[:LONGEST])


def _reason(said: str, url: str) -> str:
    """Return why a store failed, from what a library says: its reason is last, or in the answer."""
    text, _, details = said.partition("\n\nDebug source:")
    text = _QUERY.sub("?...", " ".join(text.split()))
    if _METADATA.search(text):
        keys = KEYS.get(url.partition(":")[0], KEYS_OF_AZURE)
        return f"no keys are set, and this machine has no role that the store knows; set {keys}"
    reasons = [found[1] for found in [_STATUS.search(text)] if found]
    reasons += [" ".join(content.split()) for _, content in _ELEMENT.findall(said)[:2]]
    reasons += [] if reasons else _CAUSE.findall(details)[-1:]
    server = _SERVER.search(text)
    if server is None or not reasons:
        return text
    return f"{server[1]} says {': '.join(reason.strip() for reason in reasons)}"


def open_store(address: StoreAddress) -> ObjectStore:
    """Return the store of an address; nothing is asked of it yet. Raises `StoreNotInstalled`."""
    # Loaded here, and only where a shelf is set: one machine needs neither it nor its loading time.
    try:
        stores = importlib.import_module("obstore.store")
    except ModuleNotFoundError:
        raise StoreNotInstalled from None
    library = importlib.import_module("obstore")
    if (folder := address.folder) is not None:
        make_directory(folder)
        return ObjectStore(address, stores.LocalStore(folder), library)
    try:
        client = stores.from_url(
            address.url,
            config={name.lower(): value for name, value in address.options.items()},
            client_options=CLIENT | {"allow_http": address.is_plain},
            retry_config={"max_retries": RETRIES},
        )
    except (library.exceptions.BaseError, ValueError) as error:
        why = _reason(str(error), address.url)[:LONGEST]
        raise StoreFailed(address.url, "open", why) from None
    return ObjectStore(address, client, library)

"""The object store: its operations, its errors, and a test of its guarantees."""

import contextlib
import fcntl
import importlib
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pipelines.lakehouse import SHELF
from pipelines.lakehouse.addresses import StoreAddress
from pipelines.lakehouse.errors import (
    NotInstalled,
    StoreFailed,
    UnsafeStoreError,
    without_secrets,
)
from warehouse.storage.layout import FILE_MODE, make_directory

PROBE = "probe"
CLIENT = {"connect_timeout": "10s", "timeout": "600s"}
MAX_RETRIES = 5
MAX_ATTEMPTS = 3
MAX_PROBE_ATTEMPTS = 5
CHUNK = 8 * 1024 * 1024
ERRORS = (OSError, ValueError, NotImplementedError)
KEYS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS",
}
KEYS_OF_AZURE = (
    "AZURE_STORAGE_ACCOUNT_KEY, or AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET"
)
_SERVER = re.compile(r"Error performing [A-Z]+ (https?://[^/\s?]+)")
_STATUS = re.compile(r"status code: (\d{3}[A-Za-z ]*)")
_ELEMENT = re.compile(r"<(Code|Message)>\s*(.*?)\s*</\1>", re.DOTALL)
_CAUSE = re.compile(r'(?:message|error): "((?:[^"\\]|\\.)*)"')
# If no keys are set, the library looks up the machine's cloud role at these addresses.
_METADATA = re.compile(r"//(169\.254\.|\[?fd00:ec2:|metadata\.)")


class Content(NamedTuple):
    """An object's content, and the tag (ETag) that is needed to replace this version."""

    content: bytes
    tag: str


@dataclass(frozen=True, slots=True)
class ObjectStore:
    """A location in an object store. All keys are relative to this location."""

    address: StoreAddress
    client: Any
    library: Any = field(repr=False)

    def put_file(self, key: str, path: os.PathLike[str]) -> None:
        """Upload a file. Other content must never be stored under the same key."""
        with self._translating_errors(f"store {key}"):
            self.library.put(self.client, key, path)

    def put_new(self, key: str, content: bytes) -> bool:
        """Create an object. Return False if a different object already has this key."""
        return self._put_if(key, content, "create")

    def get(self, key: str) -> Content | None:
        """Read an object. Return None if it does not exist."""
        with self._translating_errors(f"return {key}"):
            try:
                response = self.library.get(self.client, key)
                content = bytes(response.bytes())
            except FileNotFoundError:
                return None
            return Content(content, str(response.meta["e_tag"]))

    def get_blocks(self, key: str, offset: int, size: int) -> Iterator[bytes]:
        """Read a range of an object, and yield it in blocks. Stop early if the object ends."""
        for start in range(offset, offset + size, CHUNK):
            with self._translating_errors(f"return {key}"):
                length = min(CHUNK, offset + size - start)
                try:
                    yield bytes(
                        self.library.get_range(self.client, key, start=start, length=length)
                    )
                except FileNotFoundError:
                    return

    def list(self, prefix: str) -> dict[str, int]:
        """Map the keys that start with a folder name to the sizes of their objects, sorted."""
        with self._translating_errors(f"list {prefix}"):
            entries = [meta for page in self.library.list(self.client, prefix) for meta in page]
        return dict(sorted((str(meta["path"]), int(meta["size"])) for meta in entries))

    def size_of(self, key: str) -> int | None:
        """Return the size of an object in bytes, or None if the object does not exist."""
        with self._translating_errors(f"return the size of {key}"):
            try:
                return int(self.library.head(self.client, key)["size"])
            except FileNotFoundError:
                return None

    def swap(self, key: str, content: bytes, tag: str) -> bool:
        """Replace an object, but only if its tag is still `tag`. Return whether it was replaced."""
        if self.address.folder is None:
            return self._put_if(key, content, {"e_tag": tag})
        with self._translating_errors(f"swap {key}"):
            return self._swap_on_disk(key, content, tag)

    def _put_if(self, key: str, content: bytes, condition: str | dict[str, str]) -> bool:
        """Write an object under a condition. Return False if the store refuses the condition.

        If the store's response is lost, the client retries, and the store refuses the object that
        it now has. So if the existing object has the same bytes, including this writer's token,
        this writer wrote it.
        """
        for _ in range(MAX_ATTEMPTS):
            with self._translating_errors(f"write {key}"):
                try:
                    self.library.put(self.client, key, content, mode=condition)
                except self._refusals:
                    if (existing := self.get(key)) is not None:
                        return existing.content == content
                else:
                    return True
        raise self._failure(f"write {key}", "the store refuses to write it, but does not have it")

    def _swap_on_disk(self, key: str, content: bytes, tag: str) -> bool:
        """Replace a file while holding a lock, because obstore cannot compare tags on disk."""
        lock = os.open(f"{self.address.folder}/.swap", os.O_RDWR | os.O_CREAT, FILE_MODE)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            existing = self.get(key)
            if existing is None or existing.tag != tag:
                return False
            self.library.put(self.client, key, content)
            return True
        finally:
            os.close(lock)

    def delete(self, keys: Sequence[str]) -> None:
        """Delete objects that are no longer referenced. Missing objects are ignored."""
        with (
            self._translating_errors("delete the pruned nights"),
            contextlib.suppress(FileNotFoundError),
        ):
            self.library.delete(self.client, list(keys))

    @property
    def _refusals(self) -> tuple[type[Exception], ...]:
        """The errors that obstore raises if the store refuses a conditional write."""
        errors = self.library.exceptions
        return (errors.AlreadyExistsError, errors.PreconditionError)

    @contextlib.contextmanager
    def _translating_errors(self, doing: str) -> Iterator[None]:
        """Convert the library's errors to `StoreFailed`, without secrets in the message."""
        try:
            yield
        except (self.library.exceptions.BaseError, *ERRORS) as error:
            raise self._failure(doing, str(error) or type(error).__name__) from None

    def _failure(self, doing: str, library_message: str) -> StoreFailed:
        return _failure(self.address, doing, library_message)


def open_store(address: StoreAddress) -> ObjectStore:
    """Return the object store at an address, without connecting. Raises `NotInstalled`."""
    # A single machine does not need the package, so it may be missing.
    try:
        stores = importlib.import_module("obstore.store")
    except ModuleNotFoundError:
        problem = f"{SHELF} is set, but the package for object stores is not installed"
        raise NotInstalled(problem, "nightbook[lakehouse]") from None
    library = importlib.import_module("obstore")
    if (folder := address.folder) is not None:
        make_directory(folder)
        return ObjectStore(address, stores.LocalStore(folder), library)
    try:
        client = stores.from_url(
            address.url,
            config={name.lower(): value for name, value in address.options.items()},
            client_options=CLIENT | {"allow_http": address.is_plain},
            retry_config={"max_retries": MAX_RETRIES},
        )
    except (library.exceptions.BaseError, ValueError) as error:
        raise _failure(address, "open", str(error)) from None
    return ObjectStore(address, client, library)


def probe(store: ObjectStore, token: str) -> None:
    """Check that the store refuses to overwrite an object that another machine has written.

    It must refuse to create an object that already exists, and to replace an object whose tag has
    changed. Raises `UnsafeStoreError`.
    """
    url = store.address.url
    first, second, third = (f"{token} {number}\n".encode() for number in range(3))
    # Create the test object, unless an earlier test has already created it.
    store.put_new(PROBE, first)
    if store.put_new(PROBE, second) or _has_content(store, second):
        raise UnsafeStoreError(url, "it created an object that already existed")
    for _ in range(MAX_PROBE_ATTEMPTS):
        existing = store.get(PROBE)
        if existing is None:
            raise UnsafeStoreError(url, "it accepted an object but did not store it")
        if store.swap(PROBE, second, existing.tag):
            if store.swap(PROBE, third, existing.tag) or _has_content(store, third):
                raise UnsafeStoreError(
                    url, "it replaced an object that had changed since it was read"
                )
            return
    raise StoreFailed(url, f"swap {PROBE}", "other machines keep changing it")


def _has_content(store: ObjectStore, content: bytes) -> bool:
    """Return whether the test object has this content."""
    existing = store.get(PROBE)
    return existing is not None and existing.content == content


def _failure(address: StoreAddress, doing: str, library_message: str) -> StoreFailed:
    """Build a `StoreFailed` from the library's message, without secrets."""
    reason = without_secrets(_reason(library_message, address.url), address.options)
    return StoreFailed(address.url, doing, reason)


def _reason(library_message: str, url: str) -> str:
    """Extract a short reason from the library's error message, which may quote the response."""
    text, _, details = library_message.partition("\n\nDebug source:")
    if _METADATA.search(text):
        keys = KEYS.get(url.partition(":")[0], KEYS_OF_AZURE)
        return f"no keys are set, and this machine has no role with access to the store. Set {keys}"
    reasons = [found[1] for found in [_STATUS.search(text)] if found]
    reasons += [content for _, content in _ELEMENT.findall(library_message)[:2]]
    reasons += [] if reasons else _CAUSE.findall(details)[-1:]
    server = _SERVER.search(text)
    if server is None or not reasons:
        return text
    return f"{server[1]}: {': '.join(reason.strip() for reason in reasons)}"

"""The object store: its address, keys and operations, and a test of its guarantees."""

import contextlib
import fcntl
import importlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from pipelines.edge.access import is_loopback
from warehouse.storage.layout import FILE_MODE, make_directory

SETTING: Final = "NIGHTBOOK_LAKE"
SCHEMES: Final = ("s3", "az", "abfs", "abfss", "gs", "file")
ENDPOINTS: Final = (
    *("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT"),
    *("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
)
# The object store variables that nightbook reads from `.env`. obstore itself also reads its
# variables from the process environment.
OPTIONS: Final = (
    *ENDPOINTS,
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
    *("AWS_REGION", "AWS_DEFAULT_REGION"),
    *("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_SAS_KEY"),
    *("AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET", "AZURE_TENANT_ID"),
    *("GOOGLE_SERVICE_ACCOUNT", "GOOGLE_APPLICATION_CREDENTIALS"),
)
LATEST = "LATEST"
PROBE = "probe"
FOLDER = "manifests"
# The number of SHA-256 digits in a key, enough to distinguish all versions of a night's table.
DIGEST_DIGITS = 16
_MANIFEST = re.compile(rf"{FOLDER}/([0-9]{{8}}T[0-9]{{6}}Z)-([0-9]{{4,9}})\.json")
CLIENT = {"connect_timeout": "10s", "timeout": "600s"}
RETRIES = 5
MAX_ATTEMPTS = 3
CHUNK = 8 * 1024 * 1024
MAX_REASON_LENGTH = 500
ERRORS = (OSError, ValueError, NotImplementedError)
_QUERY = re.compile(r"\?\S+")
SECRET = re.compile(r"KEY|SECRET|TOKEN|SAS|PASSWORD|CREDENTIAL", re.IGNORECASE)
LEAST_SECRET = 6
_SERVER = re.compile(r"Error performing [A-Z]+ (https?://[^/\s?]+)")
_STATUS = re.compile(r"status code: (\d{3}[A-Za-z ]*)")
_ELEMENT = re.compile(r"<(Code|Message)>\s*(.*?)\s*</\1>", re.DOTALL)
_CAUSE = re.compile(r'(?:message|error): "((?:[^"\\]|\\.)*)"')
# If no keys are set, the library looks up the machine's cloud role at these addresses.
_METADATA = re.compile(r"//(169\.254\.|\[?fd00:ec2:|metadata\.)")
KEYS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS",
}
KEYS_OF_AZURE = (
    "AZURE_STORAGE_ACCOUNT_KEY, or AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET"
)
MAX_PROBE_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """The address and options of a shelf. The repr omits options, which may contain keys."""

    url: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def folder(self) -> Path | None:
        """The shelf's folder if it is on a disk, or None if it is in an object store."""
        parts = urlsplit(self.url)
        return Path(parts.path) if parts.scheme == "file" else None

    @property
    def is_plain(self) -> bool:
        """Whether the store is on this machine and uses http without TLS."""
        return any(self.options.get(name, "").startswith("http://") for name in ENDPOINTS)


def read_address(variables: Mapping[str, str], complaints: list[str]) -> StoreAddress | None:
    """Return the shelf's address, or None if no shelf is configured.

    Append errors to `complaints`.
    """
    url = variables.get(SETTING, "").strip().rstrip("/")
    options = {name: value for name in OPTIONS if (value := variables.get(name, "").strip())}
    if not url:
        return None
    complaints += [f"{SETTING} {problem}" for problem in _address_problems(url)]
    complaints += _endpoint_problems(options)
    return StoreAddress(url, options)


def _address_problems(url: str) -> Iterator[str]:
    """Yield the problems with a shelf's address. Do not quote it, because it may contain a key."""
    try:
        parts = urlsplit(url)
    except ValueError:
        yield "is not a valid address. Use an address such as s3://bucket/book."
        return
    is_named = parts.scheme in ("abfs", "abfss")  # urlsplit parses container@account as user@host
    if parts.scheme not in SCHEMES:
        yield (
            "is not the address of an object store. Use s3://bucket/book, az://container/book, "
            "gs://bucket/book or file:///folder. To keep nights only on this machine, remove it."
        )
    elif parts.query or parts.fragment or parts.password or (parts.username and not is_named):
        yield (
            "contains a user name, password, query or fragment. Use only a location, and set keys "
            "in the store's environment variables."
        )
    elif (not parts.netloc) != (parts.scheme == "file") or "\\" in url or ".." in parts.path:
        yield "does not name a location. Use a bucket or container and a folder (s3://bucket/book)."
    elif parts.scheme == "file" and len(parts.path) <= 1:
        yield "does not name a folder. Use an address such as file:///mnt/shelf/book."


def _endpoint_problems(options: Mapping[str, str]) -> Iterator[str]:
    """Yield an error for each endpoint that uses neither https nor http on this machine."""
    for name in ENDPOINTS:
        try:
            parts = urlsplit(options.get(name, "https://none"))
            is_fit = parts.scheme == "https" or (
                parts.scheme == "http" and is_loopback(parts.hostname or "")
            )
        except ValueError:
            is_fit = False
        if not is_fit:
            yield f"{name} must be an https address, or http on this machine (see {SETTING})."


def manifest_key(snapshot_id: str, generation: int) -> str:
    """Return the key of the object that contains one generation of a night's manifest."""
    return f"{FOLDER}/{snapshot_id}-{generation:04}.json"


def generation_of(key: str) -> tuple[str, int]:
    """Parse the snapshot ID and generation in a manifest's key. For other keys, return "" and 0."""
    match = _MANIFEST.fullmatch(key)
    return (match[1], int(match[2])) if match else ("", 0)


def bodies_key(day: date, snapshot_id: str, sha256: str) -> str:
    """Return the key of the object that contains a night's response bodies."""
    return f"landing/{day}/{snapshot_id}-{sha256[:DIGEST_DIGITS]}.bodies"


def table_key(table: str, day: date, snapshot_id: str, sha256: str) -> str:
    """Return the key of the object that contains one of a night's tables."""
    return f"lake/{table}/snapshot_date={day}/{snapshot_id}-{sha256[:DIGEST_DIGITS]}.parquet"


def part_key(part: str, day: date, snapshot_id: str, sha256: str) -> str:
    """Return the key of the object with the metadata of a night's portfolios or venues."""
    return f"lake/parts/snapshot_date={day}/{snapshot_id}-{part}-{sha256[:DIGEST_DIGITS]}.json"


class StoreFailed(Exception):
    """The object store cannot be reached, or an operation failed."""

    def __init__(self, url: str, doing: str, reason: str) -> None:
        super().__init__(
            f"The shelf {url} did not {doing}: {reason}. This machine's book was not changed, and "
            "readers of the shelf do not see partial data. Check that the store is reachable and "
            "that its keys are correct (nightbook doctor), then type: nightbook shelve"
        )


class StoreNotInstalled(Exception):
    """A shelf is configured, but the package for object stores is not installed."""

    exit_code = 2

    def __init__(self) -> None:
        super().__init__(
            f"{SETTING} is set, but the package for object stores is not installed. Nothing was "
            "shelved or fetched, and this machine's book was not changed. Install the package "
            "alongside nightbook (pip install 'nightbook[lakehouse]'), or unset the setting."
        )


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object's key and size, as listed by the store."""

    key: str
    size: int


@dataclass(frozen=True, slots=True)
class Content:
    """An object's content, and the tag (ETag) that is needed to replace this version."""

    content: bytes
    tag: str


@dataclass(frozen=True, slots=True)
class ObjectStore:
    """A location in an object store. All keys are relative to this location."""

    address: StoreAddress
    client: Any
    library: Any = field(repr=False)

    def put_file(self, key: str, path: Path) -> None:
        """Upload a file. Other content must never be stored under the same key."""
        with self._translating_errors(f"store {key}"):
            self.library.put(self.client, key, path)

    def put_new(self, key: str, content: bytes) -> bool:
        """Create an object. Return False if a different object already has this key.

        If the store's response is lost, the client retries, and the store refuses the object that
        it now has. So if the existing object has the same bytes, including this writer's token,
        this writer created it.
        """
        for _ in range(MAX_ATTEMPTS):
            with self._translating_errors(f"create {key}"):
                try:
                    self.library.put(self.client, key, content, mode="create")
                except self._refusals:
                    if (existing := self.get(key)) is not None:
                        return existing.content == content
                else:
                    return True
        raise self._failure(
            f"create {key}", "the store reports that the object exists, but returns nothing"
        )

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

    def list(self, prefix: str) -> list[StoredObject]:
        """List the objects whose keys start with a folder name, sorted by key."""
        with self._translating_errors(f"list {prefix}"):
            entries = [meta for page in self.library.list(self.client, prefix) for meta in page]
        return sorted(
            (StoredObject(str(meta["path"]), int(meta["size"])) for meta in entries),
            key=lambda entry: entry.key,
        )

    def head(self, key: str) -> StoredObject | None:
        """Return the key and size of an object, or None if the object does not exist."""
        with self._translating_errors(f"return the size of {key}"):
            try:
                meta = self.library.head(self.client, key)
            except FileNotFoundError:
                return None
            return StoredObject(key, int(meta["size"]))

    def swap(self, key: str, content: bytes, tag: str) -> bool:
        """Replace an object, but only if its tag is still `tag`. Return whether it was replaced."""
        with self._translating_errors(f"swap {key}"):
            try:
                if (folder := self.address.folder) is not None:
                    return self._swap_on_disk(folder, key, content, tag)
                self.library.put(self.client, key, content, mode={"e_tag": tag})
            except self._refusals:
                existing = self.get(key)
                return existing is not None and existing.content == content
            return True

    def _swap_on_disk(self, folder: Path, key: str, content: bytes, tag: str) -> bool:
        """Replace a file while holding a lock, because obstore cannot compare tags on disk."""
        descriptor = os.open(folder / ".swap", os.O_RDWR | os.O_CREAT, FILE_MODE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            existing = self.get(key)
            if existing is None or existing.tag != tag:
                return False
            self.library.put(self.client, key, content)
            return True
        finally:
            os.close(descriptor)

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
        """Build a `StoreFailed` from the library's message, without secrets."""
        reason = _reason(library_message, self.address.url)
        for name, value in {**os.environ, **self.address.options}.items():
            if SECRET.search(name) and len(value) >= LEAST_SECRET:
                reason = reason.replace(value, "...")
        return StoreFailed(self.address.url, doing, reason[:MAX_REASON_LENGTH])


def _reason(library_message: str, url: str) -> str:
    """Extract a short reason from the library's error message, which may quote the response."""
    text, _, details = library_message.partition("\n\nDebug source:")
    text = _QUERY.sub("?...", " ".join(text.split()))
    if _METADATA.search(text):
        keys = KEYS.get(url.partition(":")[0], KEYS_OF_AZURE)
        return f"no keys are set, and this machine has no role with access to the store. Set {keys}"
    reasons = [found[1] for found in [_STATUS.search(text)] if found]
    reasons += [" ".join(content.split()) for _, content in _ELEMENT.findall(library_message)[:2]]
    reasons += [] if reasons else _CAUSE.findall(details)[-1:]
    server = _SERVER.search(text)
    if server is None or not reasons:
        return text
    return f"{server[1]}: {': '.join(reason.strip() for reason in reasons)}"


def open_store(address: StoreAddress) -> ObjectStore:
    """Return the object store at an address, without connecting. Raises `StoreNotInstalled`."""
    # Import obstore only if a shelf is configured. A single machine does not need the package, and
    # starts faster without it.
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
        reason = _reason(str(error), address.url)[:MAX_REASON_LENGTH]
        raise StoreFailed(address.url, "open", reason) from None
    return ObjectStore(address, client, library)


class UnsafeStoreError(Exception):
    """The object store accepted a write that it should have refused."""

    exit_code = 2

    def __init__(self, url: str, what: str) -> None:
        super().__init__(
            f"The store at {url} is not safe: {what}. Two machines could overwrite each other's "
            "nights unnoticed, so no nights are shelved there. Use a store with conditional "
            "writes (S3 and most compatible stores, Azure, Google), or a newer version of this "
            "store. To test it again, type: nightbook doctor"
        )


def probe(store: ObjectStore, token: str) -> None:
    """Check that the store refuses to overwrite an object that another machine has written.

    It must refuse to create an object that already exists, and to replace an object whose tag has
    changed. Raises `UnsafeStoreError`.
    """
    first, second, third = (f"{token} {number}\n".encode() for number in range(3))
    # Create the test object, unless an earlier test has already created it.
    store.put_new(PROBE, first)
    if store.put_new(PROBE, second) or _content(store) == second:
        raise UnsafeStoreError(store.address.url, "it created an object that already existed")
    for _ in range(MAX_PROBE_ATTEMPTS):
        existing = store.get(PROBE)
        if existing is None:
            raise UnsafeStoreError(store.address.url, "it accepted an object but did not store it")
        if store.swap(PROBE, second, existing.tag):
            if store.swap(PROBE, third, existing.tag) or _content(store) == third:
                raise UnsafeStoreError(
                    store.address.url, "it replaced an object that had changed since it was read"
                )
            return
    raise StoreFailed(store.address.url, f"swap {PROBE}", "other machines keep changing it")


def _content(store: ObjectStore) -> bytes:
    """Return the content of the test object, or b"" if the object does not exist."""
    existing = store.get(PROBE)
    return b"" if existing is None else existing.content

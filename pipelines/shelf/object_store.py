"""An object store: its address, its keys, its files, and a probe of its abilities."""

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
# Those of the variables that a `.env` may hold; of the process obstore reads all that it knows.
OPTIONS: Final = (
    *ENDPOINTS,
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
    *("AWS_REGION", "AWS_DEFAULT_REGION"),
    *("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_SAS_KEY"),
    *("AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET", "AZURE_TENANT_ID"),
    *("GOOGLE_SERVICE_ACCOUNT", "GOOGLE_APPLICATION_CREDENTIALS"),
)


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """The place of a shelf; `options` may hold keys, and are in no repr."""

    url: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def folder(self) -> Path | None:
        """The folder of a shelf on a disk; None where a store keeps it."""
        parts = urlsplit(self.url)
        return Path(parts.path) if parts.scheme == "file" else None

    @property
    def is_plain(self) -> bool:
        """Whether a store of this machine is meant, which needs no TLS."""
        return any(self.options.get(name, "").startswith("http://") for name in ENDPOINTS)


def read_address(variables: Mapping[str, str], complaints: list[str]) -> StoreAddress | None:
    """Return where the shelf is, or None where nights stay on this machine; complains in words."""
    url = variables.get(SETTING, "").strip().rstrip("/")
    options = {name: value for name in OPTIONS if (value := variables.get(name, "").strip())}
    if not url:
        return None
    complaints += [f"{SETTING} {problem}" for problem in _address_problems(url)]
    complaints += _endpoint_problems(options)
    return StoreAddress(url, options)


def _address_problems(url: str) -> Iterator[str]:
    """Complain of an address; it may hold a key where none belongs, so it is not repeated."""
    try:
        parts = urlsplit(url)
    except ValueError:
        yield "is no address: give one such as s3://bucket/book."
        return
    is_named = parts.scheme in ("abfs", "abfss")  # container@account
    if parts.scheme not in SCHEMES:
        yield (
            "is no address of an object store: give s3://bucket/book, az://container/book, "
            "gs://bucket/book or file:///folder. Unset, nights stay on this machine."
        )
    elif parts.query or parts.fragment or parts.password or (parts.username and not is_named):
        yield "holds more than a place: keys belong into the store's own variables."
    elif (not parts.netloc) != (parts.scheme == "file") or "\\" in url or ".." in parts.path:
        yield "names no place: give a bucket or container and a folder, s3://bucket/book."
    elif parts.scheme == "file" and len(parts.path) <= 1:
        yield "names no folder: give one, as file:///mnt/shelf/book."


def _endpoint_problems(options: Mapping[str, str]) -> Iterator[str]:
    for name in ENDPOINTS:
        try:
            parts = urlsplit(options.get(name, "https://none"))
            is_fit = parts.scheme == "https" or (
                parts.scheme == "http" and is_loopback(parts.hostname or "")
            )
        except ValueError:
            is_fit = False
        if not is_fit:
            yield f"{name} is to be an https address (http only on this machine): see {SETTING}."


LATEST = "LATEST"
PROBE = "probe"
FOLDER = "manifests"
SHORT = 16  # digits of a SHA-256: enough to tell apart what one night's table ever was
_MANIFEST = re.compile(rf"{FOLDER}/([0-9]{{8}}T[0-9]{{6}}Z)-([0-9]{{4,9}})\.json")


def manifest_key(snapshot_id: str, generation: int) -> str:
    """Return the key of a generation of a night."""
    return f"{FOLDER}/{snapshot_id}-{generation:04}.json"


def generation_of(key: str) -> tuple[str, int]:
    """Return the night and generation of a manifest's key; an empty night for another key."""
    match = _MANIFEST.fullmatch(key)
    return (match[1], int(match[2])) if match else ("", 0)


def bodies_key(day: date, snapshot_id: str, sha256: str) -> str:
    """Return the key of a night's bodies."""
    return f"landing/{day}/{snapshot_id}-{sha256[:SHORT]}.bodies"


def table_key(table: str, day: date, snapshot_id: str, sha256: str) -> str:
    """Return the key of a table of a night."""
    return f"lake/{table}/snapshot_date={day}/{snapshot_id}-{sha256[:SHORT]}.parquet"


def part_key(part: str, day: date, snapshot_id: str, sha256: str) -> str:
    """Return the key of what was noted while a part of a night was flattened."""
    return f"lake/parts/snapshot_date={day}/{snapshot_id}-{part}-{sha256[:SHORT]}.json"


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


PROBE_TRIES = 5


class UnsafeStoreError(Exception):
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
    """See that a second create and a swap with a stale tag are refused; raises `UnsafeStoreError`."""
    first, second, third = (f"{token} {number}\n".encode() for number in range(3))
    store.put_new(PROBE, first)  # it is there from now on, if it was not before
    if store.put_new(PROBE, second) or _content(store) == second:
        raise UnsafeStoreError(store.address.url, "it created an object that was there already")
    for _ in range(PROBE_TRIES):
        there = store.get(PROBE)
        if there is None:
            raise UnsafeStoreError(store.address.url, "it took an object and does not have it")
        if store.swap(PROBE, second, there.tag):
            if store.swap(PROBE, third, there.tag) or _content(store) == third:
                raise UnsafeStoreError(
                    store.address.url, "it replaced an object that had changed since it was read"
                )
            return
    raise StoreFailed(store.address.url, f"swap {PROBE}", "others kept changing it")


def _content(store: ObjectStore) -> bytes:
    there = store.get(PROBE)
    return b"" if there is None else there.content

"""The addresses of the object store and of the Iceberg catalog, as read from the settings."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, urlsplit

from pipelines.edge.access import is_loopback
from pipelines.lakehouse import CATALOG, NAMESPACE, SHELF

SCHEMES: Final = ("s3", "az", "abfs", "abfss", "gs", "file")
DATABASE: Final = "postgresql"
ENDPOINTS: Final = (
    *("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT"),
    *("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
)
# The object store variables that nightbook reads from `.env`. obstore itself also reads its
# variables from the process environment.
STORE_OPTIONS: Final = (
    *ENDPOINTS,
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
    *("AWS_REGION", "AWS_DEFAULT_REGION"),
    *("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_SAS_KEY"),
    *("AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET", "AZURE_TENANT_ID"),
    *("GOOGLE_SERVICE_ACCOUNT", "GOOGLE_APPLICATION_CREDENTIALS"),
)
# PostgreSQL's standard variables that `.env` may contain, each with its connection option.
OF_POSTGRESQL: Final = {
    "PGPASSWORD": "password",
    "PGUSER": "user",
    "PGPASSFILE": "passfile",
    "PGSSLMODE": "sslmode",
    "PGSSLROOTCERT": "sslrootcert",
    "PGSSLCERT": "sslcert",
    "PGSSLKEY": "sslkey",
    "PGCONNECT_TIMEOUT": "connect_timeout",
}
OF_PYICEBERG: Final = "PYICEBERG_CATALOG__NIGHTBOOK__"
_PLAIN = re.compile(r"[a-z][a-z0-9_]{0,62}")


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


@dataclass(frozen=True, slots=True)
class CatalogAddress:
    """An Iceberg catalog's address, our namespace in the catalog, and its settings (`options`).

    The address and the options can contain a password, so `repr` does not show them.
    """

    url: str = field(repr=False)
    namespace: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def place(self) -> str:
        """The catalog's address without the user and the password."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def is_option(name: str) -> bool:
    """Return whether an environment variable is an option of the object store or the catalog."""
    return name in STORE_OPTIONS or _is_catalog_option(name)


def read_addresses(
    variables: Mapping[str, str], complaints: list[str]
) -> tuple[StoreAddress | None, CatalogAddress | None]:
    """Return the addresses of the shelf and of the catalog. Each is None if it is not set.

    Append errors to `complaints`.
    """
    shelf = _shelf(variables, complaints)
    return shelf, _catalog(variables, shelf, complaints)


def _shelf(variables: Mapping[str, str], complaints: list[str]) -> StoreAddress | None:
    url = variables.get(SHELF, "").strip().rstrip("/")
    options = {name: value for name in STORE_OPTIONS if (value := variables.get(name, "").strip())}
    if not url:
        return None
    complaints += [f"{SHELF} {problem}" for problem in _shelf_problems(url)]
    complaints += [
        f"{name} must be an https address, or http on this machine (see {SHELF})."
        for name in ENDPOINTS
        if not _is_encrypted(_split(options.get(name, "https://none")))
    ]
    return StoreAddress(url, options)


def _shelf_problems(url: str) -> Iterator[str]:
    """Yield the problems with a shelf's address. Do not quote it, because it may contain a key."""
    parts = _split(url)
    if parts is None:
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


def _catalog(
    variables: Mapping[str, str], shelf: StoreAddress | None, complaints: list[str]
) -> CatalogAddress | None:
    url, namespace = variables.get(CATALOG, "").strip(), variables[NAMESPACE].strip()
    if not _PLAIN.fullmatch(namespace):
        complaints.append(
            f"{NAMESPACE} is {namespace[:99]!r}: use only lower-case letters, digits and _."
        )
    if not url:
        return None
    parts = _split(url)
    is_database = parts is not None and parts.scheme == DATABASE and bool(parts.hostname)
    if not is_database and not _is_encrypted(parts):
        complaints.append(
            f"{CATALOG} is not a catalog address: use postgresql://user@host/database "
            "or the https address of a REST catalog."
        )
    if shelf is None:
        complaints.append(
            f"{CATALOG} is set, but {SHELF} is not. The catalog refers to files on the shelf, "
            f"because every engine can reach them there. Set {SHELF} as well."
        )
    elif shelf.url.startswith("az://"):
        complaints.append(
            f"{CATALOG} needs a shelf address that other engines understand: write {SHELF} "
            "as abfss://container@account.dfs.core.windows.net/folder."
        )
    options = {name: value for name, value in variables.items() if _is_catalog_option(name)}
    return CatalogAddress(url, namespace, options)


def _is_catalog_option(name: str) -> bool:
    return name in OF_POSTGRESQL or name.startswith(OF_PYICEBERG)


def _split(url: str) -> SplitResult | None:
    """Split an address into its parts. Return None if it is not a valid address."""
    try:
        return urlsplit(url)
    except ValueError:
        return None


def _is_encrypted(parts: SplitResult | None) -> bool:
    """Return whether an address uses https, or http on this machine."""
    if parts is None or not parts.hostname:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname))

"""Where the shelf is: the address in `NIGHTBOOK_LAKE`, and what the stores' own variables say.

An address names a place and never a key. Keys come from the variables that each store's own tools
read, or from the machine (a role, a profile of the cloud).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from pipelines.edge.origin import is_loopback

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

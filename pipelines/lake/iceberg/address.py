"""The address of the Iceberg catalog, and the errors raised if nights cannot be registered."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from pipelines.edge.access import is_loopback
from pipelines.shelf.object_store import SETTING as SHELF
from pipelines.shelf.object_store import StoreAddress

SETTING: Final = "NIGHTBOOK_CATALOG"
NAMESPACE: Final = "NIGHTBOOK_CATALOG_NAMESPACE"
DATABASE: Final = "postgresql"
OF_PYICEBERG: Final = "PYICEBERG_CATALOG__NIGHTBOOK__"
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
_PLAIN = re.compile(r"[a-z][a-z0-9_]{0,62}")


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


def is_catalog_option(name: str) -> bool:
    """Return whether an environment variable is an option of the Iceberg catalog."""
    return name in OF_POSTGRESQL or name.startswith(OF_PYICEBERG)


def read_catalog(
    variables: Mapping[str, str], shelf: StoreAddress | None, complaints: list[str]
) -> CatalogAddress | None:
    """Read the catalog's address, or return None if it is not set. Add problems to `complaints`."""
    url = variables.get(SETTING, "").strip()
    namespace = variables[NAMESPACE].strip()
    if not _PLAIN.fullmatch(namespace):
        complaints.append(
            f"{NAMESPACE} is {namespace[:99]!r}: use only lower-case letters, digits and _."
        )
    if not url:
        return None
    try:
        parts = urlsplit(url)
        is_fit = parts.scheme in (DATABASE, "https") and bool(parts.hostname)
        is_fit |= parts.scheme == "http" and is_loopback(parts.hostname or "")
    except ValueError:
        is_fit = False
    if not is_fit:
        complaints.append(
            f"{SETTING} is not a catalog address: use postgresql://user@host/database "
            "or the https address of a REST catalog."
        )
    if shelf is None:
        complaints.append(
            f"{SETTING} is set, but {SHELF} is not. The catalog refers to files on the shelf, "
            f"because every engine can reach them there. Set {SHELF} as well."
        )
    elif shelf.url.startswith("az://"):
        complaints.append(
            f"{SETTING} needs a shelf address that other engines understand: write {SHELF} "
            "as abfss://container@account.dfs.core.windows.net/folder."
        )
    options = {name: value for name, value in variables.items() if is_catalog_option(name)}
    return CatalogAddress(url, namespace, options)


class NotRegistered(Exception):
    """Some nights could not be registered in the Iceberg catalog."""

    exit_code = 1


class NoIceberg(NotRegistered):
    """An Iceberg catalog is configured, but the packages to write its tables are not installed."""

    exit_code = 2

    def __init__(self) -> None:
        super().__init__(
            f"{SETTING} is set, but the packages that register tables are not installed. Nothing "
            "was registered. The book and the shelf were not changed. Install them in nightbook's "
            "environment (pip install 'nightbook[lakehouse]'), or remove the setting."
        )


class NoCatalog(NotRegistered):
    """The Iceberg catalog cannot be reached, or denies access."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"The Iceberg catalog in {SETTING} cannot be used: {reason.rstrip('.')}. The book is "
            "published here and on the shelf. Nothing was registered. The next run registers the "
            "missing nights. Check that the catalog is running, that the user and password are "
            "correct, and that the user may create tables, for example with nightbook doctor."
        )


class Conflict(NotRegistered):
    """Another writer changed an Iceberg table in the meantime, so nothing was committed."""

    def __init__(self, table: str) -> None:
        super().__init__(
            f"Another program changed {table} in the Iceberg catalog while a night was being "
            "registered. Nothing was committed for that night. Let only one machine register "
            "nights, and run the command again."
        )


class ForeignTable(NotRegistered):
    """A table in the Iceberg catalog has columns that differ from those in the lake."""

    exit_code = 2

    def __init__(self, name: str, differences: list[str]) -> None:
        super().__init__(
            f"The columns of the Iceberg table {name} differ from those in this lake's files: "
            f"{'; '.join(differences)}. The table may come from another program, or from a newer "
            f"nightbook. Nothing was registered. Set {NAMESPACE} to another namespace, or update "
            "nightbook."
        )

"""Where the Iceberg catalog is: `NIGHTBOOK_CATALOG`, and the namespace of the tables in it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from pipelines.edge.origin import is_loopback
from pipelines.shelf.address import SETTING as SHELF
from pipelines.shelf.address import StoreAddress

SETTING: Final = "NIGHTBOOK_CATALOG"
NAMESPACE: Final = "NIGHTBOOK_CATALOG_NAMESPACE"
DATABASE: Final = "postgresql"
OF_PYICEBERG: Final = "PYICEBERG_CATALOG__NIGHTBOOK__"
# The variables of PostgreSQL's own tools that a `.env` may hold, by the option of a connection.
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
    """The place of a catalog, and our namespace; `options` are the variables that concern it.

    Place and options may hold a password, and are in no repr.
    """

    url: str = field(repr=False)
    namespace: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def place(self) -> str:
        """The address without user and password."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def is_catalog_option(name: str) -> bool:
    """Return whether a variable tells how a catalog is reached."""
    return name in OF_POSTGRESQL or name.startswith(OF_PYICEBERG)


def read_catalog(
    variables: Mapping[str, str], shelf: StoreAddress | None, complaints: list[str]
) -> CatalogAddress | None:
    """Return where the catalog is, or None where there is none; complains in words."""
    url = variables.get(SETTING, "").strip()
    namespace = variables[NAMESPACE].strip()
    if not _PLAIN.fullmatch(namespace):
        complaints.append(
            f"{NAMESPACE} is {namespace[:99]!r}: give a plain name of small letters, digits and _."
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
            f"{SETTING} is no address of an Iceberg catalog: give postgresql://user@host/database, "
            "or the https address of a REST catalog."
        )
    if shelf is None:
        complaints.append(
            f"{SETTING} is set and {SHELF} is not: tables are registered as they lie on the shelf, "
            "where every engine reaches them. Set that, too."
        )
    elif shelf.url.startswith("az://"):
        complaints.append(
            f"{SETTING} needs an address of the shelf that other engines understand: write {SHELF} "
            "as abfss://container@account.dfs.core.windows.net/folder."
        )
    options = {name: value for name, value in variables.items() if is_catalog_option(name)}
    return CatalogAddress(url, namespace, options)

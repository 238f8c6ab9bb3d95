"""The errors of the lakehouse. None of them means that the book on this machine is damaged."""

import os
import re
from collections.abc import Mapping, Sequence
from urllib.parse import quote, quote_plus

from pipelines.lakehouse import CATALOG, NAMESPACE
from warehouse.contract.model import count_of

MAX_REASON_LENGTH = 500
MIN_SECRET_LENGTH = 6
_QUERY = re.compile(r"\?\S+")
_USER = re.compile(r"//[^\s/@]+@")
_SECRET = re.compile(r"KEY|SECRET|TOKEN|SAS|PASSWORD|CREDENTIAL", re.IGNORECASE)


class LakehouseError(Exception):
    """Nights could not be exchanged with the object store, the Iceberg catalog or Spark."""

    exit_code = 1


class NotInstalled(LakehouseError):
    """A package that few homes need is not installed."""

    exit_code = 2

    def __init__(self, problem: str, packages: str) -> None:
        super().__init__(
            f"{problem}. Nothing was changed. Install what is missing in nightbook's environment: "
            f"pip install '{packages}'"
        )


class StoreFailed(LakehouseError):
    """The object store cannot be reached, or an operation failed."""

    def __init__(self, url: str, doing: str, reason: str) -> None:
        super().__init__(
            f"The shelf {url} did not {doing}: {reason}. This machine's book was not changed, and "
            "readers of the shelf do not see partial data. Check that the store is reachable and "
            "that its keys are correct (nightbook doctor), then type: nightbook shelve"
        )


class UnsafeStoreError(LakehouseError):
    """The object store accepted a write that it should have refused."""

    exit_code = 2

    def __init__(self, url: str, what: str) -> None:
        super().__init__(
            f"The store at {url} is not safe: {what}. Two machines could overwrite each other's "
            "nights unnoticed, so no nights are shelved there. Use a store with conditional "
            "writes (S3 and most compatible stores, Azure, Google), or a newer version of this "
            "store. To test it again, type: nightbook doctor"
        )


class NotAllDone(LakehouseError):
    """Some nights could not be shelved or fetched, but all other nights were transferred."""

    def __init__(self, problems: Sequence[str], done: int) -> None:
        listed = "\n".join(f"  {problem}" for problem in problems)
        many = count_of(len(problems), "night")
        super().__init__(
            f"Transferred {count_of(done, 'night')} between this home and the shelf. {many} could "
            f"not be transferred:\n{listed}"
        )


class NoCatalog(LakehouseError):
    """The Iceberg catalog cannot be reached, or denies access."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"The Iceberg catalog in {CATALOG} cannot be used: {reason.rstrip('.')}. The book is "
            "published here and on the shelf. Nothing was registered. The next run registers the "
            "missing nights. Check that the catalog is running, that the user and password are "
            "correct, and that the user may create tables, for example with nightbook doctor."
        )


class Conflict(LakehouseError):
    """Another writer changed an Iceberg table in the meantime, so nothing was committed."""

    def __init__(self, table: str) -> None:
        super().__init__(
            f"Another program changed {table} in the Iceberg catalog while a night was being "
            "registered. Nothing was committed for that night. Let only one machine register "
            "nights, and run the command again."
        )


class ForeignTable(LakehouseError):
    """A table in the Iceberg catalog has columns that differ from those in the lake."""

    exit_code = 2

    def __init__(self, name: str, differences: Sequence[str]) -> None:
        super().__init__(
            f"The columns of the Iceberg table {name} differ from those in this lake's files: "
            f"{'; '.join(differences)}. The table may come from another program, or from a newer "
            f"nightbook. Nothing was registered. Set {NAMESPACE} to another namespace, or update "
            "nightbook."
        )


def without_secrets(message: str, options: Mapping[str, str], *secrets: str | None) -> str:
    """Return a library's message on one line, without passwords, keys, users and query strings.

    `options` are the variables of the library that are not in the environment. `secrets` are
    further strings to remove.
    """
    known = {secret for secret in secrets if secret}
    for name, value in (*os.environ.items(), *options.items()):
        if _SECRET.search(name):  # A credential may have the form key:secret. Hide both parts.
            known |= {part for part in (value, *value.split(":")) if len(part) >= MIN_SECRET_LENGTH}
    text = " ".join(message.split())
    for secret in sorted(known, key=len, reverse=True):
        for form in (secret, quote(secret, safe=""), quote_plus(secret)):
            text = text.replace(form, "...")
    return _QUERY.sub("?...", _USER.sub("//...@", text))[:MAX_REASON_LENGTH]

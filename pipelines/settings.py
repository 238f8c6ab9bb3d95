"""The environment, read once: every complaint in one message, and no value of a secret.

A `.env` beside the process is read first; what the environment says wins.
"""

import difflib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pipelines.edge.access import Access, is_visible_ascii, read_access
from pipelines.lake.iceberg.address import CatalogAddress, is_catalog_option, read_catalog
from pipelines.schedule import is_schedule
from pipelines.shelf.object_store import OPTIONS as STORE_OPTIONS
from pipelines.shelf.object_store import StoreAddress, read_address
from warehouse.storage.home import DEFAULTS as PLACE_DEFAULTS
from warehouse.storage.home import home_path, merged_environment, misleading_sign

DEFAULTS: Final = {
    **PLACE_DEFAULTS,
    "NIGHTBOOK_SCHEDULE": "15 2,4,6 * * *",
    "NIGHTBOOK_CONCURRENCY": "8",
    "NIGHTBOOK_DEADLINE": "1800",
    "NIGHTBOOK_NATIVE_NIGHTS": "all",
    "NIGHTBOOK_VERSIONS_GB": "20",
    "NIGHTBOOK_CATALOG_NAMESPACE": "nightbook",
}
OTHERS: Final = (
    "API_URL API_KEY API_SECRET API_SECRET_FILE ALERTS HEARTBEAT LAKE CATALOG PINNED_ASSETS"
)
NAMES: Final = (*DEFAULTS, *(f"NIGHTBOOK_{name}" for name in OTHERS.split()))
MOST_CONCURRENT = 64
NO_PATH = "[]?%\\"
DIGITS = 9
SHOWN = 80
# How alike (difflib's ratio) a name of another prefix must be to count as a slip of ours.
ALIKE = 0.85
# What a cluster puts into every pod for a service that happens to be called nightbook-something.
_OF_SERVICE = re.compile(r"_(SERVICE_(HOST|PORT\w*)|PORT(_\d+_(TCP|UDP|SCTP)\w*)?)$")
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9.+-]*://")
_NEXT_ADDRESS = re.compile(rf"[\s,]+(?={_ADDRESS.pattern})")


class InvalidSettings(Exception):
    """Settings are missing or wrong: each named, with where its value comes from."""

    exit_code = 2

    def __init__(self, complaints: tuple[str, ...]) -> None:
        self.complaints = complaints
        several = "settings are" if len(complaints) > 1 else "setting is"
        super().__init__(
            f"{len(complaints)} {several} missing or wrong; nothing was read or written.\n"
            + "\n".join(f"  {complaint}" for complaint in complaints)
            + "\nPut them in the environment or in a file .env here (see .env.example)."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the operator chose. `access` is None where a command needs no API.

    `deadline` is in seconds for a whole pull; `timezone` decides the business date. Of
    `native_nights` newest nights the warehouse holds the rows itself (of all where it is None), and
    its older versions are kept within `versions_gb`. `shelf` is the object store of
    `NIGHTBOOK_LAKE`, None where nights stay on this machine, and `catalog` where its files are
    registered as Iceberg tables. The report shows `pinned_assets` first.
    Addresses of alerts, heartbeat and catalog may hold secrets, so neither a repr nor a complaint
    shows them.
    """

    home: Path
    timezone: ZoneInfo
    schedule: str
    concurrency: int
    deadline: float
    native_nights: int | None
    versions_gb: int
    access: Access | None
    alerts: tuple[str, ...] = field(default=(), repr=False)
    heartbeat: str | None = field(default=None, repr=False)
    shelf: StoreAddress | None = None
    catalog: CatalogAddress | None = None
    pinned_assets: tuple[str, ...] = ()


def environment(directory: Path, process: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables that count: those of the process, then those of `directory/.env`.

    An empty one of the process counts as not set. Raises `InvalidSettings` where `.env` cannot be
    read.
    """
    try:
        merged = merged_environment(directory, os.environ if process is None else process)
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8 text"
        complaint = f".env cannot be read: {why}. Mend it, or take it away."
        raise InvalidSettings((complaint,)) from None
    if "KUBERNETES_SERVICE_HOST" in merged:
        merged = {name: value for name, value in merged.items() if not _OF_SERVICE.search(name)}
    return {name: value for name, value in merged.items() if _is_of_others(name) or _is_meant(name)}


def _is_of_others(name: str) -> bool:
    """Return whether a variable tells how a store or a catalog is reached, as its own tools do."""
    return name in STORE_OPTIONS or is_catalog_option(name)


def _is_meant(name: str) -> bool:
    """Return whether a variable is one of ours, or was to be: `NIGHTBOK_HOME`, `nightbook_home`."""
    upper = name.upper()
    if name.startswith("NIGHTBOOK_") or not ("NIGHT" in upper or "BOOK" in upper):
        return name.startswith("NIGHTBOOK_")
    return bool(difflib.get_close_matches(upper, NAMES, n=1, cutoff=ALIKE))


def _unknown_names(variables: Mapping[str, str]) -> Iterator[str]:
    """Complain of each name that is no setting: left unread, it would look as if it held."""
    for name in sorted(variables.keys() - set(NAMES)):
        if _is_of_others(name):
            continue
        [nearest] = difflib.get_close_matches(name.upper(), NAMES, n=1, cutoff=0)
        yield f"{name[:SHOWN]} is no setting: do you mean {nearest}?"


def read(variables: Mapping[str, str], *, api: bool) -> Settings:
    """Return settings from variables; with `api`, those for the API must be there too.

    An empty variable counts as one that is not set. Raises `InvalidSettings` with every complaint
    at once.
    """
    variables = DEFAULTS | {name: value for name, value in variables.items() if value.strip()}
    complaints = list(_unknown_names(variables))
    shelf = read_address(variables, complaints)
    settings = Settings(
        home=_home(variables, complaints),
        timezone=_timezone(variables, complaints),
        schedule=_schedule(variables, complaints),
        concurrency=int(_number(variables, complaints, "NIGHTBOOK_CONCURRENCY", MOST_CONCURRENT)),
        deadline=_number(variables, complaints, "NIGHTBOOK_DEADLINE", 24 * 3600),
        native_nights=_native_nights(variables, complaints),
        versions_gb=int(_number(variables, complaints, "NIGHTBOOK_VERSIONS_GB", 100_000)),
        access=read_access(variables, complaints) if api else None,
        alerts=_alerts(variables, complaints),
        heartbeat=_heartbeat(variables, complaints),
        shelf=shelf,
        catalog=read_catalog(variables, shelf, complaints),
        pinned_assets=_pinned_assets(variables),
    )
    if complaints:
        raise InvalidSettings(tuple(complaints))
    return settings


def _home(variables: Mapping[str, str], complaints: list[str]) -> Path:
    text = variables["NIGHTBOOK_HOME"]
    try:
        home = home_path(text)
    except RuntimeError:
        complaints.append(f"NIGHTBOOK_HOME is {text[:SHOWN]!r}: no such user has a home here.")
        return Path.cwd()
    if signs := sorted(set(str(home)) & set(NO_PATH)):
        complaints.append(
            f"NIGHTBOOK_HOME is {text[:SHOWN]!r}: {' '.join(signs)} in a path is read in its own "
            "way by Dagster, SQLite or DuckDB. Choose a plainer path."
        )
    return home


def _timezone(variables: Mapping[str, str], complaints: list[str]) -> ZoneInfo:
    name = variables["NIGHTBOOK_TIMEZONE"]
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        complaints.append(
            f"NIGHTBOOK_TIMEZONE is {name[:SHOWN]!r}: give a name of the time zone database, "
            "such as Europe/Zurich."
        )
        return ZoneInfo("UTC")


def _schedule(variables: Mapping[str, str], complaints: list[str]) -> str:
    schedule = variables["NIGHTBOOK_SCHEDULE"]
    if not is_schedule(schedule):
        complaints.append(
            f"NIGHTBOOK_SCHEDULE is {schedule[:SHOWN]!r}: give five cron fields (minute, hour, "
            "day, month, weekday), such as 15 2,4,6 * * * for three tries every night."
        )
    return " ".join(schedule.lower().split())


def _number(variables: Mapping[str, str], complaints: list[str], name: str, most: int) -> float:
    text = variables[name].strip()
    is_number = text.isascii() and text.isdigit() and len(text) <= DIGITS
    if is_number and 1 <= int(text) <= most:
        return int(text)
    complaints.append(f"{name} is {text[:SHOWN]!r}: give a whole number from 1 to {most}.")
    return 1


def _native_nights(variables: Mapping[str, str], complaints: list[str]) -> int | None:
    name, home = "NIGHTBOOK_NATIVE_NIGHTS", variables["NIGHTBOOK_HOME"]
    if variables[name].strip().lower() == "all":
        return None
    if variables[name].strip() == "1":
        complaints.append(
            f"{name} is '1': the newest night is compared with the one before it, so "
            "give 2 or more, or all."
        )
    if sign := misleading_sign(home_path(home)):
        complaints.append(
            f"{name} cannot be used where NIGHTBOOK_HOME holds {sign}: DuckDB would read it in its "
            "own way in the paths of older nights. Choose a plainer path, or all."
        )
    return int(_number(variables, complaints, name, 100_000))


def _alerts(variables: Mapping[str, str], complaints: list[str]) -> tuple[str, ...]:
    """Split addresses: a comma inside one does not end it, the next `scheme://` does."""
    text = variables.get("NIGHTBOOK_ALERTS", "").strip()
    addresses = tuple(filter(None, (address.strip(" ,") for address in _NEXT_ADDRESS.split(text))))
    for number, address in enumerate(addresses, 1):
        if not _ADDRESS.match(address):
            complaints.append(
                f"NIGHTBOOK_ALERTS: address {number} of {len(addresses)} has no scheme, such as in "
                "mailtos://user:password@example.com or json://127.0.0.1:8080/alerts."
            )
    return addresses


def _pinned_assets(variables: Mapping[str, str]) -> tuple[str, ...]:
    names = variables.get("NIGHTBOOK_PINNED_ASSETS", "").split(",")
    return tuple(name.strip() for name in names if name.strip())


def _heartbeat(variables: Mapping[str, str], complaints: list[str]) -> str | None:
    url = variables.get("NIGHTBOOK_HEARTBEAT", "").strip()
    try:
        parts = urlsplit(url)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_url = False
    if url and not (is_url and is_visible_ascii(url)):
        complaints.append(
            "NIGHTBOOK_HEARTBEAT is no http or https URL: give the one that your monitor made for "
            "this check, whole."
        )
    return url or None

"""Settings from the environment. All errors are reported together, without any secrets.

The file `.env` in the working directory is also read, but the environment takes precedence.
"""

import difflib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pipelines.edge.access import Access, is_visible_ascii, read_access
from pipelines.lakehouse import entrance as lakehouse
from pipelines.schedule import is_schedule
from warehouse.storage.home import DEFAULTS as PLACE_DEFAULTS
from warehouse.storage.home import home_path, merged_environment, misleading_sign

if TYPE_CHECKING:
    from pipelines.lakehouse.entrance import CatalogAddress, StoreAddress

DEFAULTS: Final = {
    **PLACE_DEFAULTS,
    "NIGHTBOOK_SCHEDULE": "15 2,4,6 * * *",
    "NIGHTBOOK_CONCURRENCY": "8",
    "NIGHTBOOK_DEADLINE": "1800",
    "NIGHTBOOK_NATIVE_NIGHTS": "all",
    "NIGHTBOOK_VERSIONS_GB": "20",
    "NIGHTBOOK_WORKBOOK_ROWS": "50000",
    "NIGHTBOOK_CATALOG_NAMESPACE": "nightbook",
}
OTHERS: Final = (
    "API_URL API_KEY API_SECRET API_SECRET_FILE CA_FILE ALERTS DELIVER OWNERS HEARTBEAT LAKE "
    "CATALOG PINNED_ASSETS PRICE_SOURCES PRICE_MAX_AGE CURRENCY CROSS_RATE"
)
NAMES: Final = (*DEFAULTS, *(f"NIGHTBOOK_{name}" for name in OTHERS.split()))
MAX_CONCURRENCY = 64
NO_PATH = "[]?%\\"
MAX_DIGITS = 9
MAX_SHOWN = 80
# A name without the prefix `NIGHTBOOK_` counts as a misspelled setting if its similarity to a
# setting is at least this high (difflib ratio).
MIN_SIMILARITY = 0.85
# Variables that Kubernetes adds to every pod if a service's name begins with "nightbook-".
_KUBERNETES = re.compile(r"_(SERVICE_(HOST|PORT\w*)|PORT(_\d+_(TCP|UDP|SCTP)\w*)?)$")
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9.+-]*://")
_CONTENT = re.compile(r"(?:^|[\s,]+)(report|workbook|both) +(?=[A-Za-z][A-Za-z0-9.+-]*://)")
_OWNER = re.compile(r"(?:^|,)\s*([^=,]+?)\s*=\s*(?=[A-Za-z][A-Za-z0-9.+-]*://)")
_NEXT_ADDRESS = re.compile(rf"[\s,]+(?={_ADDRESS.pattern})")


class InvalidSettings(Exception):
    """Some settings are missing or invalid. The message names each setting and its problem."""

    exit_code = 2

    def __init__(self, complaints: tuple[str, ...]) -> None:
        self.complaints = complaints
        several = "settings are" if len(complaints) > 1 else "setting is"
        super().__init__(
            f"{len(complaints)} {several} missing or invalid. Nothing was read or written.\n"
            + "\n".join(f"  {complaint}" for complaint in complaints)
            + "\nSet them in the environment or in the .env file in this folder (see .env.example)."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The operator's settings. `access` is None if the command does not need the API.

    `deadline` limits a whole pull, in seconds. `timezone` determines the business date. The
    warehouse stores the rows of the newest `native_nights` nights (or of all nights, if it is
    None), and its older versions use at most `versions_gb` gigabytes. `shelf` is the object store
    of `NIGHTBOOK_LAKE`, or None if it is not configured. The shelf's files are registered as
    Iceberg tables in `catalog`. The report shows `pinned_assets` first. A nightly workbook leaves
    out the long sheets of more than `workbook_rows` rows. Of prices with the same time, the one of
    the first source in `price_sources` is valid. A price older than `price_max_age` days is stale.
    Report and workbook show values in `currency`. `cross_rate` is an asset, a quote and a source:
    a price in this quote, divided by the source's price of the asset, is a price in the asset.

    `deliver` has pairs of a content (`report`, `workbook` or `both`) and an address, and `owners`
    pairs of a break's owner and an address.

    The addresses for alerts, delivery, heartbeat and catalog may contain secrets, so they never
    appear in a repr or an error message.
    """

    home: Path
    timezone: ZoneInfo
    schedule: str
    concurrency: int
    deadline: float
    native_nights: int | None
    versions_gb: int
    workbook_rows: int
    access: Access | None
    alerts: tuple[str, ...] = field(default=(), repr=False)
    deliver: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    owners: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    heartbeat: str | None = field(default=None, repr=False)
    shelf: "StoreAddress | None" = None
    catalog: "CatalogAddress | None" = None
    pinned_assets: tuple[str, ...] = ()
    price_sources: tuple[str, ...] = ()
    price_max_age: int | None = None
    currency: str | None = None
    cross_rate: tuple[str, str, str] | None = None


def environment(directory: Path, process: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return nightbook's variables from the process environment or else from `directory/.env`.

    An empty process variable counts as unset. Raises `InvalidSettings` if `.env` is unreadable.
    """
    try:
        merged = merged_environment(directory, os.environ if process is None else process)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise InvalidSettings((f".env cannot be read: {reason}. Correct or remove it.",)) from None
    if "KUBERNETES_SERVICE_HOST" in merged:
        merged = {name: value for name, value in merged.items() if not _KUBERNETES.search(name)}
    has_lakehouse = _has_lakehouse(merged)
    return {
        name: value
        for name, value in merged.items()
        if _is_setting(name) or (has_lakehouse and lakehouse.is_option(name))
    }


def _has_lakehouse(variables: Mapping[str, str]) -> bool:
    """Return whether there is an object store or a catalog, whose libraries have options too."""
    return any(variables.get(name, "").strip() for name in (lakehouse.SHELF, lakehouse.CATALOG))


def _is_setting(name: str) -> bool:
    """Return whether a name is a setting or looks like a misspelled setting (`NIGHTBOK_HOME`)."""
    upper = name.upper()
    if name.startswith("NIGHTBOOK_") or not ("NIGHT" in upper or "BOOK" in upper):
        return name.startswith("NIGHTBOOK_")
    return bool(difflib.get_close_matches(upper, NAMES, n=1, cutoff=MIN_SIMILARITY))


def _unknown_names(variables: Mapping[str, str]) -> Iterator[str]:
    """Yield an error for each unknown variable name, because it may be a typo."""
    for name in filter(_is_setting, sorted(variables.keys() - set(NAMES))):
        [nearest] = difflib.get_close_matches(name.upper(), NAMES, n=1, cutoff=0)
        yield f"{name[:MAX_SHOWN]} is not a setting. Did you mean {nearest}?"


def read(variables: Mapping[str, str], *, api: bool) -> Settings:
    """Read the settings from environment variables. With `api`, the API settings are required.

    An empty variable counts as unset. Raises `InvalidSettings` with all errors at once.
    """
    variables = DEFAULTS | {name: value for name, value in variables.items() if value.strip()}
    complaints = list(_unknown_names(variables))
    shelf, catalog = None, None
    namespace = lakehouse.NAMESPACE
    if _has_lakehouse(variables) or variables[namespace] != DEFAULTS[namespace]:
        shelf, catalog = lakehouse.read_addresses(variables, complaints)
    settings = Settings(
        home=_home(variables, complaints),
        timezone=_timezone(variables, complaints),
        schedule=_schedule(variables, complaints),
        concurrency=int(_number(variables, complaints, "NIGHTBOOK_CONCURRENCY", MAX_CONCURRENCY)),
        deadline=_number(variables, complaints, "NIGHTBOOK_DEADLINE", 24 * 3600),
        native_nights=_native_nights(variables, complaints),
        versions_gb=int(_number(variables, complaints, "NIGHTBOOK_VERSIONS_GB", 100_000)),
        workbook_rows=int(_number(variables, complaints, "NIGHTBOOK_WORKBOOK_ROWS", 100_000_000)),
        access=read_access(variables, complaints) if api else None,
        alerts=_alerts(variables, complaints),
        deliver=_pairs(variables, complaints, "NIGHTBOOK_DELIVER", _CONTENT),
        owners=_pairs(variables, complaints, "NIGHTBOOK_OWNERS", _OWNER),
        heartbeat=_heartbeat(variables, complaints),
        shelf=shelf,
        catalog=catalog,
        pinned_assets=_names(variables, "NIGHTBOOK_PINNED_ASSETS"),
        price_sources=_names(variables, "NIGHTBOOK_PRICE_SOURCES"),
        price_max_age=_max_age(variables, complaints),
        currency=variables.get("NIGHTBOOK_CURRENCY", "").strip() or None,
        cross_rate=_cross_rate(variables, complaints),
    )
    if complaints:
        raise InvalidSettings(tuple(complaints))
    return settings


def _home(variables: Mapping[str, str], complaints: list[str]) -> Path:
    """Read the home folder. Add an error if Dagster, SQLite or DuckDB cannot use its path."""
    text = variables["NIGHTBOOK_HOME"]
    try:
        home = home_path(text)
    except RuntimeError:
        complaints.append(
            f"NIGHTBOOK_HOME is {text[:MAX_SHOWN]!r}: this user has no home directory."
        )
        return Path.cwd()
    if signs := sorted(set(str(home)) & set(NO_PATH)):
        complaints.append(
            f"NIGHTBOOK_HOME is {text[:MAX_SHOWN]!r}: the path must not contain "
            f"{' '.join(signs)}, which Dagster, SQLite or DuckDB would misinterpret. Choose a "
            "simpler path."
        )
    return home


def _timezone(variables: Mapping[str, str], complaints: list[str]) -> ZoneInfo:
    """Read the time zone, and add an error if its name is unknown."""
    name = variables["NIGHTBOOK_TIMEZONE"]
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        complaints.append(
            f"NIGHTBOOK_TIMEZONE is {name[:MAX_SHOWN]!r}. Use a name from the time zone database, "
            "such as Europe/Zurich."
        )
        return ZoneInfo("UTC")


def _schedule(variables: Mapping[str, str], complaints: list[str]) -> str:
    """Read and normalize the cron schedule, and add an error if it is invalid."""
    schedule = variables["NIGHTBOOK_SCHEDULE"]
    if not is_schedule(schedule):
        complaints.append(
            f"NIGHTBOOK_SCHEDULE is {schedule[:MAX_SHOWN]!r}. Use five cron fields (minute, hour, "
            "day, month, weekday), such as 15 2,4,6 * * * for three attempts every night."
        )
    return " ".join(schedule.lower().split())


def _number(variables: Mapping[str, str], complaints: list[str], name: str, most: int) -> float:
    """Read a whole number, and add an error if it is not between 1 and `most`."""
    text = variables[name].strip()
    is_number = text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS
    if is_number and 1 <= int(text) <= most:
        return int(text)
    complaints.append(f"{name} is {text[:MAX_SHOWN]!r}. Use a whole number from 1 to {most}.")
    return 1


def _native_nights(variables: Mapping[str, str], complaints: list[str]) -> int | None:
    """Read the number of nights that the warehouse stores (None: all). Add an error if invalid."""
    name, home = "NIGHTBOOK_NATIVE_NIGHTS", variables["NIGHTBOOK_HOME"]
    if variables[name].strip().lower() == "all":
        return None
    if variables[name].strip() == "1":
        complaints.append(
            f"{name} is '1', but the newest night is compared with the one before it. "
            "Use 2 or more, or all."
        )
    if sign := misleading_sign(home_path(home)):
        complaints.append(
            f"{name} cannot be used if NIGHTBOOK_HOME contains {sign}, which has a special meaning "
            f"for DuckDB in the paths of older nights. Choose a simpler path, or set {name} to all."
        )
    return int(_number(variables, complaints, name, 100_000))


def _alerts(variables: Mapping[str, str], complaints: list[str]) -> tuple[str, ...]:
    """Split the alert addresses at each new `scheme://`, so that addresses may contain commas."""
    text = variables.get("NIGHTBOOK_ALERTS", "").strip()
    addresses = tuple(filter(None, (address.strip(" ,") for address in _NEXT_ADDRESS.split(text))))
    for number, address in enumerate(addresses, 1):
        if not _ADDRESS.match(address):
            complaints.append(
                f"NIGHTBOOK_ALERTS: address {number} of {len(addresses)} has no scheme. Use a URL "
                "such as mailtos://user:password@example.com or json://127.0.0.1:8080/alerts."
            )
    return addresses


def _pairs(
    variables: Mapping[str, str], complaints: list[str], setting: str, key: re.Pattern[str]
) -> tuple[tuple[str, str], ...]:
    """Read pairs of a key and an address. Add an error if the text does not begin with a key."""
    text = variables.get(setting, "").strip()
    before, *parts = key.split(text)
    if before.strip(" ,") or (text and not parts):
        example = "both mailtos://..." if key is _CONTENT else "Ann Lee=mailtos://..."
        complaints.append(
            f"{setting} does not begin with {example.partition('mail')[0].strip()!r} or the like "
            f"before a URL. Write it as {example}, and separate several with commas."
        )
        return ()
    addresses = [address.strip(" ,") for address in parts[1::2]]
    return tuple(zip(parts[::2], addresses, strict=True))


def _names(variables: Mapping[str, str], setting: str) -> tuple[str, ...]:
    """Read a list of names that are separated by commas."""
    return tuple(name.strip() for name in variables.get(setting, "").split(",") if name.strip())


def _max_age(variables: Mapping[str, str], complaints: list[str]) -> int | None:
    """Read the age in days after which a price is stale, or None if prices never become stale."""
    name = "NIGHTBOOK_PRICE_MAX_AGE"
    return int(_number(variables, complaints, name, 100_000)) if name in variables else None


def _cross_rate(variables: Mapping[str, str], complaints: list[str]) -> tuple[str, str, str] | None:
    """Read the cross rate, if it is set, and add an error if it is invalid."""
    text = variables.get("NIGHTBOOK_CROSS_RATE", "").strip()
    match = re.fullmatch(r"(\S+) *= *(\S+) +via +(\S.*)", text)
    if text and (match is None or match[1] == match[2]):
        complaints.append(
            f"NIGHTBOOK_CROSS_RATE is {text[:MAX_SHOWN]!r}. Write the new quote, the quote of the "
            "prices and the source of the rate, such as EUR = USD via ecb."
        )
    return (match[1], match[2], match[3]) if match else None


def _heartbeat(variables: Mapping[str, str], complaints: list[str]) -> str | None:
    """Read the heartbeat URL, if it is set, and add an error if it is invalid."""
    url = variables.get("NIGHTBOOK_HEARTBEAT", "").strip()
    try:
        parts = urlsplit(url)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_url = False
    if url and not (is_url and is_visible_ascii(url)):
        complaints.append(
            "NIGHTBOOK_HEARTBEAT is not an http or https URL. Use the complete URL that your "
            "monitor created for this check."
        )
    return url or None

"""Functions that read and check the API settings: origin, key and secret.

This module does not import httpx.
"""

import ipaddress
import os
import stat
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

NOT_AN_ORIGIN = (
    "is not a valid origin. Use only a scheme, a host and an optional port, for example "
    "https://api.example.com."
)
MORE_THAN_ORIGIN = (
    "contains more than an origin. Use only scheme, host and port, without user name, path or "
    "query. A path prefix is not possible, because the path is signed."
)
PLAIN_HTTP = "uses plain http, which is allowed only for connections to this machine. Use https."
NOT_VISIBLE_ASCII = "contains a space or a character that is not visible ASCII. Copy it again."
INVISIBLE = "contains a line break or an invisible character. Copy it again."
MAX_SECRET_SIZE = 64 * 1024  # maximum size of the secret file in bytes

# Control and format characters, surrogates, line and paragraph separators. They are invisible, so
# nobody notices them when pasting a secret (5.2.6).
_INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


@dataclass(frozen=True, slots=True)
class Access:
    """The API's address, key and secret. The `repr` contains neither the key nor the secret."""

    url: str
    key: str = field(repr=False)
    secret: str = field(repr=False)


def read_access(variables: Mapping[str, str], errors: list[str]) -> Access:
    """Read the API settings. Add a message to `errors` for each missing or invalid setting."""
    url = variables.get("NIGHTBOOK_API_URL", "").strip().rstrip("/")
    key = variables.get("NIGHTBOOK_API_KEY", "").strip()
    if not url:
        errors.append(
            "NIGHTBOOK_API_URL is not set. Set it to the origin of the API, for example "
            "https://api.example.com (or start `nightbook sandbox` and use the address it prints)."
        )
    elif problem := find_origin_problem(url):
        errors.append(f"NIGHTBOOK_API_URL {problem}")
    if not key:
        errors.append(
            "NIGHTBOOK_API_KEY is not set. Generate an API key for your organisation on the "
            "service's web platform."
        )
    elif not is_visible_ascii(key):
        errors.append(f"NIGHTBOOK_API_KEY {NOT_VISIBLE_ASCII}")
    return Access(url, key, _read_secret(variables, errors))


def find_origin_problem(url: str) -> str | None:
    """Return why the key must not be sent to this address, or None if the address is safe.

    The result starts with a verb and ends with a full stop. It does not quote the address, which
    may include a password.
    """
    url = url.strip().rstrip("/")
    # Search the whole URL, because `urlsplit` drops an empty query or fragment.
    if set(url.partition("://")[2]) & set("@/?#"):
        return MORE_THAN_ORIGIN
    try:
        parts = urlsplit(url)
        # Reading `port` raises ValueError if the port is invalid.
        host = parts.hostname if parts.port != 0 else None
    except ValueError:
        return NOT_AN_ORIGIN
    if not is_visible_ascii(url) or parts.scheme not in ("http", "https") or not host:
        return NOT_AN_ORIGIN
    return PLAIN_HTTP if parts.scheme == "http" and not is_loopback(host) else None


def is_loopback(host: str) -> bool:
    """Return whether a host name or IP address refers to this machine."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def has_invisible(text: str) -> bool:
    """Return whether a string contains a line break or another invisible character."""
    return any(unicodedata.category(char) in _INVISIBLE_CATEGORIES for char in text)


def is_visible_ascii(text: str) -> bool:
    """Return whether a string contains only visible ASCII characters, and no spaces.

    Such a string can be sent in an HTTP header unchanged.
    """
    return text.isascii() and text.isprintable() and " " not in text


def _read_secret(variables: Mapping[str, str], errors: list[str]) -> str:
    secret = variables.get("NIGHTBOOK_API_SECRET", "").strip()
    file = variables.get("NIGHTBOOK_API_SECRET_FILE", "").strip()
    if secret and file:
        errors.append(
            "NIGHTBOOK_API_SECRET and NIGHTBOOK_API_SECRET_FILE are both set. Unset one of them."
        )
    elif file:
        return _read_secret_file(Path(file), errors)
    elif has_invisible(secret):
        errors.append(f"NIGHTBOOK_API_SECRET {INVISIBLE}")
    elif not secret:
        errors.append(
            "Neither NIGHTBOOK_API_SECRET nor NIGHTBOOK_API_SECRET_FILE is set. The secret is "
            "shown only once, when the API key is generated. Put it in a file that only you can "
            "read."
        )
    return secret


def _read_secret_file(path: Path, errors: list[str]) -> str:
    """Read the secret from a file. Errors omit the path, because it might be the secret itself."""
    name = "The file in NIGHTBOOK_API_SECRET_FILE"
    try:
        status = path.expanduser().stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_SECRET_SIZE:
            errors.append(f"{name} is not a small text file. It should contain only the secret.")
            return ""
        secret = path.expanduser().read_text(encoding="utf-8-sig").strip()
        is_fixed = bool(os.statvfs(path.expanduser()).f_flag & os.ST_RDONLY)
    except (OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not a text file"
        errors.append(f"{name} cannot be read: {reason}.")
        return ""
    if problem := _access_problem(status, is_fixed=is_fixed):
        errors.append(f"{name} {problem}")
    if not secret:
        errors.append(f"{name} is empty.")
    elif has_invisible(secret):
        errors.append(f"{name} {INVISIBLE}")
    return secret


def _access_problem(status: os.stat_result, *, is_fixed: bool) -> str:
    """Return why a secret file is not private, with advice that this user can follow, or "".

    `is_fixed` is true if the file is on a read-only file system, so nobody can change its mode.
    """
    shared = status.st_mode & (stat.S_IRWXG | stat.S_IRWXO)
    # Kubernetes, Swarm and systemd mount a secret as a file of root that the service's group reads.
    is_of_root = status.st_uid == 0 and os.geteuid() != 0
    is_mounted = is_fixed or is_of_root
    if not shared or (is_mounted and shared == stat.S_IRGRP):
        return ""
    if is_mounted:
        return (
            f"can be used by other users (mode {stat.S_IMODE(status.st_mode):04o}), and you cannot "
            "change a file that is mounted or belongs to root. Mount it with mode 0440 for the "
            "group of nightbook's user (Kubernetes: defaultMode: 0440 and fsGroup; Compose and "
            "Swarm: mode: 0440 and gid), or type as root: chmod 440 FILE && chgrp GROUP FILE."
        )
    if os.geteuid() not in {status.st_uid, 0}:
        return (
            "can be read by other users, and it belongs to one of them. Copy it to a private "
            "file, and run chmod 600 on the copy."
        )
    return "can be read by other users. Run chmod 600 on it."

"""Where the API is and how to sign for it, as the settings say it."""

import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pipelines.edge.letters import has_unseen, is_visible_ascii
from pipelines.edge.origin import problem_of_origin

UNCARRIED = "holds a space or a letter that is not visible ASCII: copy it again."
INVISIBLE = "holds a line end, or a letter that cannot be seen: copy it again, alone."
LONGEST_SECRET = 64 * 1024


@dataclass(frozen=True, slots=True)
class Access:
    """Where the API is and how to sign for it; its repr shows neither key nor secret."""

    url: str
    key: str = field(repr=False)
    secret: str = field(repr=False)


def read_access(variables: Mapping[str, str], complaints: list[str]) -> Access:
    """Return what the settings say; complains, in words, of what is missing or wrong."""
    url = variables.get("NIGHTBOOK_API_URL", "").strip().rstrip("/")
    key = variables.get("NIGHTBOOK_API_KEY", "").strip()
    if not url:
        complaints.append(
            "NIGHTBOOK_API_URL is not set: give the origin of the API, such as "
            "https://api.example.com (or start `nightbook sandbox` and use what it prints)."
        )
    elif problem := problem_of_origin(url):
        complaints.append(f"NIGHTBOOK_API_URL {problem}")
    if not key:
        complaints.append(
            "NIGHTBOOK_API_KEY is not set: an API key is generated for your organization on the "
            "service's web platform (5)."
        )
    elif not is_visible_ascii(key):
        complaints.append(f"NIGHTBOOK_API_KEY {UNCARRIED}")
    return Access(url, key, _secret(variables, complaints))


def _secret(variables: Mapping[str, str], complaints: list[str]) -> str:
    plain = variables.get("NIGHTBOOK_API_SECRET", "").strip()
    file = variables.get("NIGHTBOOK_API_SECRET_FILE", "").strip()
    if plain and file:
        complaints.append(
            "NIGHTBOOK_API_SECRET and NIGHTBOOK_API_SECRET_FILE are both set: keep one of them."
        )
    elif file:
        return _secret_from(Path(file), complaints)
    elif has_unseen(plain):
        complaints.append(f"NIGHTBOOK_API_SECRET {INVISIBLE}")
    elif not plain:
        complaints.append(
            "NIGHTBOOK_API_SECRET or NIGHTBOOK_API_SECRET_FILE is not set: the secret is shown "
            "once, when the API key is generated (5); put it in a file only you can read."
        )
    return plain


def _secret_from(path: Path, complaints: list[str]) -> str:
    """Read the secret in a file, whose name may be the secret itself and is not repeated."""
    name = "The file that NIGHTBOOK_API_SECRET_FILE names"
    try:
        status = path.expanduser().stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > LONGEST_SECRET:
            complaints.append(f"{name} is no small plain file: put the secret alone into one.")
            return ""
        secret = path.expanduser().read_text(encoding="utf-8-sig").strip()
    except (OSError, RuntimeError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is not text"
        complaints.append(f"{name} cannot be read: {why}.")
        return ""
    if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        complaints.append(f"{name} can be read by others: chmod 600 it.")
    if not secret:
        complaints.append(f"{name} is empty.")
    elif has_unseen(secret):
        complaints.append(f"{name} {INVISIBLE}")
    return secret

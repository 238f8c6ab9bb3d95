"""Where the API may be: an origin that cannot show the key to others, and nothing more."""

import ipaddress
from urllib.parse import urlsplit

from pipelines.edge.letters import is_visible_ascii

NO_ORIGIN = "is no origin: give scheme, host and perhaps a port, like https://api.example.com."
MORE = (
    "holds more than an origin: give scheme, host and port alone, without user name, path or "
    "query (paths are signed, 5.2)."
)
PLAIN_HTTP = "is plain http to another machine: plain http is only for this machine; use https."


def problem_of_origin(text: str) -> str | None:
    """Return what keeps the key from being sent to an address, or None where nothing does."""
    # The address itself is not repeated: it may hold a password.
    text = text.strip().rstrip("/")
    # Looked for in the text, not in its parts: an empty query or fragment would leave no part.
    if set(text.partition("://")[2]) & set("@/?#"):
        return MORE
    try:
        parts = urlsplit(text)
        host = parts.hostname if parts.port != 0 else None  # an absurd port raises here
    except ValueError:
        return NO_ORIGIN
    if not is_visible_ascii(text) or parts.scheme not in ("http", "https") or not host:
        return NO_ORIGIN
    return PLAIN_HTTP if parts.scheme == "http" and not is_loopback(host) else None


def is_loopback(host: str) -> bool:
    """Return whether a host name or address is this machine itself."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False

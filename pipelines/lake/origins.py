"""The server that answered in a night, compared with the server of the last accepted night."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from urllib.parse import urlsplit

from pipelines.landing import snapshots
from pipelines.landing.manifest import Manifest, load_manifest
from pipelines.landing.snapshots import Snapshot

# The beginning of the key of the reason to hold a night that another server answered.
ORIGIN = "origin: "
_PORTS = {"http": 80, "https": 443}
# Linux gives a local server that does not choose a port one of these, a new one at each start.
_CHANGING_PORTS = range(32768, 61000)
_HERE = ("127.0.0.1", "localhost", "::1")


class OtherServer(NamedTuple):
    """A night's server and the different server of the last accepted night."""

    server: str
    before: str
    night_before: str
    """The snapshot ID of the last accepted night."""


def server_of(origin: str) -> str:
    """Return the host and port of an address. A changing port of this machine is left out."""
    parts = urlsplit(origin)
    host = (parts.hostname or "").rstrip(".").lower()
    port = parts.port or _PORTS.get(parts.scheme)
    if host in _HERE and port in _CHANGING_PORTS:
        return "127.0.0.1"
    return host if port in _PORTS.values() else f"{host}:{port}"


def find_other_server(manifest: Manifest, landed: Sequence[Snapshot]) -> OtherServer | None:
    """Return the servers if a night was not read from the server of the last accepted night."""
    moment = datetime.fromisoformat(manifest.finished_at)
    last = next(snapshots.accepted_before(landed, manifest.snapshot_id, moment), None)
    if last is None:
        return None
    before, server = (server_of(read.origin) for read in (load_manifest(last.folder), manifest))
    return None if server == before else OtherServer(server, before, last.snapshot_id)

"""Object stores for tests: real servers on loopback, whose data is deleted at the end.

`SeaweedFS` (S3) and `Azurite` (Azure) support conditional writes. `rclone serve s3` accepts
conditions but ignores them, so nightbook must refuse it.
"""

import base64
import contextlib
import hashlib
import hmac
import os
import shutil
import socket
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path

import obstore
import pytest
from obstore.store import from_url

from tests.support import environments
from tests.support.shipped_units import free_port, until

BUCKET = "night"
KEYS = {"AWS_ACCESS_KEY_ID": "nightkey", "AWS_SECRET_ACCESS_KEY": "nightsecret"}
# Azurite's built-in account. It is the same everywhere, so it is not a secret.
ACCOUNT = "devstoreaccount1"
ACCOUNT_KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)
GRPC = 10000


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectStore:
    """A running store: its scheme and bucket, its address, and the variables that connect to it.

    `iceberg` is the address of its Iceberg REST catalog, or empty if it does not have one.
    """

    name: str
    root: str
    endpoint: str
    variables: Mapping[str, str]
    iceberg: str = ""

    @property
    def rest_options(self) -> dict[str, str]:
        """The options of pyiceberg for the REST catalog, except its address."""
        key, secret = KEYS["AWS_ACCESS_KEY_ID"], KEYS["AWS_SECRET_ACCESS_KEY"]
        return {
            "warehouse": "s3://tables",
            "credential": f"{key}:{secret}",
            "oauth2-server-uri": f"{self.iceberg}/v1/oauth/tokens",
        }

    @property
    def rest_variables(self) -> dict[str, str]:
        """The same options as environment variables of pyiceberg."""
        return {
            f"PYICEBERG_CATALOG__NIGHTBOOK__{name.upper().replace('-', '_')}": value
            for name, value in self.rest_options.items()
        }

    def reached_by(self, endpoint: str) -> dict[str, str]:
        """Return the variables that connect to the store through a proxy at a different address."""
        return {
            name: value.replace(self.endpoint, endpoint) for name, value in self.variables.items()
        }


@contextmanager
def _serving(name: str, command: Sequence[str], port: int, place: Path) -> Iterator[None]:
    """Run a server until the end of the `with` block. If it does not start, show its log."""
    log = place / "log"
    variables = {**os.environ, **KEYS, "HOME": str(place)}
    with (
        log.open("wb") as file,
        subprocess.Popen(command, cwd=place, env=variables, stdout=file, stderr=file) as process,
    ):
        try:
            until(name, lambda: _answers(port) or process.poll() is not None, log)
            assert process.poll() is None, f"{name} ended: {log.read_text()[-4000:]}"
            yield
        finally:
            process.kill()


def _answers(port: int) -> bool:
    """Return True if a server on a loopback port responds to HTTP requests."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=2):
            return True
    except urllib.error.HTTPError:
        return True
    except (OSError, ValueError):
        return False


def _takes_writes(store: ObjectStore) -> bool:
    """Return True if the bucket accepts objects. SeaweedFS responds to requests before that."""
    options = {"access_key_id": KEYS["AWS_ACCESS_KEY_ID"], "region": "us-east-1"}
    options |= {"secret_access_key": KEYS["AWS_SECRET_ACCESS_KEY"], "endpoint": store.endpoint}
    bucket = from_url(store.root, client_options={"allow_http": True}, **options)
    with contextlib.suppress(Exception):
        obstore.put(bucket, "ready", b"1")
        return True
    return False


def _make_container(endpoint: str) -> None:
    """Create Azurite's container. obstore cannot create it, so this signs the request itself."""
    now = formatdate(usegmt=True)
    headers = {"x-ms-date": now, "x-ms-version": "2021-08-06"}
    named = "".join(f"{name}:{value}\n" for name, value in headers.items())
    text = "PUT" + "\n" * 12 + f"{named}/{ACCOUNT}/{ACCOUNT}/{BUCKET}\nrestype:container"
    mac = hmac.new(base64.b64decode(ACCOUNT_KEY), text.encode(), hashlib.sha256).digest()
    headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(mac).decode()}"
    url = f"{endpoint}/{BUCKET}?restype=container"
    request = urllib.request.Request(url, headers=headers, method="PUT")  # noqa: S310 - loopback
    with urllib.request.urlopen(request):  # noqa: S310 - loopback
        pass


def _free_ports(count: int) -> list[int]:
    """Return free ports. The port 10,000 higher is free too, because SeaweedFS uses both."""
    ports: set[int] = set()
    while len(ports) < count:
        port = free_port()
        with contextlib.suppress(OSError), socket.socket() as neighbour:
            if port + GRPC < 1 << 16:
                neighbour.bind(("127.0.0.1", port + GRPC))
                ports.add(port)
    return sorted(ports)


@contextmanager
def seaweedfs() -> Iterator[ObjectStore]:
    """Run SeaweedFS with one bucket and without telemetry."""
    program = environments.python("lakehouse").with_name("weed")
    with tempfile.TemporaryDirectory() as name:
        s3, master, volume, filer, iceberg, lance = _free_ports(6)
        listening = {
            "s3.port": s3,
            "master.port": master,
            "volume.port": volume,
            "filer.port": filer,
            "s3.port.iceberg": iceberg,
            "s3.port.lance": lance,
        }
        (Path(name) / "data").mkdir()
        command = [
            *(str(program), "-logtostderr=true", "mini", f"-dir={name}/data"),
            *("-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-bucket={BUCKET}", "-tableBucket=tables"),
            *("-admin.ui=false", "-webdav=false", "-master.telemetry=false", "-volume.max=20"),
            *(f"-{option}={port}" for option, port in listening.items()),
        ]
        endpoint = f"http://127.0.0.1:{s3}"
        with _serving("SeaweedFS", command, s3, Path(name)):
            store = ObjectStore(
                name="SeaweedFS",
                root=f"s3://{BUCKET}",
                endpoint=endpoint,
                variables={"AWS_ENDPOINT_URL": endpoint, "AWS_REGION": "us-east-1", **KEYS},
                iceberg=f"http://127.0.0.1:{iceberg}",
            )
            until("SeaweedFS's bucket", lambda: _takes_writes(store))
            yield store


@contextmanager
def azurite() -> Iterator[ObjectStore]:
    """Run Azurite with one container."""
    home = environments.ROOT / ".side" / "azurite"
    if shutil.which("node") is None:
        pytest.skip("Azurite needs Node, which is not there: install Node 20 or newer")
    if not (home / "ready").is_file():
        pytest.skip("Azurite is not there: make .side/azurite/ready")
    with tempfile.TemporaryDirectory() as name:
        port = free_port()
        script = home / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
        command = [
            *("node", str(script), "--location", name, "--blobHost", "127.0.0.1"),
            *("--blobPort", str(port), "--disableTelemetry", "--skipApiVersionCheck", "--silent"),
        ]
        endpoint = f"http://127.0.0.1:{port}/{ACCOUNT}"
        with _serving("Azurite", command, port, Path(name)):
            _make_container(endpoint)
            yield ObjectStore(
                name="Azurite",
                root=f"az://{BUCKET}",
                endpoint=endpoint,
                variables={
                    "AZURE_STORAGE_ENDPOINT": endpoint,
                    "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
                    "AZURE_STORAGE_ACCOUNT_KEY": ACCOUNT_KEY,
                },
            )


@contextmanager
def rclone() -> Iterator[ObjectStore]:
    """Run a store with one bucket that accepts conditional writes but ignores the conditions."""
    program = environments.python("lakehouse").with_name("rclone")
    with tempfile.TemporaryDirectory() as name:
        port = free_port()
        (Path(name) / "kept" / BUCKET).mkdir(parents=True)
        keys = f"{KEYS['AWS_ACCESS_KEY_ID']},{KEYS['AWS_SECRET_ACCESS_KEY']}"
        command = [
            *(str(program), "serve", "s3", f"{name}/kept", "--addr", f"127.0.0.1:{port}"),
            *("--auth-key", keys, "--vfs-cache-mode", "full", "--cache-dir", f"{name}/cache"),
        ]
        endpoint = f"http://127.0.0.1:{port}"
        with _serving("rclone", command, port, Path(name)):
            yield ObjectStore(
                name="rclone",
                root=f"s3://{BUCKET}",
                endpoint=endpoint,
                variables={"AWS_ENDPOINT_URL": endpoint, "AWS_REGION": "us-east-1", **KEYS},
            )

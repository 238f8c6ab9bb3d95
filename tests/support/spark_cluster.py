"""Spark of the side environment: settings for one job, and a standalone cluster to kill."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import environments
from tests.support.shipped_units import free_port, until

HERE = "127.0.0.1"
PATIENCE = 20  # seconds to wait for a server to end
# The jobs are a few small nights. They need a small heap, and a compiler that starts fast.
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker of a cluster: its process, and the folder of its executors."""

    process: subprocess.Popen[bytes]
    folder: Path

    @property
    def is_registered(self) -> bool:
        """True if the worker is registered with its master."""
        return "registered with master" in (self.folder / "log").read_text("utf-8")

    @property
    def has_executor(self) -> bool:
        """True if the worker has started an executor for a job."""
        return any(self.folder.glob("app-*/*/stderr"))

    def kill(self) -> None:
        """Kill the worker, its executors and their interpreters, like a machine that crashes."""
        for pid in (self.process.pid, *_descendants(self.process.pid)):
            os.kill(pid, signal.SIGKILL)


def _descendants(pid: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = stat.read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:  # the process has ended meanwhile
            continue
        children.setdefault(int(words[1]), []).append(int(stat.parent.name))
    found = list(children.get(pid, ()))
    for child in found:
        found += children.get(child, ())
    return found


def packages() -> Path:
    """Return the folder of pyspark, or skip the test with a reason if Spark cannot run."""
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java, and there is none here")
    return environments.packages("spark")


def settings(folder: Path, master: str) -> Mapping[str, str]:
    """Write Spark's settings for a master, and return the variables of a command that uses it."""
    folder.mkdir(exist_ok=True)
    lines = {
        "spark.master": master,
        "spark.ui.enabled": "false",
        "spark.driver.host": HERE,
        "spark.driver.bindAddress": HERE,
        "spark.executor.memory": "512m",
    }
    text = "".join(f"{name} {value}\n" for name, value in lines.items())
    (folder / "spark-defaults.conf").write_text(text, encoding="utf-8")
    return {
        "SPARK_CONF_DIR": str(folder),
        "SPARK_LOCAL_IP": HERE,
        "JAVA_TOOL_OPTIONS": JAVA,
        "PYTHONPATH": str(packages()),
        "PYSPARK_PYTHON": sys.executable,
    }


@contextmanager
def cluster(folder: Path, workers: int) -> Iterator[tuple[str, list[Worker]]]:
    """Run a standalone cluster. Yield its master and its workers, which have one core each."""
    port = free_port()
    master = f"spark://{HERE}:{port}"
    with ExitStack() as stack:
        _start(stack, folder / "master", "master.Master", "--port", str(port))
        running = []
        for number in range(workers):
            place = folder / f"worker-{number}"
            options = ("-c", "1", "-m", "1g", "-d", str(place))
            running.append(Worker(_start(stack, place, "worker.Worker", *options, master), place))
        until("the workers", lambda: all(worker.is_registered for worker in running))
        yield master, running


def _start(stack: ExitStack, place: Path, role: str, *options: str) -> subprocess.Popen[bytes]:
    place.mkdir(parents=True)
    log = stack.enter_context((place / "log").open("wb"))
    process = subprocess.Popen(
        [
            str(packages() / "pyspark" / "bin" / "spark-class"),
            f"org.apache.spark.deploy.{role}",
            *("--host", HERE, "--webui-port", str(free_port()), *options),
        ],
        env={**os.environ, "SPARK_LOCAL_IP": HERE, "JAVA_TOOL_OPTIONS": JAVA},
        cwd=place,
        stdout=log,
        stderr=subprocess.STDOUT,
    )

    def stop() -> None:
        process.terminate()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:  # a worker without its executors may never end
            process.kill()
            process.wait()

    stack.callback(stop)
    return process

"""`nightbook run` as it is typed: pull, flatten, publish, report, and write the workbook.

    python -m tests.tools.performance.whole_command BODY FOLDER

The program writes the responses of a server on such a night: the portfolios of BODY, and forty
venues with three thousand instruments each.
"""

import importlib
import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.tools.performance.bodies import INSTRUMENTS_EACH, STAMP, VENUES, instruments

NAME = "nightbook run"


def serve(body: Path, folder: Path) -> subprocess.Popen[str]:
    """Start a server of such a night. A separate process writes the responses."""
    answers = folder / "answers"
    python = [sys.executable, "-P", "-m"]
    made = [*python, "tests.tools.performance.whole_command", str(body), str(answers)]
    subprocess.run(made, check=True)
    command = [*python, "tests.tools.performance.slow_server", "0", str(answers)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def run(server: subprocess.Popen[str], home: Path) -> Path:
    """Run the night in this process, and return the published database."""
    # The server's own CPU is not counted, because nothing waits for its process.
    assert server.stdout is not None
    importlib.import_module("tests.support.created_home").created_home(home)
    os.environ |= {
        "NIGHTBOOK_API_URL": f"http://127.0.0.1:{int(server.stdout.readline())}",
        "NIGHTBOOK_API_KEY": "key",
        "NIGHTBOOK_API_SECRET": "secret",
        "NIGHTBOOK_HOME": str(home),
    }
    try:
        code = importlib.import_module("assets.cli").main(["run"])
    finally:
        server.kill()
    assert code == 0, f"nightbook run ended with {code}"
    assert list((home / "exports").glob("*.xlsx")), "no workbook"
    return home / "warehouse" / "current" / "nightbook.duckdb"


def write_answers(body: Path, folder: Path, seed: int = 7) -> None:
    """Write every response: portfolios, venues with their instruments, and the lists."""
    folder.mkdir()
    shutil.copyfile(body, folder / "portfolios.json")
    rng = random.Random(seed)
    venues = []
    for number in range(VENUES):
        listed = []
        for kind in ("spot", "future"):
            data = list(instruments(rng, kind, INSTRUMENTS_EACH))
            write_answer(folder / f"venue-{number}-{kind}.json", data)
            listed += data
        venues.append(venue(f"venue-{number}", listed))
    write_answer(folder / "venues.json", venues)


def write_answer(path: Path, data: list[Any]) -> None:
    """Write records as the API returns them."""
    path.write_text(json.dumps({"data": data, "meta": {}}, separators=(",", ":")), encoding="utf-8")


def venue(name: str, listed: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a venue with its instruments, as the list of venues contains it."""
    kept = ("id", "type", "displayName")
    return {
        "id": name,
        "resource": "venue",
        "type": ["exchange"],
        "displayName": name.title(),
        "tradingStatus": "trading",
        "instruments": [{key: record[key] for key in kept} for record in listed],
        "createdAt": STAMP,
        "updatedAt": STAMP,
    }


if __name__ == "__main__":
    write_answers(Path(sys.argv[1]), Path(sys.argv[2]))

"""`make pictures`: new pictures for the pages, taken from the home of a demo.

    python -m tests.house.pictures [--home DIR]

Chromium takes the pictures of the morning report and of Dagster's graph. LibreOffice and poppler
take the pictures of the reconciliation workbook's sheets. If a tool is missing on this machine, a
message says once how to install it, and its pictures stay as they are. The nights of the demo are
seeded, so a picture changes only if its content does. The graph shows no date. It is from a demo
that ends today, because otherwise days would be missing.
"""

import argparse
import base64
import contextlib
import io
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from assets.cli import main
from tests.support.browser import Browser, chromium
from tests.support.demo import MORNING, nightbook_of, take_demo
from warehouse.report.build import LATEST
from warehouse.storage.layout import Layout

ROOT = Path(__file__).parents[2]
REPORT = ROOT / "warehouse" / "report" / "morning-report.png"
GRAPH = ROOT / "assets" / "graph" / "asset-graph.png"
FINANCE = ROOT / "warehouse" / "reconcile"
LARGEST = 200_000
PATIENCE = 120
TOOLS = {
    "chromium": "apt-get install chromium",
    "soffice": "apt-get install libreoffice-calc",
    "pdftoppm": "apt-get install poppler-utils",
}


@dataclass(frozen=True, slots=True)
class View:
    """A browser window, a script that is true when the page is ready, and the edges to cut."""

    width: int
    height: int
    ready: str = "true"
    left: int = 0
    top: int = 0
    right: int = 0
    bottom: int = 0


@dataclass(frozen=True, slots=True)
class Crop:
    """A part of a printed sheet: its resolution in dots per inch, and its box in dots."""

    sheet: str
    dots: int
    x: int
    y: int
    width: int
    height: int


def missing(*names: str) -> bool:
    """Return True if a tool is missing, and print how to install each missing tool."""
    absent = [name for name in names if shutil.which(name) is None]
    for name in absent:
        print(f"{name} is not on this machine, so its pictures stay as they are: {TOOLS[name]}")
    return bool(absent)


def photograph(browser: Browser, url: str, view: View, picture: Path) -> None:
    """Open a page in a window of this size, wait until it is drawn, and save a picture."""
    target = browser.call("Target.createTarget", url="about:blank")["targetId"]
    session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
    size = {"width": view.width, "height": view.height, "deviceScaleFactor": 1, "mobile": False}
    browser.call("Emulation.setDeviceMetricsOverride", session, **size)
    browser.call("Emulation.setScrollbarsHidden", session, hidden=True)
    browser.call("Page.enable", session)
    browser.call("Page.navigate", session, url=url)
    end = time.monotonic() + PATIENCE
    while not browser.evaluate(session, f"document.readyState === 'complete' && ({view.ready})"):
        if time.monotonic() > end:
            sys.exit(f"{url} was not drawn within {PATIENCE} seconds; its picture stays as it was")
        time.sleep(0.5)
    time.sleep(3)  # until animations have ended
    wide = view.width - view.left - view.right
    high = view.height - view.top - view.bottom
    box = {"x": view.left, "y": view.top, "width": wide, "height": high, "scale": 1}
    shot = browser.call("Page.captureScreenshot", session, clip=box)
    picture.write_bytes(base64.b64decode(shot["data"]))
    browser.call("Target.closeTarget", targetId=target)


def reconciliation_workbook(home: Path) -> Path:
    """Compare the demo's book with its ledger, and return the workbook."""
    with contextlib.redirect_stdout(io.StringIO()):
        main(("reconcile", "run"), nightbook_of(home))
    [workbook] = (home / "reconcile" / "out").rglob(f"recon_{MORNING:%Y-%m-%d}.xlsx")
    return workbook


def print_workbook(workbook: Path, folder: Path) -> Path:
    """Print the workbook to a PDF with LibreOffice, and return the file."""
    profile = f"-env:UserInstallation={(folder / 'office').as_uri()}"
    convert = ["soffice", profile, "--headless", "--convert-to", "pdf", "--outdir", str(folder)]
    subprocess.run([*convert, str(workbook)], check=True, capture_output=True)
    return folder / workbook.with_suffix(".pdf").name


def photograph_sheet(printed: Path, crop: Crop, picture: Path) -> None:
    """Save a part of the first page of a sheet. The footer of the page names the sheet."""
    text = subprocess.run(
        ["pdftotext", str(printed), "-"], check=True, capture_output=True, text=True
    )
    pages = text.stdout.split("\f")
    number = next(n for n, page in enumerate(pages, 1) if f", {crop.sheet}\n" in page)
    box = [f"-{name}" for name in "xyWH"]
    sides = map(str, (crop.x, crop.y, crop.width, crop.height))
    command = ["pdftoppm", "-png", "-singlefile", "-r", str(crop.dots), "-f", str(number)]
    command += [word for pair in zip(box, sides, strict=True) for word in pair]
    subprocess.run([*command, str(printed), str(picture.with_suffix(""))], check=True)


@contextlib.contextmanager
def dagster(home: Path) -> Iterator[str]:
    """Serve Dagster's pages of a home, and yield their address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = home / "dagster"
    command = [sys.executable, "-m", "assets.runs.web", "--port", str(port), "-d", str(folder)]
    surroundings = os.environ | {"NIGHTBOOK_HOME": str(home), "DAGSTER_HOME": str(folder)}
    with subprocess.Popen(
        command, env=surroundings, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            url = f"http://127.0.0.1:{port}"
            end = time.monotonic() + PATIENCE
            while not _answers(url) and time.monotonic() < end:
                time.sleep(0.5)
            yield url
        finally:
            process.terminate()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):  # noqa: S310 - our own server
            return True
    except (urllib.error.URLError, OSError):
        return False


LINEAGE = "/assets/views/holdings?view=lineage&lineageScope=upstream&lineageDepth=5"
# Dagster draws the graph first and adds the status of each asset later, one after the other. In the
# end, all 13 assets that are made from the API and lead to the view are green.
DRAWN = """[...document.querySelectorAll('foreignObject *')].filter(
  (node) => getComputedStyle(node).borderColor === 'rgb(46, 204, 129)').length >= 13"""
VIEWS = {
    REPORT: View(1000, 1250),
    # Without Dagster's own menus.
    GRAPH: View(1500, 1420, DRAWN, left=425, top=195, right=190),
}
CROPS = {
    FINANCE / "summary.png": Crop("Summary", 96, 10, 45, 774, 770),
    FINANCE / "breaks.png": Crop("Breaks", 150, 22, 131, 935, 313),
    FINANCE / "breaks-comments.png": Crop("Breaks", 150, 955, 131, 778, 313),
}


def take_pictures(layout: Layout, today: Layout, folder: Path) -> None:
    """Take every picture for which this machine has the tools."""
    if not missing("soffice", "pdftoppm"):
        printed = print_workbook(reconciliation_workbook(layout.home), folder)
        for picture, crop in CROPS.items():
            photograph_sheet(printed, crop, picture)
    if not missing("chromium"):
        with chromium(folder / "chromium") as browser, dagster(today.home) as url:
            pages = {
                REPORT: (layout.reports / LATEST).resolve().as_uri(),
                GRAPH: f"{url}{LINEAGE}",
            }
            for picture, view in VIEWS.items():
                photograph(browser, pages[picture], view, picture)


def run() -> None:
    """Create a demo unless its home is given, and take the pictures."""
    parser = argparse.ArgumentParser(prog="python -m tests.house.pictures")
    parser.add_argument("--home", type=Path, help="a demo's home that is there already")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="nightbook-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        layout = Layout(arguments.home) if arguments.home else take_demo(folder / "data")
        today = layout if arguments.home else take_demo(folder / "today", datetime.now(UTC))
        take_pictures(layout, today, folder)
    for picture in (*VIEWS, *CROPS):
        if picture.exists():
            size = picture.stat().st_size
            note = f": more than {LARGEST:,}, take less of it" if size > LARGEST else ""
            print(f"{picture.relative_to(ROOT)}  {size:,} bytes{note}")


if __name__ == "__main__":
    run()

"""`nightbook dev`: the Dagster UI, daemon and schedule for this home, on this machine only."""

import argparse
import os
import subprocess
import sys

from assets.instance import make_instance
from assets.resources import Nightbook

LOOPBACK = "127.0.0.1"


def run(arguments: argparse.Namespace, nightbook: Nightbook) -> int:
    """Start Dagster and stay until Ctrl-C."""
    layout = nightbook.layout
    make_instance(layout)
    print(f"Dagster for {layout.home}: http://{LOOPBACK}:{arguments.port}   (Ctrl-C stops it)")
    print("It has no login and can start runs with your key: do not open this port to others.")
    sys.stdout.flush()
    command = [sys.executable, "-m", "dagster", "dev", "-m", "assets.definitions"]
    command += ["-h", LOOPBACK, "-p", str(arguments.port)]
    quiet = {"PYTHONWARNINGS": "ignore", "NIGHTBOOK_HOME": str(layout.home)}
    try:
        return subprocess.run(command, env=os.environ | quiet, check=False).returncode
    except KeyboardInterrupt:
        return 0

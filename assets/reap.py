"""The old module name under which installed services and containers start the daemon.

Service files from an earlier version contain `python -m assets.reap COMMAND ...` and must still
work after an upgrade. The code is in `assets.runs.dead_runs`.
"""

import sys

from assets.runs.dead_runs import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

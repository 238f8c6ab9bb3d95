"""The name under which installed service units and containers start the daemon.

Units that an earlier version wrote say `python -m assets.reap COMMAND ...`; a home must go on
with them after an upgrade. The code is `assets.runs.dead_runs`.
"""

import sys

from assets.runs.dead_runs import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

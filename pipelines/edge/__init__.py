"""The API client. It imports nothing from the rest of this project.

References such as §5.2 point to sections of the API document.
"""

import sys

# httpx imports `httpx._main`, its command line, if it can. That also loads rich and pygments, and
# costs 0.1 CPU seconds every night. With None in `sys.modules`, the import fails, and httpx does
# without the command line.
sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type] # documented use of None

"""The API client. Its modules do not import any other module of this project.

References such as §5.2 point to sections of the API document.
"""

import sys

# If `httpx._main` can be imported, httpx imports its command line, and with it rich and pygments.
# That costs 0.1 CPU seconds every night. With None in `sys.modules`, the import fails, and httpx
# handles that failure.
sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type] # documented use of None

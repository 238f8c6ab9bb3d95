"""The API client: protocol, errors, signatures and models. It imports only its own modules."""

import sys

# If `httpx._main` can be imported, httpx imports its command line, and with it rich and pygments.
# That costs 0.1 CPU seconds every night. None makes this import fail, which httpx handles.
sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type] # documented use of None

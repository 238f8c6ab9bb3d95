"""The API as a client: protocol, errors, signing, models. Imports nothing else of ours."""

import sys

# httpx imports its own command line where it can, and with it rich and pygments: a tenth of a CPU
# second in every night. Where that module is not to be had, it goes on without.
sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type] # None is how Python says so

"""The tables, database, views and workbooks for analysts and finance.

This package imports no other package of nightbook. Importing it sets two defaults. NumPy does not
start threads, because we do not multiply matrices and idle threads would use CPU time. pyarrow uses
the system's allocator, because pyarrow's own allocator returns large pages to the system and
requests new ones, which the system must fill with zeros. For 300,000 accounts, that took 0.7 CPU
seconds and 40 MB.
"""

import importlib
import os
from typing import TYPE_CHECKING, Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")

# Import the Python API only when it is used, because it loads pandas, which a nightly run does not
# need.
if TYPE_CHECKING:
    from warehouse.query.door import ReadOnlyBook, open_book
    from warehouse.query.exact_amount import NotExact
    from warehouse.query.frames import amounts, exact_total, floats

_LAZY_MODULES = {
    "ReadOnlyBook": "warehouse.query.door",
    "open_book": "warehouse.query.door",
    "NotExact": "warehouse.query.exact_amount",
    "amounts": "warehouse.query.frames",
    "exact_total": "warehouse.query.frames",
    "floats": "warehouse.query.frames",
}
__all__ = ["NotExact", "ReadOnlyBook", "amounts", "exact_total", "floats", "open_book"]


def __getattr__(name: str) -> Any:
    if name in _LAZY_MODULES:
        return getattr(importlib.import_module(_LAZY_MODULES[name]), name)
    raise AttributeError(f"module 'warehouse' has no attribute {name!r}")

"""WHAT analysts and finance read: tables, database, views, workbooks. Imports nothing of ours.

Importing it tells the numpy below pyarrow to start no threads of its own: nothing of ours
multiplies matrices, and each of them spins for a while before it sleeps. And pyarrow, to take its
memory from the system's allocator: its own gives large pages back and takes new ones, which are
filled with zeros; that cost a night of 300,000 accounts 0.7 CPU s and 40 MB.
"""

import importlib
import os
from typing import TYPE_CHECKING, Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")

# The door for Python is opened when somebody asks for it: it needs pandas, and a night does not.
if TYPE_CHECKING:
    from warehouse.query.door import ReadOnlyBook, open_book
    from warehouse.query.exact_amount import NotExact
    from warehouse.query.frames import amounts, exact_total, floats

_DOOR = {
    "ReadOnlyBook": "warehouse.query.door",
    "open_book": "warehouse.query.door",
    "NotExact": "warehouse.query.exact_amount",
    "amounts": "warehouse.query.frames",
    "exact_total": "warehouse.query.frames",
    "floats": "warehouse.query.frames",
}
__all__ = ["NotExact", "ReadOnlyBook", "amounts", "exact_total", "floats", "open_book"]


def __getattr__(name: str) -> Any:
    if name in _DOOR:
        return getattr(importlib.import_module(_DOOR[name]), name)
    raise AttributeError(f"module 'warehouse' has no attribute {name!r}")

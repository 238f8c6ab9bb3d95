"""WHAT analysts and finance read: tables, database, views, workbooks. Imports nothing of ours.

Importing it tells the numpy below pyarrow to start no threads of its own: nothing of ours
multiplies matrices, and each of them spins for a while before it sleeps.
"""

import importlib
import os
from typing import TYPE_CHECKING, Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# The door for Python is opened when somebody asks for it: it needs pandas, and a night does not.
if TYPE_CHECKING:
    from warehouse.query.door import ReadOnlyBook, open_book
    from warehouse.query.exact_amount import NotExact
    from warehouse.query.frames import exact_total, floats

_DOOR = {
    "ReadOnlyBook": "warehouse.query.door",
    "open_book": "warehouse.query.door",
    "NotExact": "warehouse.query.exact_amount",
    "exact_total": "warehouse.query.frames",
    "floats": "warehouse.query.frames",
}
__all__ = ["NotExact", "ReadOnlyBook", "exact_total", "floats", "open_book"]


def __getattr__(name: str) -> Any:
    if name in _DOOR:
        return getattr(importlib.import_module(_DOOR[name]), name)
    raise AttributeError(f"module 'warehouse' has no attribute {name!r}")

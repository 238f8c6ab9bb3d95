"""An import hook that blocks pandas, because importing pandas takes as long as a small night.

pyarrow imports pandas when it first creates an array from Python values, to recognise pandas
objects. If pandas is missing then, pyarrow does not try the import again until it needs a data
frame.
"""

import sys
from importlib.machinery import ModuleSpec

import pyarrow as pa


class _PandasBlocker:
    """An import finder that reports pandas as missing while it is first in `sys.meta_path`."""

    @staticmethod
    def find_spec(name: str, *_: object) -> ModuleSpec | None:
        if name == "pandas":
            raise ModuleNotFoundError(name, name=name)
        return None


def leave_pandas_out() -> None:
    """Make pyarrow look for pandas while the import is blocked. `to_pandas` still works later.

    Call it in processes that do not create data frames. It does nothing if pandas is already
    imported.
    """
    if "pandas" in sys.modules:
        return
    sys.meta_path.insert(0, _PandasBlocker)
    try:
        pa.scalar(0)
    finally:
        sys.meta_path.remove(_PandasBlocker)

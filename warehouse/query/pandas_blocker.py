"""A process without pandas: a night needs none, and importing it costs as much as a small night.

pyarrow imports pandas at the first array that it makes from Python values, to know one when it
sees one. It looks once: where it finds none it asks again only when a person wants a data frame.
"""

import sys
from importlib.machinery import ModuleSpec

import pyarrow as pa


class _Nowhere:
    """Finds no pandas, for as long as it is asked first."""

    @staticmethod
    def find_spec(name: str, *_: object) -> ModuleSpec | None:
        if name == "pandas":
            raise ModuleNotFoundError(name, name=name)
        return None


def leave_pandas_out() -> None:
    """Let pyarrow look for pandas now, and find none; `to_pandas` still works afterwards.

    For processes of ours that make no data frame; where pandas is imported already, this is
    nothing.
    """
    if "pandas" in sys.modules:
        return
    sys.meta_path.insert(0, _Nowhere)
    try:
        pa.scalar(0)
    finally:
        sys.meta_path.remove(_Nowhere)

"""The command line and the Dagster jobs. Only this package uses Dagster.

Importing it checks that no other project hides `pipelines` or `warehouse`, because Dagster and
`python -m assets...` do not start in `warehouse.start`.
"""

import importlib.util
from pathlib import Path

_OURS = Path(__file__).absolute().parent.parent
_spec = importlib.util.find_spec("warehouse")
_folder = Path((_spec and _spec.origin) or "/").parent
if _folder != _OURS / "warehouse":  # then `warehouse.start` cannot be imported
    raise ImportError(
        f"Another project hides a part of nightbook: Python finds the package warehouse in "
        f"{_folder}, before nightbook's own in {_OURS}. Nothing was read or written. Remove that "
        "folder from PYTHONPATH for nightbook, or start nightbook in another folder."
    )
importlib.import_module("warehouse.start").require_ours()

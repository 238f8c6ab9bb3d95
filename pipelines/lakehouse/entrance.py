"""The entrance to the lakehouse, and the only module of this room that other rooms import.

The names below are imported from their modules on first use. So a home without an object store
loads nothing else from this room. Editors and mypy follow the names to their definitions.
"""

import importlib
from typing import TYPE_CHECKING, Any

from pipelines.lakehouse import CATALOG, NAMESPACE, SHELF

if TYPE_CHECKING:
    from pipelines.lakehouse.addresses import (
        CatalogAddress,
        StoreAddress,
        is_option,
        read_addresses,
    )
    from pipelines.lakehouse.decisions import FollowedNight, OnFollowed
    from pipelines.lakehouse.errors import LakehouseError
    from pipelines.lakehouse.lakehouse import Lakehouse
    from pipelines.lakehouse.proof import Proof, prove
    from pipelines.lakehouse.spark_tasks import FlattenedNight, flattened_on_spark, stage_night
    from pipelines.lakehouse.transfer import Transfer

__all__ = ["CATALOG", "NAMESPACE", "SHELF", "CatalogAddress", "FlattenedNight", "FollowedNight"]
__all__ += ["Lakehouse", "LakehouseError", "OnFollowed", "Proof", "StoreAddress", "Transfer"]
__all__ += ["flattened_on_spark", "is_option", "prove", "read_addresses", "stage_night"]
# The names that are used while the program runs. The others are types in annotations.
_MODULES = {
    "Lakehouse": "lakehouse",
    "LakehouseError": "errors",
    "flattened_on_spark": "spark_tasks",
    "is_option": "addresses",
    "prove": "proof",
    "read_addresses": "addresses",
    "stage_night": "spark_tasks",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(name)
    return getattr(importlib.import_module(f"pipelines.lakehouse.{_MODULES[name]}"), name)

"""Nights outside this machine: object storage, Iceberg tables, and engines such as Spark.

Few homes need this room. Other rooms import only its module `entrance`.
"""

from typing import Final

# The settings of this room.
SHELF: Final = "NIGHTBOOK_LAKE"
CATALOG: Final = "NIGHTBOOK_CATALOG"
NAMESPACE: Final = "NIGHTBOOK_CATALOG_NAMESPACE"

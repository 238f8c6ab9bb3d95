"""Columns and tables of schema ops: all of them are made by nightbook itself."""

from functools import partial

from warehouse.contract.model import Column, Kind, Table


def _ours(kind: Kind, name: str, meaning: str, *, nullable: bool = False) -> Column:
    return Column(name=name, kind=kind, source="nightbook", meaning=meaning, nullable=nullable)


text = partial(_ours, Kind.TEXT)
flag = partial(_ours, Kind.FLAG)
ordinal = partial(_ours, Kind.ORDINAL)
count = partial(_ours, Kind.COUNT)
day = partial(_ours, Kind.DAY)
moment = partial(_ours, Kind.MOMENT)

ops_table = partial(Table, schema="ops")

SNAPSHOT_ID = text("snapshot_id", "The snapshot: its UTC start, like 20261120T021500Z.")

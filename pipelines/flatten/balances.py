"""Balances as rows: one row per amount the API states, known kinds and unknown ones (2.5)."""

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.flatten.columns import Level
from pipelines.records.schema import PORTFOLIO


class AmountField(NamedTuple):
    """One amount field of a balance: the `free` of `trading`."""

    bucket: str
    state: str
    source: str


def _parts() -> tuple[AmountField, ...]:
    shape = PORTFOLIO
    for name in ("positions", "accounts", "balance"):
        inner = shape.fields[name].shape
        if inner is None:
            raise TypeError(f"{shape.name}.{name} has no shape")
        shape = inner
    return tuple(
        AmountField(bucket.name, state.name, state.source)
        for bucket in shape.fields.values()
        if bucket.shape is not None
        for state in bucket.shape.fields.values()
    )


PARTS = _parts()


class Amounts(NamedTuple):
    """Amounts in long form: the account each belongs to, bucket, state and text."""

    accounts: Any
    buckets: pa.Array
    states: pa.Array
    texts: pa.Array


def read_amounts(accounts: Level) -> Amounts:
    """Return all amounts of a batch, by account and then in the order of section 2.5."""
    texts = [accounts.columns[part.source] for part in PARTS]
    # A table of accounts by amount fields: true where an amount stands. Read row by row, the places
    # of its true cells give account and field of every amount at once, in the order of accounts; no
    # Python object is made for an amount.
    valid = np.column_stack([text.is_valid().to_numpy(zero_copy_only=False) for text in texts])
    flat = np.flatnonzero(valid.ravel())
    account, part = np.divmod(flat, len(PARTS))
    documented = Amounts(
        account,
        pa.array([p.bucket for p in PARTS], pa.string()).take(pa.array(part)),
        pa.array([p.state for p in PARTS], pa.string()).take(pa.array(part)),
        # The columns one below the other: field `part` of an account lies `part` columns further
        # on.
        pa.concat_arrays(texts).take(pa.array(part * accounts.rows + account)),
    )
    undocumented = accounts.columns.get("Account.other")
    return documented if undocumented is None else _with(documented, undocumented)


def _with(documented: Amounts, undocumented: pa.ListArray) -> Amounts:
    rows = pc.list_flatten(undocumented)
    return Amounts(
        np.concatenate(
            [
                documented.accounts,
                pc.list_parent_indices(undocumented).to_numpy(zero_copy_only=False),
            ]
        ),
        pa.concat_arrays([documented.buckets, pc.struct_field(rows, "bucket")]),
        pa.concat_arrays([documented.states, pc.struct_field(rows, "state")]),
        pa.concat_arrays([documented.texts, pc.struct_field(rows, "amount")]),
    )


def count_per_account(accounts: Level) -> pa.Array:
    """Return how many amounts each account states; NULL where its balance is broken."""
    listed = accounts.columns.get("Account.balance#")
    if listed is not None:
        return listed
    valid = [
        accounts.columns[part.source].is_valid().to_numpy(zero_copy_only=False) for part in PARTS
    ]
    counts = np.sum(valid, axis=0, dtype=np.int32)
    return pa.array(counts, pa.int32())


def place_of(row: int, amounts: Amounts) -> tuple[int, str]:
    """Return the account of an amount, and the rest of its path."""
    bucket, state = amounts.buckets[row].as_py(), amounts.states[row].as_py()
    return int(amounts.accounts[row]), f".balance.{bucket}.{state}"

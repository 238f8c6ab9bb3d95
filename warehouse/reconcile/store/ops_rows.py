"""What is stored, as rows of the tables of `ops`.

A result has much that is not published: what is stands once more under `.published`.
"""

from collections.abc import Iterator
from datetime import date, datetime
from typing import Any

from warehouse.exact import exact, fit_decimal
from warehouse.reconcile.store.records import SAID, Break, RunResult
from warehouse.reconcile.store.result_cache import CachedFacts, FileState, from_cache
from warehouse.reconcile.store.store import Store
from warehouse.reconcile.terms.dimensions import CUSTOM, DIMENSIONS
from warehouse.reconcile.terms.errors import NotReconciled

_SAME = ("episode", "result", "source", "placement", "cause", "note", "age_days", "change")
Row = dict[str, Any]
Rows = dict[str, list[Row]]


class _PublicFacts(CachedFacts, frozen=True, kw_only=True):
    """What is published of a result."""

    fields: tuple[str, ...]
    run_id: str
    digest: str
    breaks: tuple[Break, ...]
    level: str
    compared: int
    uncovered: int | None
    pending: int
    rejected: int
    made_at: str
    by: str


def rows(store: Store) -> Rows:
    """Return rows of the tables of `warehouse.contract.reconciliation`, by the table's name.

    Raises `NotReconciled` where a stored file cannot be read.
    """
    try:
        return {
            "reconciliations": list(_reconciliations(store)),
            "breaks": list(_breaks(store)),
            "annotations": list(_annotations(store)),
            "signoffs": list(_signatures(store)),
        }
    except NotReconciled:
        raise
    except (OSError, ValueError, KeyError, ArithmeticError) as error:
        raise NotReconciled(
            f"What the reconciliation keeps under {store.root} cannot be read "
            f"({type(error).__name__}: {str(error)[:200]}). ops.breaks and the tables beside it "
            "stay as they were; the book is not touched. Restore that folder from the "
            "backup."
        ) from error


def _public_facts(store: Store, day: date) -> _PublicFacts | None:
    """Return what is published of the newest result of a day."""
    path = store.newest_path(day)
    if path is None:
        return None
    copy = store.root / ".published" / f"{day}.json"
    return from_cache(
        copy, path, _PublicFacts, lambda of: _take_public_facts(store.result_at(path), of)
    )


def _take_public_facts(result: RunResult, of: FileState) -> _PublicFacts:
    return _PublicFacts(
        of=of,
        fields=result.fields,
        run_id=result.run_id,
        digest=result.digest,
        breaks=result.breaks,
        level=result.coverage.level if result.coverage else ", ".join(result.fields),
        compared=result.position_count,
        uncovered=result.uncovered,
        pending=len(result.unsolved_breaks) - result.open_breaks,
        rejected=result.rejected,
        made_at=result.made_at,
        by=result.by,
    )


def _reconciliations(store: Store) -> Iterator[Row]:
    for day in store.days():
        if (result := _public_facts(store, day)) is not None:
            yield {
                "snapshot_date": day,
                "run_id": result.run_id,
                "digest": result.digest,
                "level": result.level,
                "positions_compared": result.compared,
                "positions_not_compared": result.uncovered,
                "breaks": len(result.breaks),
                "open_breaks": sum(break_.is_open for break_ in result.breaks),
                "pending_breaks": result.pending,
                "rejected_rows": result.rejected,
                "run_at": datetime.fromisoformat(result.made_at),
                "run_by": result.by,
            }


def _breaks(store: Store) -> Iterator[Row]:
    for day in store.days():
        if (result := _public_facts(store, day)) is not None:
            for break_ in result.breaks:
                yield _break(day, result.run_id, result.fields, break_)


def _break(day: date, run_id: str, fields: tuple[str, ...], break_: Break) -> Row:
    key = dict(zip(fields, break_.key, strict=True))
    asset = key["asset"]
    row: Row = {known.column: key.get(name) for name, known in DIMENSIONS.items()}
    row |= {name: getattr(break_, name) for name in (*_SAME, *SAID)}
    return row | {
        "snapshot_date": day,
        "break_id": break_.id,
        "run_id": run_id,
        "asset_id": asset.removesuffix(CUSTOM),
        "is_custom_asset": asset.endswith(CUSTOM),
        "ledger_text": break_.ledger,
        "snapshot_text": break_.snapshot,
        "difference": fit_decimal(exact(break_.difference)),
        "difference_text": break_.difference,
        "ledger_rows": break_.rows,
        "first_seen": break_.first_seen,
        "ever_seen": break_.ever_seen,
    }


def _annotations(store: Store) -> Iterator[Row]:
    for annotation in store.annotations:
        for number, entry in enumerate(annotation.entries, 1):
            yield {
                "revision": annotation.no,
                "entry_no": number,
                "break_id": entry.break_id,
                "field": entry.field,
                "value": entry.value,
                "accepted_text": entry.accepted or "",
                "who": annotation.who,
                "said_at": datetime.fromisoformat(annotation.at),
                "source": annotation.source,
                "sha256": annotation.sha256,
            }


def _signatures(store: Store) -> Iterator[Row]:
    for signature in store.signatures:
        newest = _public_facts(store, signature.day)
        yield {
            "snapshot_date": signature.day,
            "signoff_no": signature.no,
            "role": signature.role,
            "who": signature.who,
            "signed_at": datetime.fromisoformat(signature.at),
            "comment": signature.comment,
            "run_id": signature.run_id,
            "digest": signature.digest,
            "open_breaks": signature.open_breaks,
            "entered_by": signature.entered_by,
            "is_valid": newest is not None and newest.digest == signature.digest,
        }

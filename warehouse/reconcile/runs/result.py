"""What a run stores: its result, the breaks that are gone, and what stands behind the figures."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from msgspec import structs

from warehouse.reconcile.breaks.engine import Outcome
from warehouse.reconcile.comments.annotations import State, in_cell
from warehouse.reconcile.ledger.coverage import (
    level_words,
    lines_of,
    totals,
)
from warehouse.reconcile.matching.join import Result
from warehouse.reconcile.settings.config import OWN_WORDS, Config
from warehouse.reconcile.store import day_settings
from warehouse.reconcile.store.records import (
    SETTINGS_DIGEST,
    Coverage,
    ResolvedBreak,
    RunResult,
    ShownTexts,
    pending_breaks,
)
from warehouse.reconcile.store.store import Store
from warehouse.reconcile.workbook.content import WorkbookContent
from warehouse.reconcile.workbook.readback import imprint


@dataclass(frozen=True, slots=True)
class RunInputs:
    """What a run is given besides its data.

    `by` is who runs it; `before_writing` is called before anything is stored.
    """

    program_version: str
    now: datetime
    pause: Callable[[], None]
    by: str = ""
    before_writing: Callable[[], None] = lambda: None


def resolved_breaks(
    prior: RunResult | None, outcome: Outcome, comments: State
) -> tuple[ResolvedBreak, ...]:
    """Return the breaks of the run before that are gone, and how they went."""
    now = {break_.id for break_ in (*outcome.breaks, *outcome.not_compared)}
    now |= set(outcome.renamed.values())
    return tuple(
        ResolvedBreak(
            **structs.asdict(break_)
            | {field: comments.of(id_, field) for field in ("status", "owner", "comment")},
            closed_on=outcome.day,
            closed_because=outcome.closing_reason(break_),
        )
        for id_, break_ in pending_breaks(prior).items()
        if id_ not in now
    )


def evidence_of(content: WorkbookContent, config: Config, program_version: str) -> dict[str, str]:
    """Return what stands behind the figures, in words."""
    source, ledger, outcome = content.source, content.ledger, content.outcome
    return (
        {
            "run": content.run_id,
            "digest of the result": outcome.digest,
            "made by": f"nightbook {program_version}",
            "warehouse made by": f"nightbook {source.build['program_version']}",
            "book": source.snapshot_id,
            "read from": f"{source.snapshot['started_at']:%Y-%m-%d %H:%M:%S} UTC",
            "read until": f"{source.snapshot['finished_at']:%Y-%m-%d %H:%M:%S} UTC",
            "level": level_words(ledger),
            "tolerance": f"absolute {config.absolute}, relative {config.relative}",
            SETTINGS_DIGEST: config.digest,
        }
        | {f"SHA-256 of {OWN_WORDS}": digest for digest in config.words.get(OWN_WORDS, "").split()}
        | {f"tolerance of {asset}": str(limit) for asset, limit in config.per_asset.items()}
        | {f"SHA-256 of {file.name} {file.sheet}".strip(): file.sha256 for file in ledger.sources}
        | {result.words: str(count) for result, count in outcome.counts.items()}
    )


def store_result(
    store: Store, content: WorkbookContent, config: Config, inputs: RunInputs
) -> RunResult:
    """Store the result; what is stored is what `status` and `verify` say."""
    outcome = content.outcome
    return store.add_result(
        RunResult(
            name=config.name,
            day=content.day,
            run_id=content.run_id,
            digest=outcome.digest,
            snapshot_id=content.source.snapshot_id,
            fields=outcome.fields,
            counts={result.value: count for result, count in outcome.counts.items()},
            rejected=len(content.ledger.rejected),
            breaks=outcome.breaks,
            resolved=content.resolved,
            episodes=outcome.episodes,
            ties=content.ties,
            not_compared=outcome.not_compared,
            uncovered=outcome.uncovered,
            workbook=ShownTexts(
                names=_names(content),
                left_out=tuple(result.value for result in content.left_out),
                rolled=tuple(tuple(map(in_cell, line.line)) for line in content.rolled),
            ),
            coverage=Coverage(
                level=level_words(content.ledger),
                files=tuple(lines_of(content.ledger)),
                unused=tuple(content.unused),
                in_all=totals(content.unused),
                forgiven=outcome.forgiven,
            ),
            written=imprint.identity(content),
            day_settings=day_settings.own(store, config, content.day, content.run_id),
            sources=content.ledger.sources,
            notices=tuple(content.notices),
            evidence=content.evidence,
            revision=content.revision,
            made_at=inputs.now.isoformat(),
            by=inputs.by,
        )
    )


def _names(content: WorkbookContent) -> dict[str, dict[str, str]]:
    """Return the names that the workbook shows for ids, of those in it."""
    # Every key is in a tie, but for those of portfolios that the book does not have tonight.
    shown = {(tie.level, tie.of) for tie in content.ties}
    for level in content.names.keys() & set(content.outcome.fields):
        rows = content.source.connection.execute(
            f"select distinct {level} from compared where result = ?",  # noqa: S608 - a name of terms.dimensions
            [Result.NOT_DELIVERED.value],
        ).fetchall()
        shown |= {(level, id_) for (id_,) in rows}
    names: dict[str, dict[str, str]] = {}
    for level, id_ in sorted(shown):
        name = content.names.get(level, {}).get(id_, id_)
        if name != id_:
            names.setdefault(level, {})[id_] = name
    return names

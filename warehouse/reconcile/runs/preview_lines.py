"""A preview of a ledger as lines for a terminal."""

from collections.abc import Iterator, Mapping

from warehouse.contract.wording import count_of
from warehouse.reconcile.ledger.model import FilePart
from warehouse.reconcile.runs.preview import FIRST_ROWS, Preview, TabPreview
from warehouse.reconcile.terms.dimensions import display_asset
from warehouse.reconcile.terms.errors import choices_of

_MOST_ASSETS = 40
_WIDEST = 30


def preview_lines(seen: Preview) -> Iterator[str]:
    """Yield a preview as lines for a terminal."""
    for tab in seen.tabs:
        reasons = {item.name: item.reason for item in seen.unused if item.file == tab.place}
        yield from _column_lines(tab, reasons)
        yield from _row_lines(tab)
    for item in seen.unused:
        if item.kind is not FilePart.COLUMN:
            yield f"Not used: {item.where}: {item.reason}"
    yield from (f"Rejected: {line}" for line in seen.rejected[:FIRST_ROWS])
    if len(seen.rejected) > FIRST_ROWS:
        yield f"Rejected: {count_of(len(seen.rejected) - FIRST_ROWS, 'more row')}"
    yield from (f"Note: {line}" for line in seen.notices)
    if seen.question:
        yield f"Question: {seen.question}"
        if choices_of(seen.answer):
            yield "One of these lines in recon.toml answers it; remove its #:"
        else:
            yield "These lines in recon.toml answer it; change them where they are wrong:"
        yield from (f"    {line}" for line in seen.answer.splitlines())


def _column_lines(tab: TabPreview, reasons: Mapping[str, str]) -> Iterator[str]:
    profile = f", as {tab.profile} writes it" if tab.profile else ""
    yield f"{tab.place}: the header is {tab.header}{profile}"
    width = min(max((len(column.title) for column in tab.columns), default=0), _WIDEST)
    for column in tab.columns:
        reason = reasons.get(repr(column.title), column.reason)
        use = f"{column.use or 'not used'}{f' ({reason})' if reason else ''}"
        values = " | ".join(column.values)
        yield f"  {column.letter:>2}  {column.title:<{width}}  {use}   {values}".rstrip()


def _row_lines(tab: TabPreview) -> Iterator[str]:
    source = tab.source
    if source is None:
        return
    skipped = ", ".join(f"{number} {reason}" for reason, number in source.skipped.items())
    yield (
        f"  compared at {', '.join(source.fields)}; {count_of(source.rows, 'amount')}: "
        f"{source.used} used, {source.rejected} rejected, skipped: {skipped or 'none'}"
    )
    yield f"  first rows as read ({', '.join((*source.fields, 'amount'))}):"
    yield from (f"    {'  '.join(row)}" for row in tab.rows)
    yield "  totals:"
    wide, long = (
        max((len(text.partition(".")[part]) for _, text, _ in tab.totals), default=0)
        for part in (0, 2)
    )
    for asset, text, rows in tab.totals[:_MOST_ASSETS]:
        whole, point, part = text.partition(".")
        amount = f"{whole:>{wide}}{point or ' '}{part:<{long}}"
        yield f"    {display_asset(asset):<10} {amount}  in {count_of(rows, 'row')}"
    if len(tab.totals) > _MOST_ASSETS:
        yield f"    and {count_of(len(tab.totals) - _MOST_ASSETS, 'more asset')}"

"""The ledger template: today's keys with an empty amount beside each, so that names match.

Every name is written so that reading it back finds its key: one that two portfolios share, or that
means something else, gives way to the id.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from warehouse.query.book import OpenBook
from warehouse.reconcile.matching import snapshot
from warehouse.reconcile.matching.names import Names, in_name_cell
from warehouse.reconcile.matching.snapshot import Reference
from warehouse.reconcile.terms.dimensions import DIMENSIONS, LEDGER_FIELDS, display_asset
from warehouse.reconcile.workbook.sheet import Heading, SheetWriter
from warehouse.spreadsheet.writing.format import draft
from warehouse.spreadsheet.writing.layout import SheetColumnKind
from warehouse.storage.layout import written_aside

_AMOUNT = Heading("Amount", 26, "amount")
_PLACE = len(LEDGER_FIELDS)
_HELP = """
Write what your ledger holds beside each key, as a number or as a text; add rows for what the book \
does not have; columns of your own may stand beside these.
A number cell keeps 15 digits. An amount with more of them matches as "Ledger precision", which is \
no break; written as text (with an apostrophe before it) all its digits are compared.
A blank amount is not a zero: its row is rejected, unless recon.toml says blank = "skip". Write 0 \
for nothing, or delete the row: a key that is nowhere in the ledger and 0 in the book is matched.
Save it under any name into the folder inbox beside recon.toml, as xlsx, ods or CSV; a date in the \
name, like ledger-2026-11-20.xlsx, says which day it is for. Then: nightbook reconcile run
""".strip().splitlines()


def write(source: OpenBook, path: Path) -> int:
    """Write the template; returns how many keys it has."""
    keys = list(snapshot.amounts_of(source.connection, source.day, LEDGER_FIELDS))
    rows = sorted(_template_rows(keys, snapshot.read_reference(source, 0)))
    file_draft = draft(title="Ledger", made_at=source.snapshot["finished_at"], about={})
    headings = [
        Heading(name.capitalize(), DIMENSIONS[name].template_width) for name in LEDGER_FIELDS
    ]
    on = SheetWriter(file_draft, "Ledger", [*headings, _AMOUNT])
    on.sheet.set_column(
        _PLACE, _PLACE, _AMOUNT.width, file_draft.formats.cells[SheetColumnKind.NUMBER]
    )
    on.table([[*row, None] for row in rows], "Ledger template")
    help_ = SheetWriter(file_draft, "Help", (Heading("How to fill in the ledger", 110),))
    help_.table([[text] for text in _HELP], "Ledger template", frozen=0)
    file_draft.book.close()
    with written_aside(path) as file:
        file.write(file_draft.file.getvalue())
    return len(rows)


def _template_rows(
    keys: Sequence[tuple[str, ...]], reference: Reference
) -> Iterator[tuple[str, ...]]:
    """Yield the keys as they are written: the name that people use, where it is found again."""
    words: list[dict[str, str]] = []
    for place, field in enumerate(LEDGER_FIELDS):
        names = Names(field, reference.names.get(field, {}), {})
        ids = {key[place] for key in keys}
        names_of = reference.display_names.get(field, {})
        words.append({id_: _word(field, id_, names_of.get(id_, id_), names) for id_ in ids})
    for key in keys:
        yield tuple(names[id_] for names, id_ in zip(words, key, strict=True))


def _word(field: str, id_: str, name: str, names: Names) -> str:
    if field == "account":
        return in_name_cell(id_)
    # The name that people use if it leads back to this id alone, else the id itself.
    for word in (display_asset(name) if field == "asset" else name, id_):
        written = in_name_cell(word)
        if written.strip() and names.resolve(written).id == id_:
            return written
    return id_

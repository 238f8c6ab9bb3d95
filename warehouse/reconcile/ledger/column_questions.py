"""Questions about columns that are not understood, each with the lines that settle it.

What is proposed is what the values of a column look like; a person who pastes it as it is says so.
"""

from collections.abc import Collection, Sequence

from warehouse.reconcile.ledger.header.context import ReadingContext
from warehouse.reconcile.ledger.header.header_row import Header
from warehouse.reconcile.ledger.unread import UnknownColumn, is_sign
from warehouse.reconcile.settings.shape import UNUSED
from warehouse.reconcile.settings.toml_table import heading, quote, setting
from warehouse.reconcile.terms.errors import Ambiguous
from warehouse.reconcile.terms.file_names import name_pattern
from warehouse.spreadsheet.reading.text import fold

_MOST = 0.5  # of the values of a column that must be names of a dimension
_OTHER_SIDE = {"s": "H", "d": "C", "dr": "CR", "soll": "Haben", "debit": "Credit", "+": "-"}
_NAMED = ("venue", "portfolio")  # what the name of a file or of a tab may say


def ask_for_scope(
    context: ReadingContext, head: Header, file: str, sheet: str, *, lacking: Collection[str]
) -> None:
    """Raise `Ambiguous` where a dimension that no column says is said by the export or a name."""
    where = f"{file} {sheet}".strip()
    for dimension, names in head.profile.covers.items() if head.profile else ():
        if dimension in lacking:
            raise Ambiguous(
                f"{where} is an export of {' and '.join(names)} by its columns, and the book knows "
                f"no {dimension} of that name.",
                f'{heading("file", name_pattern(file))}\n{dimension} = "*"'
                f"   # or the {dimension} that the book has for it",
            )
    for dimension in _NAMED:
        name = context.known.in_text(dimension, f"{file.rpartition('.')[0]} {sheet}")
        if name and dimension in lacking:
            raise Ambiguous(
                f"{where}: no column says the {dimension}, and the name says {name!r}: it may "
                f"cover that {dimension} alone.",
                f"{heading('file', name_pattern(file))}\n{setting(dimension, name)}"
                f'   # or "*", where it covers every {dimension}',
            )


def question_of_columns(
    asked: Sequence[UnknownColumn],
    head: Header,
    lacking: Sequence[str],
    context: ReadingContext,
    *,
    file: str,
    where: str,
) -> Ambiguous:
    """Return the question what some columns are."""
    sign = next((column for column in asked if is_sign(column, head.words)), None)
    if sign is not None:
        return _question_of_sign(sign, head, where)
    samples = "; ".join(f"{column.title!r} ({column.examples})" for column in asked)
    words = f"{where}: it is not known what these columns are: {samples[:1500]}."
    dimension = context.known.shared_dimension([column.title for column in asked])
    if dimension in lacking:
        return Ambiguous(
            f"{words} Their titles are names of a {dimension}, which no column says: each of them "
            f"seems to be the amounts of one {dimension}.",
            f"{heading('file', name_pattern(file))}\n{setting('columns_are', dimension)}",
        )
    if lacking:
        words += f" The ledger has no column for {', '.join(lacking)}: without it the comparison "
        words += "is coarser, and what was moved between them is not seen."
    meant = " or ".join(f'{field} = "..."' for field in (*lacking, "amount"))
    amount = head.title_of(head.columns["amount"])
    fields = _fields_of(asked, lacking, context)
    left = [column.title for column in asked if column.title not in fields.values()]
    lines = [head.table, *(setting(field, title) for field, title in fields.items())]
    lines += [f"{UNUSED} = [{', '.join(map(quote, left))}]"] if left else []
    return Ambiguous(
        f"{words} The amount is read from {amount!r}. Say which column is what, by {meant}, or "
        "that they are not needed.",
        "\n".join(lines),
    )


def _question_of_sign(column: UnknownColumn, head: Header, where: str) -> Ambiguous:
    # In an account of what is held, credit is what was taken off it; in a statement of a custodian
    # credit is what it owes, so that nobody but a person can say.
    written = list(dict.fromkeys(column.values))
    credit = [value for value in written if head.words.is_credit(value)]
    others = [value for value in written if not head.words.is_credit(value)]
    proposal = credit[0] if credit else _OTHER_SIDE.get(fold(others[0]), "C")
    alternative = f'"{others[0]}"; ' if others else ""
    return Ambiguous(
        f"{where}: the column {column.title!r} says debit or credit ({', '.join(written[:4])}), "
        "and it is not known which of them makes an amount negative.",
        f"{head.table}\n{setting('sign', column.title)}\n"
        f'{setting("negative_word", proposal)}   # or {alternative}sign = "" where it says nothing',
    )


def _fields_of(
    asked: Sequence[UnknownColumn], lacking: Sequence[str], context: ReadingContext
) -> dict[str, str]:
    """Return the columns whose values are names of a dimension that is lacking."""
    fields: dict[str, str] = {}
    for column in asked:
        for field in lacking:
            names = sum(context.known.has(field, fold(value)) for value in column.values)
            if field not in fields and names > _MOST * len(column.values):
                fields[field] = column.title
                break
    return fields

"""Questions about columns that a person must explain, each with the recon.toml lines to add.

The proposed lines are derived from a column's values. A person confirms a line by pasting it into
recon.toml.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from decimal import Decimal

from warehouse.exact import exact, plain
from warehouse.reconcile.book import KnownNames
from warehouse.reconcile.ledger.amount_reader import factor_of, is_negative
from warehouse.reconcile.ledger.columns import (
    NAMED_DIMENSIONS,
    LedgerBody,
    UnknownColumn,
    is_factor,
    signs_by_word,
    states_other_day,
)
from warehouse.reconcile.ledger.header import Header
from warehouse.reconcile.ledger.notes import note_text
from warehouse.reconcile.ledger.words import Words
from warehouse.reconcile.settings.layout import UNUSED
from warehouse.reconcile.settings.toml import quote, quote_list, setting
from warehouse.reconcile.terms import CHOICE, FIELDS, Ambiguous, choices
from warehouse.spreadsheet.reading.text import fold

_MIN_SHARE = 0.5  # a column contains names if more than this fraction of its values are known names
_SIDES = (("S", "H"), ("D", "C"), ("DR", "CR"), ("Soll", "Haben"), ("Debit", "Credit"), ("+", "-"))
_OTHER_SIDE = {fold(side): other for pair in _SIDES for side, other in (pair, pair[::-1])}

# Pairs of values that are signs if both occur in a column, and the value that means negative.
_PAIRS = {
    frozenset((positive, negative)): negative
    for positive, negative in ("ls", "bs", "kv", "av", "ap", "pn", ("1", "-1"))
}

_DAYS = 1.5  # a ledger covers several days if its keys have at least this many dates on average
_MAX_WORDS = 40  # maximum number of words from a column to list in a setting or question

# Words in capitals that are shorter than this may be a person's initials instead of a unit.
_MIN_UNIT_LENGTH = 3

_INTEGER = re.compile("-?[0-9]{1,80}")

# If an asset has at least this many decimals, an integer with many digits is assumed to be in the
# asset's smallest unit.
_MANY_DECIMALS = 12

# Fields whose names may be part of file names and tab names.
_DIMENSIONS_IN_NAMES = ("venue", "portfolio")

# Maps a column title to the words that mark rows to keep, and the words that mark rows to skip.
_RowWords = dict[str, tuple[Sequence[str], Sequence[str]]]


def ask_for_scope(head: Header, missing: Collection[str]) -> None:
    """Raise `Ambiguous` if only a file's name or format suggests which part of a book it covers."""
    for dimension, names in head.profile.covers.items() if head.profile else ():
        if dimension in missing:
            raise Ambiguous(
                f"{head.location}: its columns match an export from {' and '.join(names)}, but the "
                f"book does not have a {dimension} with that name. Write the name that the book "
                "uses.",
                choices(
                    head.file_table,
                    f'{dimension} = "..."',
                    f'{dimension} = "*"   # if it covers every {dimension}',
                ),
            )
    for dimension in _DIMENSIONS_IN_NAMES:
        above = " ".join(map(note_text, head.grid.rows[: head.row]))
        place = f"{head.file.rpartition('.')[0]} {head.grid.sheet}"
        known = head.context.known
        name = known.in_text(dimension, place) or known.in_text(dimension, above)
        if name and dimension in missing:
            raise Ambiguous(
                f"{head.location}: no column contains the {dimension}, but the file name, the tab "
                f"name or a line above the header contains {name!r}. "
                f"The ledger may cover only that {dimension}.",
                f"{head.file_table}\n{setting(dimension, name)}"
                f'   # or "*", if it covers every {dimension}',
            )


def ask_for_asset(body: LedgerBody) -> None:
    """Raise `Ambiguous` if the asset column seems to contain price currencies."""
    head, words = body.head, body.head.words
    index = head.columns.get("asset")
    if index is None or "asset" in head.shape.columns:
        return
    currencies = body.values(index)
    if not currencies or not all(words.is_cell(value, "currency") for value in currencies):
        return
    unused = {*map(fold, head.shape.unused)}
    shares = {
        other: _share_of_assets(body, other)
        for other, title in enumerate(head.titles)
        if other not in head.used_columns
        and fold(title) not in unused
        and _is_finer(body, other, index)
    }
    names = [
        other
        for other, share in shares.items()
        if share > _MIN_SHARE or words.is_description(head.titles[other])
    ]
    if not names:
        return
    best = max(names, key=lambda other: shares[other])
    asset, currency = head.title_of(best), head.title_of(index)
    titles = [title for title in head.shape.unused if fold(title) != fold(asset)]
    message = (
        f"{head.place}: the {currency!r} column contains only currencies "
        f"({', '.join(currencies[:4])}), and rows with the same currency have different values in "
        f"the {asset!r} column. So {currency!r} may be the currency of a price, and {asset!r} may "
        "be the asset."
    )
    line = setting("asset", asset)
    if shares[best] > _MIN_SHARE or any(words.is_title(title, "figure") for title in head.titles):
        unused_line = f"{UNUSED} = {quote_list(dict.fromkeys([*titles, currency]))}"
        raise Ambiguous(message, f"{head.table}\n{line}\n{unused_line}")
    raise Ambiguous(message, choices(head.table, line, setting("asset", currency)))


def ask_for_parts(body: LedgerBody, asked: Sequence[UnknownColumn]) -> None:
    """Raise `Ambiguous` if a column says which part of a balance the amounts are, in other words.

    Without an answer, the amounts would be compared with whole balances, or with no balance at all.
    """
    head, known = body.head, body.known_names
    index = head.columns.get("bucket")
    if index is not None and "bucket" not in head.shape.columns:
        words, line = body.values(index), setting("bucket", "")
        if not known.folded or not words or any(known.has("bucket", word) for word in words):
            return
    else:
        parts = (column for column in asked if _names_a_part(column, body))
        column = None if "bucket" in head.covers else next(parts, None)
        if column is None:
            return
        index, words = column.index, [*column.counts]
        line = f"{UNUSED} = {quote_list([*head.shape.unused, head.title_of(index)])}"
    title = head.title_of(index)
    message = f"{head.place}: the {title!r} column contains {_quote_words(words)}"
    totals = [word for word in words if head.words.role_of(word) == "total"]
    if len(words) == 1 and not totals:
        part = head.words.part_of(words[0])
        kinds = [name for name in known.names("bucket") if name.endswith(part)]
        kinds = [words[0]] if known.has("bucket", words[0]) else kinds
        lines = [f"{setting('bucket', kind)}   # compare only this part" for kind in kinds]
        raise Ambiguous(
            f"{message} in all rows. So the amounts may be only one part of each balance.",
            f"{head.table}\n{line}\n"
            + choices(head.file_table, *lines, 'bucket = "*"   # the amounts are whole balances'),
        )
    others = [word for word in words if word not in totals]
    rows = _row_lines({title: (totals, others)}, head) if totals and others else ()
    raise Ambiguous(
        f"{message}, and none of these is a kind of balance in the book. The rows can only be "
        "compared as whole balances.",
        "\n".join([head.table, line, *rows]),
    )


def question_of_columns(
    asked: Sequence[UnknownColumn], body: LedgerBody, missing: Sequence[str]
) -> Ambiguous:
    """Return one question about all the columns that a person must explain."""
    head = body.head
    dimension = body.known_names.shared_dimension([column.title for column in asked])
    if dimension in missing:
        samples = "; ".join(f"{column.title!r} ({column.examples})" for column in asked)
        # Search the titles of all columns, because a column that is already in use may also have a
        # name as its title.
        titles = [title for title in head.titles if body.known_names.has(dimension, title)]
        return Ambiguous(
            f"{head.place}: cannot tell what these columns contain: {samples[:1500]}. Their titles "
            f"are {dimension} names, and no column contains the {dimension}. Each of these columns "
            f"seems to contain the amounts for one {dimension}.",
            f"{head.file_table}\n{setting('columns_are', dimension)}\n"
            f"label_columns = {quote_list(titles)}",
        )
    lines, meanings = _settlement_of(asked, body, missing)
    message = f"{head.place}: cannot tell how these columns affect the amounts: "
    message += f"{'; '.join(meanings)[:2000]}."
    if missing:
        message += f" The ledger has no column for {', '.join(missing)}, so the comparison"
        message += " is less detailed and does not find amounts that are booked in the wrong place."
    fields = " or ".join(filter(None, (", ".join(missing), "amount")))
    return Ambiguous(
        f"{message} The amount is read from {head.title_of(head.columns['amount'])!r}. "
        f"For each column, use the setting that fits: {fields} (the "
        "column contains it), sign (it shows which amounts are negative), unit_column (it contains "
        "units), keep_rows and skip_rows (it shows which rows count), or "
        f"{UNUSED} (it does not affect the amounts).",
        "\n".join([head.table, *lines]),
    )


def ask_for_words(body: LedgerBody) -> str:
    """Return the only word in the sign column that recon.toml does not explain, or an empty string.

    Raises `Ambiguous` if there are several such words in the sign column, or if recon.toml does not
    explain a unit or a word that states which rows count.
    """
    head = body.head
    positive = "" if head.sign is None else _ask_for_signs(body, head.sign)
    if head.unit is not None:
        _ask_for_units(body, head.unit)
    new: _RowWords = {}
    for title, index in head.rows.items():
        named = [*head.shape.keep_rows.get(title, ()), *head.shape.skip_rows.get(title, ())]
        named = [*map(fold, named)]
        words = [word for word in body.counts(index)[0] if fold(word) not in named]
        if words:
            voids = [word for word in words if head.words.is_void(word)]
            new[title] = [word for word in words if word not in voids], voids
    if not new:
        return positive
    shown = "; ".join(
        f"{_quote_words([*kept, *voids])} in {t!r}" for t, (kept, voids) in new.items()
    )
    message = f"{head.place}: recon.toml does not say whether rows with these words count: {shown}."
    void: _RowWords = {title: ((), voids) for title, (_, voids) in new.items() if voids}
    if void:  # Ask about the words that mean void first, and about the other words later.
        raise Ambiguous(message, "\n".join([head.table, *_row_lines(void, head)]))
    keep, *_ = _row_lines(new, head)
    *_, skip = _row_lines({title: ((), words) for title, (words, _) in new.items()}, head)
    raise Ambiguous(message, choices(head.table, keep, skip))


def _names_a_part(column: UnknownColumn, body: LedgerBody) -> bool:
    """Return whether a column has one value in all rows, which is a part of a balance."""
    word = next(iter(column.counts), "")
    is_part = body.head.words.part_of(word) or body.known_names.has("bucket", word)
    return column.different == 1 and bool(is_part)


def _is_finer(body: LedgerBody, column: int, asset: int) -> bool:
    """Return whether any asset has several distinct values in a column."""
    pairs = [(name, value) for value, name in body.pairs(column, asset) if value]
    texts = {value for _, value in pairs}
    is_text = any(any(map(str.isalpha, value)) for value in texts)
    return is_text and len(pairs) > len({name for name, _ in pairs}) and len(texts) > 1


def _share_of_assets(body: LedgerBody, column: int) -> float:
    """Return the fraction of a column's distinct values that are assets in the book."""
    values = body.values(column)
    return sum(body.known_names.has("asset", value) for value in values) / max(len(values), 1)


def _settlement_of(
    asked: Sequence[UnknownColumn], body: LedgerBody, missing: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Return the recon.toml lines that answer a question, and each column's probable meaning."""
    head, shape = body.head, body.head.shape
    fields = _fields_of(asked, body, missing)
    lines = [setting(name, column.title) for name, column in fields.items()]
    meanings: list[str] = []
    named_titles = {column.title for column in fields.values()}
    displaced = [head.title_of(head.columns[name]) for name in fields if name in head.columns]
    unused = [title for title in displaced if title not in named_titles]
    rows: _RowWords = {}
    has_sign, has_unit = shape.sign is not None, bool(shape.unit_column)
    for column in asked:
        name = next((name for name, other in fields.items() if other is column), "")
        named = [name] if name in NAMED_DIMENSIONS else _dimensions_of(column, body.known_names)
        voids = [] if name else _voids_of(column, head)
        signs = [] if has_sign or name else _lines_of_signs(column, body)
        units = [] if has_unit or name or signs else _unit_lines(column, body)
        has_sign, has_unit = has_sign or bool(signs), has_unit or bool(units)
        lines += [*signs, *units]
        if voids:
            rows[column.title] = [w for w in _words_of(column) if w not in voids], voids
        elif not name and not signs and not units:
            unused.append(column.title)
        elif any(found and found[0].startswith(CHOICE) for found in (signs, units)):
            lines.append(f"{CHOICE}{UNUSED} = {quote_list([*shape.unused, column.title])}")
        meaning = {
            f"contains names of the book's {'s and '.join(named)}s": named,
            "seems to show which amounts are negative": signs,
            "seems to contain each amount's unit": units,
            "seems to show which rows count": voids,
        }
        shown = " and ".join(text for text, is_meant in meaning.items() if is_meant)
        meanings.append(f"{column.title!r} ({column.examples}) {shown}".strip())
    lines += _row_lines(rows, head)
    if unused:
        known = head.profile.shape.unused if head.profile else ()
        before = [title for title in shape.unused if title not in known]
        titles = quote_list(dict.fromkeys((*before, *unused)))
        lines.append(f"{UNUSED} = {titles}   # if they do not affect the amounts")
    return lines, meanings


def _fields_of(
    asked: Sequence[UnknownColumn], body: LedgerBody, missing: Sequence[str]
) -> dict[str, UnknownColumn]:
    """Find the columns whose values are names in a dimension, and return them by field.

    A field that already has a column is included only if that column does not contain such names.
    """
    head, fields = body.head, dict[str, UnknownColumn]()
    others = [
        name
        for name in FIELDS
        if name in head.columns and not _is_named(body, name, body.counts(head.columns[name])[0])
    ]
    # Of two columns with names of one field, the one with more different names has more detail.
    for column in sorted(asked, key=lambda column: -column.different):
        for name in (*missing, *others):
            if name not in fields and _is_named(body, name, column.values):
                fields[name] = column
                break
        is_dated = "as_of" in {*head.columns, *head.shape.columns, *fields}
        if column.kind == "date" and not is_dated:
            has_days = (
                states_other_day(column, head) or body.dates_for_each_key(column.index) >= _DAYS
            )
            fields |= {"as_of": column} if has_days else {}
    return fields | _displaced_fields(fields, body, missing)


def _displaced_fields(
    fields: Mapping[str, UnknownColumn], body: LedgerBody, missing: Sequence[str]
) -> dict[str, UnknownColumn]:
    """Return the missing fields whose names are in columns that give their fields to others."""
    head, found = body.head, dict[str, UnknownColumn]()
    for index in [head.columns[name] for name in fields if name in head.columns]:
        counts, *_ = body.counts(index)
        free = (name for name in missing if name not in {*fields, *found})
        if name := next((name for name in free if _is_named(body, name, counts)), ""):
            found[name] = UnknownColumn(index, head.title_of(index), "text", (*counts,))
    return found


def _is_named(body: LedgerBody, field: str, values: Collection[str]) -> bool:
    """Return whether more than half of the values are names of a field."""
    names = sum(body.known_names.has(field, fold(value)) for value in values)
    return names > _MIN_SHARE * len(values)


def _dimensions_of(column: UnknownColumn, known: KnownNames) -> list[str]:
    """Return the dimensions whose names occur in a column."""
    return [
        name for name in NAMED_DIMENSIONS if any(known.has(name, value) for value in column.values)
    ]


def _words_of(column: UnknownColumn) -> list[str]:
    """Return a column's distinct values, or an empty list if there are too many for a setting."""
    words = list(column.counts or dict.fromkeys(column.values))
    return words if column.kind != "date" and len(words) <= _MAX_WORDS else []


def _voids_of(column: UnknownColumn, head: Header) -> list[str]:
    """Return the values in a column that mark rows to skip."""
    words = _words_of(column)
    if not head.words.is_void(head.titles[column.index]):
        voids = [word for word in words if _is_left_out(word, head.words)]
        return voids if len(voids) < len(words) else [w for w in voids if head.words.is_void(w)]
    # If the title is a question like `Void?`, a mark in the cell means yes.
    marks = [word for word in words if head.words.is_cell(word, "mark")]
    is_known = all(head.words.is_unmarked(word) for word in words if word not in marks)
    return marks if is_known else []


def _is_left_out(word: str, words: Words) -> bool:
    """Return whether a word marks a row that is void, or that is a total of other rows."""
    return words.is_void(word) or words.total_name(word) == ""


def _word_setting(name: str, words: Sequence[str]) -> str:
    return setting(name, words[0]) if len(words) == 1 else f"{name} = {quote_list(words)}"


def _lines_of_signs(column: UnknownColumn, body: LedgerBody) -> list[str]:
    """Return the settings for a sign column, or an empty list if the amounts have the signs.

    If only some amounts are negative already, a person must choose.
    """
    lines = _sign_lines(column, body.head.words)
    written = signs_by_word(body, column.index) if lines else {}
    is_mixed = any(len(signs) > 1 for signs in written.values())
    if not is_mixed and not any(-1 in signs for signs in written.values()):
        return lines  # No amount is negative, so the column has the signs.
    negative = {fold(word) for word, signs in written.items() if -1 in signs}
    stated = {fold(word) for word in written if body.head.words.side_of(word) == "negative"}
    if not is_mixed and (negative == stated or not stated):
        return []
    return [line if line.startswith(CHOICE) else f"{CHOICE}{line}" for line in lines]


def _sign_lines(column: UnknownColumn, words: Words) -> list[str]:
    """Return the settings for a column that states which amounts are negative, or an empty list."""
    # In a holdings account, a credit reduces the holdings. In a custodian's statement, a credit is
    # an amount that the custodian owes to its client. So a person must decide whether debits or
    # credits are negative.
    written = _words_of(column)
    stated = [word for word in written if word]
    by_fold = {fold(word): word for word in stated}
    credit = [word for word in stated if words.is_cell(word, "credit")]
    others = [word for word in stated if word not in credit]
    if stated and all(words.is_cell(word, "debit") for word in others):
        sides = (
            credit or [_OTHER_SIDE.get(fold(others[0]), "C")],
            others or [_OTHER_SIDE.get(fold(credit[0]), "D")],
        )
        lines = [f"{CHOICE}{_word_setting('negative_word', side)}" for side in sides]
        blank = [_word_setting("positive_word", [""])] if "" in written else []
        return [setting("sign", column.title), *lines, *blank]
    negative = [word for word in stated if words.side_of(word) == "negative"]
    if pair := _PAIRS.get(frozenset(by_fold)):
        negative = [by_fold[pair]]
    # If the other cells have dates or words, a dash means that the cell is blank.
    others = [word for word in stated if word != "-"]
    is_blank = negative == ["-"] and not all(words.side_of(w) == "positive" for w in others)
    if is_blank or (set(by_fold) - {""} == {"-"} and "" not in written):
        negative = []
    if not negative:
        return []
    positive = [word for word in written if word not in negative]
    if all(words.side_of(word) == "positive" for word in positive):
        positive = []
    comment = f'   # or "{positive[0]}"' if positive and positive[0] else ""
    lines = [setting("sign", column.title), f"{_word_setting('negative_word', negative)}{comment}"]
    return lines + ([_word_setting("positive_word", positive)] if positive else [])


def _unit_lines(column: UnknownColumn, body: LedgerBody) -> list[str]:
    """Return the settings for a column that states each amount's unit, or an empty list."""
    words, title = body.head.words, body.head.titles[column.index]
    if words.is_title(title, "decimals"):
        return _lines_of_decimals(column, body)
    factors = {word: words.factor_of(word) for word in _words_of(column)}
    is_number = column.kind == "number" and not words.is_title(title, "figure")
    if is_number and "1" in factors and all(map(_is_power, factors)):
        factors = {word: plain(exact(word.replace(",", ""))) for word in factors}
    if not set(factors.values()) - {"", "1"}:
        return []
    assets = _assets_of(body, column.index)
    listed = {
        word: factor
        for word, factor in factors.items()
        if factor or {fold(asset) for asset in assets.get(word, ())} != {fold(word)}
    }
    is_short = all(len(word) < _MIN_UNIT_LENGTH and word.isupper() for word in listed)
    if is_short and not all(listed.values()):
        return []  # The column seems to contain people's initials.
    return [setting("unit_column", column.title), _unit_words(listed)]


def _lines_of_decimals(column: UnknownColumn, body: LedgerBody) -> list[str]:
    """Return the settings for a column that contains the number of decimals of each asset.

    The list is empty if any amount has a fraction, because amounts in smallest units are whole.
    """
    pairs = body.pairs(column.index, body.head.columns["amount"])
    if not pairs or not all(_INTEGER.fullmatch(text) for pair in pairs for text in pair if text):
        return []
    amounts = [(int(decimals or 0), len(amount.strip("-"))) for decimals, amount in pairs]
    # Nobody has that many coins, so amounts this long must be in the asset's smallest unit.
    is_native = any(n >= _MANY_DECIMALS and digits > n - 6 for n, digits in amounts)
    lines = [setting("unit_column", column.title), _unit_words(_factors_of_decimals(column.counts))]
    return lines if is_native else [f"{CHOICE}{lines[0]}"]


def _factors_of_decimals(texts: Collection[str]) -> dict[str, str]:
    whole = (text for text in texts if _INTEGER.fullmatch(text))
    return {text: plain(Decimal(1).scaleb(-int(text))) for text in whole}


def _unit_words(factors: Mapping[str, str]) -> str:
    """Return the setting for units. Unknown factors are empty, and a person must enter them."""
    pairs = ", ".join(f"{quote(word)} = {quote(factor or '1')}" for word, factor in factors.items())
    line = f"unit_words = {{ {pairs} }}"
    unknown = [word for word, factor in factors.items() if not factor]
    if not unknown:
        return line
    return f'{CHOICE}{line}   # "1" is a guess for {_quote_words(unknown)}. Enter the right factor'


def _is_power(text: str) -> bool:
    """Return whether a figure is a positive power of ten."""
    return is_factor(text) and text.strip("0.,") == "1"


def _assets_of(body: LedgerBody, column: int) -> dict[str, set[str]]:
    """Map each value in a column to the assets in the same rows, if there is an asset column."""
    assets: dict[str, set[str]] = {}
    index = body.head.columns.get("asset")
    for word, asset in body.pairs(column, index) if index is not None else ():
        assets.setdefault(word, set()).add(asset)
    return assets


def _row_lines(rows: _RowWords, head: Header) -> Iterator[str]:
    """Yield the settings for rows to keep or skip, including the words already in recon.toml."""
    settled = {"keep_rows": head.shape.keep_rows, "skip_rows": head.shape.skip_rows}
    for number, (name, before) in enumerate(settled.items()):
        words = {title: list(known) for title, known in before.items()}
        for title, found in rows.items():
            words[title] = [*dict.fromkeys((*words.get(title, ()), *found[number]))]
        tables = ", ".join(
            f"{quote(t)} = {quote_list(found)}" for t, found in words.items() if found
        )
        if rows and tables:
            yield f"{name} = {{ {tables} }}"


def _quote_words(words: Sequence[str]) -> str:
    return ", ".join(repr(word[:40]) for word in words[:_MAX_WORDS])


def _ask_for_signs(body: LedgerBody, column: int) -> str:
    """Return the sign column's only unexplained word. Raise `Ambiguous` if there are several."""
    head, shape = body.head, body.head.shape
    title = head.title_of(column)
    words = body.values(column)
    unknown = [word for word in words if is_negative(word, head) is None]
    has_positive = any(is_negative(word, head) is False for word in words)
    is_alone = len(unknown) == 1 and not has_positive and not shape.positive_words
    if not unknown or (is_alone and shape.negative_words):
        return "".join(unknown)
    lines = [setting("sign", title)]
    if negative := shape.negative_words:
        positive = [*dict.fromkeys((*shape.positive_words, *unknown))]
        lines += [
            _word_setting("negative_word", negative),
            f"{CHOICE}{_word_setting('positive_word', positive)}",
            f"{CHOICE}{_word_setting('negative_word', [*negative, *unknown])}",
        ]
    else:
        guesses = [f"{CHOICE}{setting('negative_word', word)}" for word in words]
        sign = UnknownColumn(column, title, "text", tuple(words))
        lines = _sign_lines(sign, head.words) or [*lines, *guesses]
    raise Ambiguous(
        f"{head.place}: recon.toml does not say whether these words in the {title!r} column make "
        f"an amount negative: {_quote_words(unknown)}.",
        "\n".join([head.table, *lines]),
    )


def _ask_for_units(body: LedgerBody, column: int) -> None:
    """Raise `Ambiguous` if recon.toml does not state a unit's factor."""
    head = body.head
    assets = _assets_of(body, column)
    unknown = [
        word
        for word in body.counts(column)[0]
        if any(factor_of(word, head, asset) is None for asset in assets.get(word, {""}))
    ]
    if not unknown:
        return
    factors = {word: plain(factor) for word, factor in head.shape.unit_words.items()}
    listed = unknown[:_MAX_WORDS]
    if head.words.is_title(head.titles[column], "decimals"):
        factors |= _factors_of_decimals(listed)
    else:
        factors |= {word: head.words.factor_of(word) for word in listed}
    title = head.title_of(column)
    raise Ambiguous(
        f"{head.place}: recon.toml does not say which factors to use for these units in the "
        f"{title!r} column: {_quote_words(listed)}. Correct the factors that are wrong.",
        f"{head.table}\n{setting('unit_column', title)}\n{_unit_words(factors)}",
    )

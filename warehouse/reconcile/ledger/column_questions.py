"""Questions about columns that are not understood, each with the lines that settle it.

The proposed lines follow from the values of a column. A person who pastes a line confirms it.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from warehouse.exact import exact, plain
from warehouse.reconcile.ledger.columns import LedgerBody, UnknownColumn, is_factor
from warehouse.reconcile.ledger.conventions import factor_of, is_negative
from warehouse.reconcile.ledger.header import Header
from warehouse.reconcile.ledger.header_settings import ReadingContext
from warehouse.reconcile.ledger.words import Words
from warehouse.reconcile.settings.layout import UNUSED, name_pattern
from warehouse.reconcile.settings.toml import heading, quote, setting
from warehouse.reconcile.terms import CHOICE, FIELDS, Ambiguous, choices
from warehouse.spreadsheet.reading.text import fold

_MOST = 0.5  # of the values of a column that must be names of a dimension

_SIDES = (("S", "H"), ("D", "C"), ("DR", "CR"), ("Soll", "Haben"), ("Debit", "Credit"), ("+", "-"))

_OTHER_SIDE = {fold(side): other for pair in _SIDES for side, other in (pair, pair[::-1])}

# Letters that are sides only together, by the one that makes an amount negative.
_PAIRS = {
    frozenset(pair): pair[1]
    for pair in (
        ("l", "s"),
        ("b", "s"),
        ("k", "v"),
        ("a", "v"),
        ("a", "p"),
        ("p", "n"),
        ("1", "-1"),
    )
}

_DAYS = 1.5  # dates that a key has at least in a ledger of several days, on average

_MOST_WORDS = 40  # of a column that a setting may list

_SHORTEST = 3  # characters of a word in capital letters that is no abbreviation of a name

_WHOLE = re.compile("-?[0-9]{1,80}")

_MANY = 12  # decimals of an asset whose smallest unit is far below any whole coin

_DIMENSIONS = ("portfolio", "venue", "account")

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
                f"no {dimension} of that name. Write the name that the book has for it.",
                choices(
                    heading("file", name_pattern(file)),
                    f'{dimension} = "..."',
                    f'{dimension} = "*"   # it covers every {dimension}',
                ),
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


def ask_for_asset(body: LedgerBody, where: str) -> None:
    """Raise `Ambiguous` if the column of the assets seems to be the currency of their prices."""
    head, words = body.head, body.head.words
    place = head.columns.get("asset")
    if place is None or "asset" in head.shape.columns:
        return
    currencies = [value for value in body.counts(place)[0] if value]
    if not currencies or not all(map(words.is_currency, currencies)):
        return
    unused = {*map(fold, head.shape.unused)}
    others = [
        other
        for other, title in enumerate(head.titles)
        if other not in head.places and fold(title) not in unused and _is_finer(body, other, place)
    ]
    shares = {other: _share_of_assets(body, other) for other in others}
    names = [
        other
        for other, title in enumerate(head.titles)
        if other in shares and (shares[other] > _MOST or words.is_description(title))
    ]
    if not names:
        return
    best = max(names, key=lambda other: shares[other])
    asset, currency = head.title_of(best), head.title_of(place)
    titles = [title for title in head.shape.unused if fold(title) != fold(asset)]
    lines = [setting("asset", asset), f"{UNUSED} = {_list(dict.fromkeys([*titles, currency]))}"]
    has_price = any(words.is_figure(title) for title in head.titles)
    message = (
        f"{where}: the column {currency!r} has only currencies ({', '.join(currencies[:4])}), and "
        f"one of them has several values of {asset!r}. So {currency!r} may be the currency of a "
        f"price, and {asset!r} the asset."
    )
    if shares[best] > _MOST or has_price:
        raise Ambiguous(message, "\n".join([head.table, *lines]))
    raise Ambiguous(message, choices(head.table, lines[0], setting("asset", currency)))


def _is_finer(body: LedgerBody, place: int, asset: int) -> bool:
    """Return whether one asset has several texts of a column."""
    pairs = [(of, value) for value, of in body.pairs(place, asset) if value]
    texts = {value for _, value in pairs}
    is_text = any(any(map(str.isalpha, value)) for value in texts)
    return is_text and len(pairs) > len({of for of, _ in pairs}) and len(texts) > 1


def _share_of_assets(body: LedgerBody, place: int) -> float:
    """Return which part of the different values of a column are assets of the book."""
    values = [value for value in body.counts(place)[0] if value]
    return sum(body.known.has("asset", value) for value in values) / max(len(values), 1)


@dataclass(slots=True)
class _Settlement:
    """The lines that settle a question, and what each column seems to be."""

    lines: list[str] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)
    meanings: list[str] = field(default_factory=list)


def question_of_columns(
    asked: Sequence[UnknownColumn],
    body: LedgerBody,
    lacking: Sequence[str],
    context: ReadingContext,
    *,
    file: str,
    where: str,
) -> Ambiguous:
    """Return the question about all columns that a person must explain, with one answer."""
    head = body.head
    dimension = context.known.shared_dimension([column.title for column in asked])
    if dimension in lacking:
        samples = "; ".join(f"{column.title!r} ({column.examples})" for column in asked)
        lines = [heading("file", name_pattern(file)), setting("columns_are", dimension)]
        # The amount that is read now, like the total of a row, is not the amount of any name. A
        # name may be called like a field.
        titles = [title for title in head.titles if context.known.has(dimension, title)]
        lines.append(f"label_columns = {_list(titles)}")
        return Ambiguous(
            f"{where}: cannot tell what these columns contain: {samples[:1500]}. "
            f"Their titles are names of a {dimension}, which no column says: each of them "
            f"seems to be the amounts of one {dimension}.",
            "\n".join(lines),
        )
    answer = _settlement_of(asked, body, lacking, context)
    words = f"{where}: cannot tell what these columns say about the amounts: "
    words += f"{'; '.join(answer.meanings)[:2000]}."
    if lacking:
        words += f" The ledger has no column for {', '.join(lacking)}: without it the comparison "
        words += "is coarser, and it does not see what was moved between them."
    meant = " or ".join(f'{field} = "..."' for field in (*lacking, "amount"))
    return Ambiguous(
        f"{words} The amount is read from {head.title_of(head.columns['amount'])!r}. Correct the "
        f"lines if they are wrong: say what a column is by {meant}, by sign, by unit_column, or by "
        f"keep_rows and skip_rows, or list it under {UNUSED} if it changes nothing.",
        "\n".join([head.table, *answer.lines]),
    )


def _settlement_of(
    asked: Sequence[UnknownColumn],
    body: LedgerBody,
    lacking: Sequence[str],
    context: ReadingContext,
) -> _Settlement:
    head, answer = body.head, _Settlement()
    fields = _fields_of(asked, body, lacking, context)
    answer.lines += [setting(name, column.title) for name, column in fields.items()]
    replaced = [head.columns[name] for name in fields if name in head.columns]
    answer.unused += [head.title_of(place) for place in replaced]
    rows: dict[str, tuple[list[str], list[str]]] = {}
    has_sign, has_unit = head.shape.sign is not None, bool(head.shape.unit_column)
    for column in asked:
        shown = f"{column.title!r} ({column.examples})"
        name = next((name for name, of in fields.items() if of is column), "")
        named = [name] if name in _DIMENSIONS else _dimensions_of(column, context)
        voids = _voids_of(column, head)
        signs = [] if has_sign or name else _sign_lines(column, head.words)
        units = [] if has_unit or name or signs else _unit_lines(column, body)
        has_sign, has_unit = has_sign or bool(signs), has_unit or bool(units)
        meanings = [f"has names of the book's {'s and '.join(named)}s"] if named else []
        meanings += ["seems to say which amounts are negative"] if signs else []
        meanings += ["seems to say the unit of each amount"] if units else []
        meanings += ["seems to say which rows count"] if voids and not name else []
        answer.lines += [*signs, *units]
        if voids and not name:
            rows[column.title] = [w for w in _words_of(column) if w not in voids], voids
        elif not name and not signs and not units:
            answer.unused.append(column.title)
        elif units and units[0].startswith(CHOICE):
            answer.lines.append(f"{CHOICE}{UNUSED} = {_list([*head.shape.unused, column.title])}")
        answer.meanings.append(" ".join([shown, " and ".join(meanings)]).strip())
    answer.lines += _row_lines(rows, head)
    if answer.unused:
        of_export = head.profile.shape.unused if head.profile else ()
        before = [title for title in head.shape.unused if title not in of_export]
        titles = dict.fromkeys((*before, *answer.unused))
        answer.lines.append(f"{UNUSED} = {_list(titles)}   # if they change nothing")
    return answer


def _dimensions_of(column: UnknownColumn, context: ReadingContext) -> list[str]:
    """Return the dimensions of the book that a column has names of."""
    return [
        name
        for name in _DIMENSIONS
        if any(context.known.has(name, value) for value in column.values)
    ]


def _words_of(column: UnknownColumn) -> list[str]:
    """Return the different values of a column, if a setting may list them."""
    words = list(column.counts or dict.fromkeys(column.values))
    return words if column.kind != "date" and len(words) <= _MOST_WORDS else []


def _voids_of(column: UnknownColumn, head: Header) -> list[str]:
    """Return the values of a column that say that their rows do not count."""
    words = _words_of(column)
    if head.words.is_void(head.titles[column.place]):  # like `Void?`, with a mark in some rows
        marks = [word for word in words if head.words.is_mark(word)]
        return (
            marks
            if all(head.words.is_unmarked(word) for word in words if word not in marks)
            else []
        )
    return [word for word in words if head.words.is_void(word)]


def _list(texts: Collection[str]) -> str:
    return f"[{', '.join(map(quote, texts))}]"


def _word_setting(name: str, words: Sequence[str]) -> str:
    return setting(name, words[0]) if len(words) == 1 else f"{name} = {_list(words)}"


def _sign_lines(column: UnknownColumn, words: Words) -> list[str]:
    """Return the lines for a column that says which amounts are negative, or nothing."""
    # In an account of holdings, credit is what was taken off it. In a statement of a custodian,
    # credit is what it owes to its client. So only a person can say which one is negative.
    written = _words_of(column)
    stated = [word for word in written if word]
    by_fold = {fold(word): word for word in stated}
    if stated and all(words.is_debit(word) or words.is_credit(word) for word in stated):
        credit = [word for word in stated if words.is_credit(word)]
        others = [word for word in stated if not words.is_credit(word)]
        sides = [
            credit or [_OTHER_SIDE.get(fold(others[0]), "C")],
            others or [_OTHER_SIDE.get(fold(credit[0]), "D")],
        ]
        lines = [_word_setting("negative_word", side) for side in sides]
        lines = [setting("sign", column.title), *(f"{CHOICE}{line}" for line in lines)]
        return [*lines, _word_setting("positive_word", [""])] if "" in written else lines
    negative = [word for word in stated if words.side_of(word) == "negative"]
    if pair := _PAIRS.get(frozenset(by_fold)):
        negative = [by_fold[pair]]
    if set(by_fold) - {""} == {"-"} and "" not in written:
        negative = []
    positive = [word for word in written if word not in negative]
    if all(words.side_of(word) == "positive" for word in positive):
        positive = []
    comment = f'   # or "{positive[0]}"' if positive and positive[0] else ""
    if not negative:
        return []
    lines = [setting("sign", column.title), f"{_word_setting('negative_word', negative)}{comment}"]
    return lines + ([_word_setting("positive_word", positive)] if positive else [])


def _unit_lines(column: UnknownColumn, body: LedgerBody) -> list[str]:
    """Return the lines for a column that says the unit of each amount, or nothing."""
    words = body.head.words
    if words.is_decimals(body.head.titles[column.place]):
        return _lines_of_decimals(column, body)
    factors = {word: words.factor_of(word) for word in _words_of(column)}
    is_price = words.is_figure(body.head.titles[column.place])
    is_number = column.kind == "number" and not is_price
    if is_number and "1" in factors and all(map(_is_power, factors)):
        factors = {word: plain(exact(word.replace(",", ""))) for word in factors}
    if not set(factors.values()) - {"", "1"}:
        return []
    assets = _assets_of(body, column.place)
    listed = {
        word: factor or "1"
        for word, factor in factors.items()
        if factor or {fold(asset) for asset in assets.get(word, ())} != {fold(word)}
    }
    unknown = [word for word in listed if not factors[word]]
    if unknown and all(len(word) < _SHORTEST and word.isupper() for word in listed):
        return []  # the initials of people
    mark = CHOICE if unknown else ""
    return [setting("unit_column", column.title), f"{mark}{_unit_words(listed)}"]


def _lines_of_decimals(column: UnknownColumn, body: LedgerBody) -> list[str]:
    """Return the lines for a column that says how many decimals the smallest unit of an asset has.

    There are none if some amount has a fraction, because then no amount is in smallest units.
    """
    pairs = body.pairs(column.place, body.head.columns["amount"])
    if not pairs or not all(_WHOLE.fullmatch(text) for pair in pairs for text in pair if text):
        return []
    amounts = [(int(places or 0), len(amount.strip("-"))) for places, amount in pairs]
    # Nobody holds a million million coins of an asset with so many decimals.
    is_native = any(places >= _MANY and digits > places - 6 for places, digits in amounts)
    lines = [setting("unit_column", column.title), _unit_words(_factors_of_decimals(column.counts))]
    return lines if is_native else [f"{CHOICE}{lines[0]}"]


def _factors_of_decimals(places: Collection[str]) -> dict[str, str]:
    return {text: plain(Decimal(1).scaleb(-int(text))) for text in places if _WHOLE.fullmatch(text)}


def _unit_words(factors: Mapping[str, str]) -> str:
    pairs = ", ".join(f"{quote(word)} = {quote(factor)}" for word, factor in factors.items())
    return f"unit_words = {{ {pairs} }}"


def _is_power(text: str) -> bool:
    """Return whether a figure is a power of ten above 0."""
    return is_factor(text) and text.strip("0.,") == "1"


def _assets_of(body: LedgerBody, place: int) -> dict[str, set[str]]:
    """Return by value of a column the assets of its rows, if a column says the asset."""
    assets: dict[str, set[str]] = {}
    at = body.head.columns.get("asset")
    for word, asset in body.pairs(place, at) if at is not None else ():
        assets.setdefault(word, set()).add(asset)
    return assets


def _row_lines(
    rows: Mapping[str, tuple[Sequence[str], Sequence[str]]], head: Header
) -> Iterator[str]:
    """Yield the lines that say which rows count, with those of columns that are settled already."""
    for name, number in (("keep_rows", 0), ("skip_rows", 1)):
        before = head.shape.keep_rows if name == "keep_rows" else head.shape.skip_rows
        words = {title: [*before.get(title, ())] for title in before}
        for title, said in rows.items():
            words[title] = [*dict.fromkeys((*words.get(title, ()), *said[number]))]
        tables = ", ".join(f"{quote(title)} = {_list(of)}" for title, of in words.items() if of)
        if rows and tables:
            yield f"{name} = {{ {tables} }}"


def _fields_of(
    asked: Sequence[UnknownColumn],
    body: LedgerBody,
    lacking: Sequence[str],
    context: ReadingContext,
) -> dict[str, UnknownColumn]:
    """Return the columns whose values are names of a dimension that no column says so well."""
    head, fields = body.head, dict[str, UnknownColumn]()

    def is_named(field: str, values: Collection[str]) -> bool:
        names = sum(context.known.has(field, fold(value)) for value in values)
        return names > _MOST * len(values)

    others = [
        name
        for name in FIELDS
        if name in head.columns and not is_named(name, body.counts(head.columns[name])[0])
    ]
    for column in asked:
        for name in (*lacking, *others):
            if name not in fields and is_named(name, column.values):
                fields[name] = column
                break
        is_dated = "as_of" in {*head.columns, *head.shape.columns, *fields}
        if column.kind == "date" and not is_dated:
            has_days = body.dates_for_each_key(column.place) >= _DAYS
            fields |= {"as_of": column} if has_days else {}
    return fields


def ask_for_words(body: LedgerBody, where: str) -> str:
    """Return the only word of the column of signs that recon.toml does not name, if there is one.

    Raises `Ambiguous` if recon.toml does not say what several words of such a column mean, or a
    unit, or which rows are used.
    """
    head = body.head
    positive = "" if head.sign is None else _ask_for_signs(body, head.sign, where)
    if head.unit is not None:
        _ask_for_units(body, head.unit, where)
    new: dict[str, tuple[list[str], list[str]]] = {}
    for title, place in head.rows.items():
        named = {*map(fold, head.shape.keep_rows.get(title, ()))}
        named |= {*map(fold, head.shape.skip_rows.get(title, ()))}
        words = [word for word in body.counts(place)[0] if fold(word) not in named]
        if words:
            voids = [word for word in words if head.words.is_void(word)]
            new[title] = [word for word in words if word not in voids], voids
    if new:
        shown = "; ".join(
            f"{', '.join(repr(word[:40]) for word in [*kept, *voids][:_MOST_WORDS])} of {title!r}"
            for title, (kept, voids) in new.items()
        )
        message = f"{where}: recon.toml does not say whether rows with these words count: {shown}."
        void = {title: ((), voids) for title, (_, voids) in new.items() if voids}
        if void:  # the other words are asked about next
            raise Ambiguous(message, "\n".join([head.table, *_row_lines(void, head)]))
        skipped = {title: ((), words) for title, (words, _) in new.items()}
        keep, *_ = _row_lines(new, head)
        *_, skip = _row_lines(skipped, head)
        raise Ambiguous(message, choices(head.table, keep, skip))
    return positive


def _ask_for_signs(body: LedgerBody, place: int, where: str) -> str:
    """Return the only word that recon.toml does not name; raise `Ambiguous` if there are more."""
    head = body.head
    title = head.title_of(place)
    words = [word for word in body.counts(place)[0] if word]
    unknown = [word for word in words if is_negative(word, head) is None]
    has_positive = any(is_negative(word, head) is False for word in words)
    is_alone = len(unknown) == 1 and not has_positive and not head.shape.positive_words
    if not unknown or (is_alone and head.shape.negative_words):
        return "".join(unknown)
    shown = ", ".join(repr(word[:40]) for word in unknown[:_MOST_WORDS])
    lines = [setting("sign", title)]
    if negative := head.shape.negative_words:
        lines.append(_word_setting("negative_word", negative))
        positive = [*dict.fromkeys((*head.shape.positive_words, *unknown))]
        lines.append(f"{CHOICE}{_word_setting('positive_word', positive)}")
        lines.append(f"{CHOICE}{_word_setting('negative_word', [*negative, *unknown])}")
    else:
        column = UnknownColumn(place, title, "text", tuple(words))
        guesses = [f"{CHOICE}{setting('negative_word', word)}" for word in words]
        lines = _sign_lines(column, head.words) or [*lines, *guesses]
    raise Ambiguous(
        f"{where}: recon.toml does not say whether these words of the column "
        f"{title!r} make an amount negative: {shown}.",
        "\n".join([head.table, *lines]),
    )


def _ask_for_units(body: LedgerBody, place: int, where: str) -> None:
    """Raise `Ambiguous` if recon.toml does not say by what a unit multiplies an amount."""
    head = body.head
    assets = _assets_of(body, place)
    unknown = [
        word
        for word in body.counts(place)[0]
        if any(factor_of(word, head, asset) is None for asset in assets.get(word, {""}))
    ]
    if not unknown:
        return
    factors = {word: plain(factor) for word, factor in head.shape.unit_words.items()}
    mark = ""
    if head.words.is_decimals(head.titles[place]):
        factors |= _factors_of_decimals(unknown[:_MOST_WORDS])
    else:
        known = {word: head.words.factor_of(word) for word in unknown[:_MOST_WORDS]}
        mark = "" if all(known.values()) else CHOICE
        factors |= {word: factor or "1" for word, factor in known.items()}
    raise Ambiguous(
        f"{where}: recon.toml does not say by what these units of the column "
        f"{head.title_of(place)!r} multiply an amount: "
        f"{', '.join(repr(word[:40]) for word in unknown[:_MOST_WORDS])}. Correct the factors "
        "that are wrong.",
        "\n".join(
            [head.table, setting("unit_column", head.title_of(place)), mark + _unit_words(factors)]
        ),
    )

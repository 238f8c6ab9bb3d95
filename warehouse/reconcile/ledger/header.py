"""Find the header row, and which column is which field: by words, or by what was settled.

A ledger's shape is known by its headers, whatever their order: the first eight digits of their
digest name it in recon.toml.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from warehouse.reconcile.config import READ, Config, Shape, setting
from warehouse.reconcile.errors import Ambiguous, NotReconciled
from warehouse.spreadsheet.reading.delimited_text import Row
from warehouse.spreadsheet.reading.grid import HEAD, Grid
from warehouse.spreadsheet.reading.text import fold

_WORDS = {
    "portfolio": "portfolio, portfolios, portfolio id, portfolio name, portefeuille, portafoglio, "
    "cartera, carteira, fund, fonds, mandate, mandat, book, depot, "
    "\u043f\u043e\u0440\u0442\u0444\u0435\u043b\u044c",
    "asset": "asset, assets, asset id, asset symbol, asset code, symbol, ticker, coin, token, "
    "currency, currency code, ccy, instrument, w\u00e4hrung, waehrung, verm\u00f6genswert, devise, "
    "monnaie, actif, moneda, activo, divisa, valuta, attivo, moeda, ativo, "
    "\u0430\u043a\u0442\u0438\u0432, \u0432\u0430\u043b\u044e\u0442\u0430, \u901a\u8ca8",
    "venue": "venue, venue id, exchange, custodian, counterparty, provider, platform, broker, "
    "handelsplatz, b\u00f6rse, boerse, verwahrer, verwahrstelle, bourse, plateforme, "
    "d\u00e9positaire, bolsa, plataforma, custodio, borsa, piattaforma, "
    "\u0431\u0438\u0440\u0436\u0430, \u53d6\u5f15\u6240",
    "account": "account, accounts, account name, account id, sub account, subaccount, "
    "sub-account, wallet, wallet name, vault account, konto, kontoname, kontonummer, unterkonto, "
    "compte, portefeuille crypto, cuenta, conto, conta, "
    "\u0441\u0447\u0435\u0442, \u0441\u0447\u0451\u0442, \u53e3\u5ea7",
    "bucket": "bucket, balance type, balance kind, kind of balance, saldoart, type de solde",
    "amount": "amount, quantity, qty, balance, units, position, holding, holdings, total, "
    "total balance, total amount, ledger amount, ledger balance, closing balance, betrag, menge, "
    "bestand, saldo, guthaben, anzahl, endbestand, montant, quantit\u00e9, quantite, solde, "
    "cantidad, importe, quantit\u00e0, quantita, importo, quantidade, "
    "\u043a\u043e\u043b\u0438\u0447\u0435\u0441\u0442\u0432\u043e, "
    "\u0441\u0443\u043c\u043c\u0430, \u6570\u91cf, \u6b8b\u9ad8",
    "as_of": "as of, as-of, as of date, date, balance date, position date, valuation date, "
    "statement date, datum, stichtag, valuta datum, date d'arr\u00eat\u00e9, fecha, data, "
    "\u0434\u0430\u0442\u0430, \u65e5\u4ed8",
}
# Taken for a field only where no column is named by a word of its own.
_ALSO = {
    "portfolio": "fund name, fund id, fund code, sub fund, subfund, subsidiary, entity, "
    "entity name, legal entity, company, mandate name, mandate id, book name, strategy, client, "
    "client name, portfolio code, portfolio no, portfolio number, fondsname, gesellschaft, mandant",
    "venue": "venue name, exchange name, exchange id, custodian name, custodian id, broker name, "
    "platform name, provider name, counterparty name, prime broker, b\u00f6rsenname, institution",
    "account": "account no, account number, account code, wallet id, sub account name, "
    "subaccount name, sub account id, vault, vault name, vault id, wallet address, "
    "kontobezeichnung",
    "asset": "asset ticker, coin symbol, token symbol, currency symbol, currency id, coin id, "
    "token id, asset id code",
}


def _by_word(words_of: Mapping[str, str]) -> dict[str, str]:
    return {word.strip(): field for field, words in words_of.items() for word in words.split(",")}


_FIELD = _by_word(_WORDS)
_SECOND = _by_word(_ALSO)
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_BESIDE = re.compile(r"\s*[\(\[].*?[\)\]]\s*$")
REQUIRED = ("asset", "amount")
_SHOWN = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The row of the header, the shape it makes, and the column of each field, from 0."""

    row: int
    fingerprint: str
    titles: tuple[str, ...]
    columns: Mapping[str, int]
    shape: Shape


def fingerprint(titles: Sequence[str]) -> str:
    """Return the name of a shape: the same for the same headers in any order."""
    folded = sorted(fold(title) for title in titles if title)
    return hashlib.sha256("\x1f".join(folded).encode()).hexdigest()[:8]


def field_of(title: str, words: Mapping[str, str] = _FIELD) -> str:
    """Return the field that a title names in one of the known languages, or nothing."""
    for name in title_words(title):
        if name in words:
            return words[name]
    return ""


def also_field_of(title: str) -> str:
    """Return the field that a title names where no other column names it better, or nothing."""
    return field_of(title, _SECOND)


def title_words(title: str) -> Iterator[str]:
    """Yield a title as words, with and without what stands in brackets.

    `portfolioName` and `portfolio_name` are two words each.
    """
    for written in (title, _HUMP.sub(" ", title)):
        name = fold(written.replace("_", " "))
        yield name
        yield _BESIDE.sub("", name)


def letters(place: int) -> str:
    """Return what a column without a title is called: `column C`."""
    name = ""
    place += 1
    while place:
        place, rest = divmod(place - 1, 26)
        name = chr(ord("A") + rest) + name
    return f"column {name}"


def count_fields(rows: Sequence[Row]) -> int:
    """Return how many fields the best of these rows names, to compare readings of a file."""
    # A text file is tried with several letter sets and separators. That reading is right whose
    # header names most fields; one with both an asset and an amount beats any number of others.
    best = 0
    for row in rows[:HEAD]:
        fields = {field_of(text) or also_field_of(text) for text in _titles(row)} - {""}
        best = max(best, len(fields) + 10 * fields.issuperset(REQUIRED))
    return best


def _titles(row: Row) -> tuple[str, ...]:
    return tuple(" ".join(cell.split()) if isinstance(cell, str) else "" for cell in row)


def header(
    grid: Grid, config: Config, remembered: Mapping[str, Mapping[str, str]], file: str
) -> Header | None:
    """Return the header of a sheet, or None where no row can be one.

    Raises `Ambiguous` where two columns may be the same field, `NotReconciled` where a column that
    was settled is not there.
    """
    # The first row that names both an asset and an amount, by its words or by what was settled for
    # headers like these. Titles, blank lines and addresses above it name at most one of them.
    for row, cells in enumerate(grid.rows[:HEAD]):
        titles = _titles(cells)
        name = fingerprint(titles)
        shape = config.shapes.get(name, Shape())
        settled = dict(remembered.get(name, {})) | dict(shape.columns)
        fields = {field_of(title) or also_field_of(title) for title in titles} | settled.keys()
        if fields.issuperset(REQUIRED):
            columns = _columns(titles, settled, f"{file} {grid.sheet}".strip(), name)
            return Header(row=row, fingerprint=name, titles=titles, columns=columns, shape=shape)
    return None


def _columns(
    titles: Sequence[str], settled: Mapping[str, str], where: str, name: str
) -> dict[str, int]:
    columns: dict[str, int] = {}
    for field in READ:
        wanted = settled.get(field)
        if wanted == "":
            continue
        if wanted is None:
            # A second choice of words counts only where no column has one of the first.
            places = [place for place, title in enumerate(titles) if field_of(title) == field] or [
                place for place, title in enumerate(titles) if also_field_of(title) == field
            ]
        else:
            places = [
                place
                for place, title in enumerate(titles)
                if fold(title or letters(place)) == fold(wanted)
            ]
            if not places:
                raise NotReconciled(
                    f"{where} has no column {wanted!r}, which was settled for {field}. Nothing was "
                    f'reconciled. Mend [ledger."{name}"] in recon.toml.'
                )
        if len(places) > 1:
            candidates = " and ".join(repr(titles[place]) for place in places)
            raise Ambiguous(
                f"{where}: the columns {candidates} may each be the {field}.",
                f'[ledger."{name}"]\n{setting(field, titles[places[0]])}',
            )
        if places:
            columns[field] = places[0]
    return columns


def question_of_columns(grids: Sequence[Grid], file: str) -> Ambiguous | NotReconciled:
    """Return the question about a file without a known header: its columns, with two values."""
    for grid in grids:
        for row, cells in enumerate(grid.rows[:HEAD]):
            titles = [title for title in _titles(cells) if title]
            if len(titles) > 1 and len(grid.rows) > row + 1:
                name = fingerprint(_titles(cells))
                samples = "; ".join(_samples(grid, row))
                lines = [f'[ledger."{name}"]'] + [f'{field} = "..."' for field in REQUIRED]
                return Ambiguous(
                    f"{file}: no row says which column is the asset and which the amount. Its "
                    f"columns and their first values: {samples[:1500]}. Columns that may be named "
                    f"besides: {', '.join(READ)}. If it is no ledger, say so under [inbox] by "
                    f"{setting(file, 'unused')} instead.",
                    "\n".join(lines),
                )
    return NotReconciled(
        f"{file} holds no table: expected a row of headers, one of them the asset and one the "
        "amount, and rows below it. Nothing was reconciled. `nightbook reconcile init` writes a "
        "template. If it is no ledger, take it out of the inbox, or say in recon.toml under "
        f"[inbox] {setting(file, 'unused')}"
    )


def _samples(grid: Grid, row: int) -> Iterator[str]:
    for place, title in list(enumerate(_titles(grid.rows[row])))[:_SHOWN]:
        below = [
            str(cells[place])[:30]
            for cells in grid.rows[row + 1 : row + 20]
            if len(cells) > place and cells[place] != ""
        ]
        if title:
            yield f"{title!r} ({', '.join(below[:2])})"

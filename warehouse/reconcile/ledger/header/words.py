"""The words that name a field in the header of a ledger, in six languages and more."""

import re
from collections.abc import Iterator, Mapping

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

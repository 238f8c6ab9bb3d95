"""Tests of every kind of question: it is raised, and pasting its lines gives the right result.

The kinds are the places in the code that raise a question. A line that is ready to paste must give
the right result. Each line that begins with `#` must be the right one for some ledger.

For a new question, add a `Case` with a ledger that raises it to `CASES`. For choices, add a ledger
for each line, with the result of each line, such as `(RIGHT, BREAKS)` and `(BREAKS, RIGHT)`. If a
line leaves the ledger out, or has a placeholder, see `AS_IT_IS` and `NEVER_RIGHT`. The key is the
module below `warehouse.reconcile` and the function, such as `ledger.tabs.unknown_header`. The
second question in a function, counted by line, has `#2`. Use the amounts that the case receives,
because the test changes one of them, or define a `book` for the case.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_DOWN, Decimal
from functools import cache
from itertools import groupby
from pathlib import Path

import pytest

from tests.support.books import Amount
from tests.support.ledger_samples import BOOK
from tests.support.pasted_answers import (
    FIELDS,
    AnswerFolder,
    CellRows,
    Content,
    answer,
    csv,
    kinds_of_questions,
    questions_raised,
)
from tests.support.reconciliation_home import SNAPSHOT, Desk
from tests.support.shared import some_daily
from warehouse.reconcile.terms import Ambiguous, NotReconciled, choices_of

pytestmark = pytest.mark.usefixtures("no_workbook")

# Results of a paste. ASKED means that more questions remain, and NO_LEDGER that the ledger was set
# aside.
RIGHT, BREAKS, ASKED, REFUSED, NO_LEDGER = "right", "breaks", "asked", "refused", "no ledger"
Files = Mapping[str, Content]
Texts = Sequence[str]
NOVEMBER_2 = SNAPSHOT.replace("20261120", "20261102")
SMALL = [("1.234", "BTC"), ("12.345", "ETH"), ("2.5", "SOL")]


@dataclass(frozen=True, slots=True)
class Case:
    """A ledger that raises a question, and the result of each of its lines.

    `files` creates it from the amounts of the book. `results` has one result if the lines are ready
    to paste. If they are choices, it has one result for each of them.
    """

    files: Callable[[Texts], Files]
    results: tuple[str, ...] = (RIGHT,)
    settings: str = ""
    book: tuple[Amount, ...] = BOOK
    snapshot: str = SNAPSHOT


def keys() -> list[list[str]]:
    """Return the names of the positions of the book."""
    return [[one.portfolio, one.asset, one.venue, one.account] for one in BOOK]


def table(titles: Sequence[object], *columns: Sequence[object]) -> CellRows:
    """Return the book with other columns instead of the amount."""
    body = [[*key, *cells] for key, *cells in zip(keys(), *columns, strict=True)]
    return [[*FIELDS, *titles], *body]


def ledger(titles: Sequence[object], *columns: Sequence[object], delimiter: str = ",") -> Files:
    """Return the book with other columns instead of the amount, as a CSV."""
    return {"ledger.csv": csv(table(titles, *columns), delimiter)}


def plain(texts: Texts) -> CellRows:
    """Return a ledger with all fields and the amount."""
    return table(["Amount"], texts)


def each(texts: Texts, change: Callable[[Decimal], object]) -> list[str]:
    """Return these amounts, each changed by a function."""
    return [str(change(Decimal(text))) for text in texts]


def old(texts: Texts) -> list[str]:
    """Return different amounts, as if they were of an earlier day."""
    return [str(number) for number in range(1, len(texts) + 1)]


def zeros(texts: Texts) -> list[str]:
    """Return as many zeros."""
    return ["0"] * len(texts)


def sides(texts: Texts, negative: str, positive: str) -> list[str]:
    """Return a word for the side of each amount."""
    return [negative if text.startswith("-") else positive for text in texts]


def unsigned(texts: Texts) -> list[str]:
    """Return the amounts without their signs."""
    return [text.removeprefix("-") for text in texts]


def halves(texts: Texts, title: str, other: str) -> Files:
    """Return a workbook with two tabs, each with a part of the book."""
    rows = plain(texts)
    return {"ledger.xlsx": {title: rows[:9], other: [rows[0], *rows[9:]]}}


def split(texts: Texts, venue: str) -> CellRows:
    """Return the rows of a venue, without the venue column."""
    rows = zip(keys(), texts, strict=True)
    return [
        ["Portfolio", "Asset", "Account", "Amount"],
        *[[key[0], key[1], key[3], text] for key, text in rows if key[2] == venue],
    ]


def pivot(texts: Texts, titles: Sequence[str], *, total: bool = False) -> Files:
    """Return a pivot table with portfolios and assets in the rows, and a column for each venue."""
    sums: dict[tuple[str, str, str], Decimal] = defaultdict(Decimal)
    for (portfolio, asset, venue, _), text in zip(keys(), texts, strict=True):
        sums[portfolio, asset, venue] += Decimal(text)
    venues = sorted({venue for _, _, venue in sums})
    body = [
        [*key, *(str(sums.get((*key, venue), "")) for venue in venues)]
        for key in sorted({key[:2] for key in sums})
    ]
    if total:
        body = [[*row, str(sum(Decimal(text or 0) for text in row[2:]))] for row in body]
    return {"pivot.csv": csv([[*titles, *venues, *(["Total"] if total else [])], *body])}


def by_venue(texts: Texts, names: Mapping[str, str]) -> CellRows:
    """Return rows below lines that name their venue. `names` has other words for some venues."""
    rows = sorted(zip(keys(), texts, strict=True), key=lambda row: row[0][2])
    lines: list[list[str]] = [["Portfolio", "Asset", "Account", "Amount"]]
    for venue, of_venue in groupby(rows, key=lambda row: row[0][2]):
        lines.append([names.get(venue, venue), "", "", ""])
        lines += [[key[0], key[1], key[3], text] for key, text in of_venue]
    return lines


def once(texts: Texts) -> CellRows:
    """Return a ledger in which each portfolio is only in the first of its rows."""
    rows = [list(row) for row in plain(texts)]
    last = ""
    for row in rows[1:]:
        row[0], last = ("" if row[0] == last else row[0]), str(row[0])
    return rows


def dated(texts: Texts, right: str, wrong: str) -> Files:
    """Return a ledger with each position on two days."""
    rows = [[*key, right, text] for key, text in zip(keys(), texts, strict=True)]
    rows += [[*key, wrong, text] for key, text in zip(keys(), old(texts), strict=True)]
    return {"ledger.csv": csv([[*FIELDS, "Date", "Amount"], *rows])}


def rescaled(texts: Texts) -> list[str]:
    """Return the amounts in hundred-millionths."""
    return each(texts, lambda amount: f"{amount.scaleb(8):.0f}")


def by_asset(texts: Texts) -> list[tuple[str, str]]:
    """Return the sum of each asset."""
    sums: dict[str, Decimal] = defaultdict(Decimal)
    for key, text in zip(keys(), texts, strict=True):
        sums[key[1]] += Decimal(text)
    return [(asset, str(amount)) for asset, amount in sums.items()]


def small(amounts: Sequence[str]) -> tuple[Amount, ...]:
    """Return a book of a few amounts."""
    return tuple(
        Amount(text, asset=asset) for text, (_, asset) in zip(amounts, SMALL, strict=False)
    )


def few(cells: Texts) -> Files:
    """Return a ledger of the small book, with its amounts written like these cells."""
    assets = (asset for _, asset in SMALL)
    rows = [["p1", asset, "v1", "main", cell] for asset, cell in zip(assets, cells, strict=False)]
    return {"ledger.csv": csv([[*FIELDS, "Amount"], *rows], ";")}


def currencies(texts: Texts) -> list[str]:
    """Return a price currency for each row. It is not the asset of any row."""
    return ["CHF" if number % 2 else "JPY" for number, _ in enumerate(texts)]


def statuses(texts: Texts, words: Sequence[str]) -> CellRows:
    """Return the ledger with a status column, and one more row with the last of the words."""
    column = [words[number % (len(words) - 1)] for number, _ in enumerate(texts)]
    rows = table(["Amount", "Status"], texts, column)
    return [*rows, [*rows[1][:4], "999", words[-1]]]


def marked(texts: Texts, negative: str, positive: str) -> Files:
    """Return a ledger with a word for the side after each amount."""
    words = zip(unsigned(texts), sides(texts, negative, positive), strict=True)
    return ledger(["Amount"], [f"{text} {word}" for text, word in words])


def less(texts: Texts, number: int) -> list[str]:
    """Return these amounts, each reduced by a number."""
    return each(texts, lambda amount: amount - number)


def parts(free: Texts, available: Texts) -> Files:
    """Return a ledger with two columns that may be the free part, and a locked part of 1."""
    return ledger(["Free", "Available", "Locked"], free, available, ["1"] * len(free))


BITSO = ["currency", "total", "locked", "available", "pending_deposit", "pending_withdrawal"]
CUT = Decimal("0.0001")
LONG = tuple(replace(one, text=str(Decimal(one.text) + Decimal("0.123456789"))) for one in BOOK)
CASH = (("a", "USD"), ("b", "USD"), ("c", "EUR"), ("d", "EUR"))
OTHER_NAMES = {
    "kraken": "The exchange",
    "vault": "Our safe",
    "coinbase": "Americans",
    "bank-one": "House bank",
}
C = "ledger.column_questions."
A = "ledger.header."
V = "ledger.notation."
CASES: dict[str, list[Case]] = {
    "ledger.labels._outer_names": [
        Case(
            lambda t: {
                "ledger.csv": "Account: main\n" + csv([[*row[:3], row[4]] for row in plain(t)])
            },
            (RIGHT, RIGHT),
            book=tuple(replace(one, account="main") for one in BOOK),
        ),
    ],
    "ledger.spellings._ask_for_path": [
        Case(
            lambda t: {
                "ledger.csv": csv(
                    [
                        ["Account", "Asset", "Amount"],
                        *[[f"Assets:{p}:{v}:{a}", b, n] for p, b, v, a, n in plain(t)[1:]],
                    ]
                )
            }
        ),
    ],
    f"{C}ask_for_parts": [
        Case(
            lambda t: ledger(["Amount", "Balance type"], t, ["Available"] * len(t)),
            (BREAKS, RIGHT, RIGHT),
        ),
        Case(
            lambda t: ledger(["Amount", "Status"], t, ["Available"] * len(t)),
            (RIGHT, BREAKS, RIGHT),
            book=tuple(replace(one, bucket="custody") for one in BOOK),
        ),
    ],
    f"{C}ask_for_parts#2": [
        Case(lambda t: ledger(["Amount", "Balance type"], t, ["Total"] * len(t)))
    ],
    "match.rounding.require_few": [
        Case(
            lambda t: ledger(["Amount"], each(t, lambda one: one.quantize(CUT, ROUND_DOWN))),
            settings="[settings]\nmost_breaks = 2\n",
            book=LONG,
        )
    ],
    "match.rounding.require_few#2": [
        Case(
            lambda t: ledger(["Amount"], ["7", "8", *t[2:]]),
            (BREAKS,),
            settings="[settings]\nmost_breaks = 1\n",
        )
    ],
    f"{V}rules_of": [
        Case(lambda _: few(["1,234.5", "1.234,5"]), (BREAKS, BREAKS), book=small(["1234.5"] * 2))
    ],
    f"{V}rules_of#2": [
        Case(few, (RIGHT, BREAKS), book=small(["1.234", "12.345"])),
        Case(
            lambda t: few([f"{text[:-3]}.{text[-3:]}" for text in t]),
            (BREAKS, RIGHT),
            book=small(["1234", "12345"]),
        ),
    ],
    f"{V}_ask_for_footnotes": [
        Case(lambda t: ledger(["Amount"], [f"{t[0]} (1)", *t[1:]])),
        Case(lambda t: ledger(["Amount"], [f"{t[0]} a)", *t[1:]])),
    ],
    "ledger.notes.ask_for_notes": [
        Case(lambda t: {"ledger.csv": csv([*plain(t), ["PRELIMINARY"]])}),
    ],
    f"{V}_ask_for_negative_word": [
        Case(lambda t: marked(t, "CR", "DR"), (RIGHT, BREAKS)),
        Case(lambda t: marked(t, "DR", "CR"), (BREAKS, RIGHT)),
    ],
    f"{V}_ask_for_dates": [
        Case(lambda t: ledger(["Amount", "Date"], t, ["Q4 2026"] * len(t)), (RIGHT,))
    ],
    f"{C}ask_for_scope": [
        Case(
            lambda t: {
                "bitso.csv": csv(
                    [
                        [
                            "currency",
                            "total",
                            "locked",
                            "available",
                            "pending_deposit",
                            "pending_withdrawal",
                        ],
                        *[[asset, text, "0", text, "0", "0"] for asset, text in by_asset(t)],
                    ]
                )
            },
            (REFUSED, RIGHT),
        )
    ],
    f"{C}ask_for_scope#2": [Case(lambda t: {"kraken.csv": csv(split(t, "kraken"))})],
    f"{C}ask_for_asset": [
        Case(
            lambda t: {
                "ledger.csv": csv(
                    [
                        ["Portfolio", "Security", "Venue", "Account", "Quantity", "Price", "CCY"],
                        *[
                            [*key, text, "1.5", unit]
                            for key, text, unit in zip(keys(), t, currencies(t), strict=True)
                        ],
                    ]
                )
            }
        )
    ],
    f"{C}ask_for_asset#2": [
        Case(
            lambda t: {
                "ledger.csv": csv(
                    [
                        ["Portfolio", "Description", "Venue", "Account", "Quantity", "CCY"],
                        *[
                            ["p1", f"Deposit {account}", "v1", account, text, asset]
                            for (account, asset), text in zip(CASH, t, strict=True)
                        ],
                    ]
                )
            },
            (RIGHT, RIGHT),
            book=tuple(
                Amount(f"{number}00.5", asset=asset, account=account)
                for number, (account, asset) in enumerate(CASH, 1)
            ),
        )
    ],
    f"{C}question_of_columns": [
        Case(lambda t: pivot(t, ("Portfolio", "Asset"), total=True)),
    ],
    f"{C}question_of_columns#2": [
        Case(lambda t: ledger(["Amount", "Side"], unsigned(t), sides(t, "Short", "Long"))),
        Case(lambda t: ledger(["Amount", "S/H"], unsigned(t), sides(t, "H", "S")), (RIGHT, BREAKS)),
        Case(lambda t: ledger(["Amount", "S/H"], unsigned(t), sides(t, "S", "H")), (BREAKS, RIGHT)),
        Case(
            lambda t: ledger(
                ["Amount", "Unit"],
                [*each(t[:3], lambda one: one / 1000), *t[3:]],
                ["k", "k", "k", *["pcs"] * (len(t) - 3)],
            )
        ),
        Case(lambda t: {"ledger.csv": csv(statuses(t, ("Booked", "Settled", "VOID")))}),
        Case(lambda t: ledger(["Amount", "Country"], t, ["US", "MT"] * (len(t) // 2))),
    ],
    f"{C}ask_for_words": [
        Case(
            lambda t: {"ledger.csv": csv(statuses(t, ("Booked", "Booked", "VOID")))},
            settings='[file."*"]\nkeep_rows = { Status = ["Booked"] }\n',
        )
    ],
    f"{C}ask_for_words#2": [
        Case(
            lambda t: {"ledger.csv": csv(statuses(t, ("Booked", "Booked", "Odd")))},
            (BREAKS, RIGHT),
            settings='[file."*"]\nkeep_rows = { Status = ["Booked"] }\n',
        ),
        Case(
            lambda t: ledger(["Amount", "Status"], t, ["Booked", "Odd"] * (len(t) // 2)),
            (RIGHT, BREAKS),
            settings='[file."*"]\nkeep_rows = { Status = ["Booked"] }\n',
        ),
    ],
    f"{C}_ask_for_signs": [
        Case(
            lambda t: ledger(["Amount", "Side"], unsigned(t), sides(t, "Theirs", "Ours")),
            (BREAKS, RIGHT),
            settings='[file."*"]\nsign = "Side"\n',
        ),
        Case(
            lambda t: ledger(["Amount", "Side"], unsigned(t), sides(t, "Ours", "Theirs")),
            (BREAKS, RIGHT),
            settings='[file."*"]\nsign = "Side"\n',
        ),
    ],
    f"{C}_ask_for_units": [
        Case(
            lambda t: ledger(
                ["Amount", "Unit"],
                [*each(t[:3], lambda one: one / 1000), *t[3:]],
                ["k", "k", "k", *["pcs"] * (len(t) - 3)],
            ),
            settings='[file."*"]\nunit_column = "Unit"\n',
        ),
        Case(
            lambda t: ledger(["Amount", "Unit"], t, ["odd", "pcs"] * (len(t) // 2)),
            settings='[file."*"]\nunit_column = "Unit"\n',
        ),
    ],
    f"{A}question_of_order": [
        Case(
            lambda t: ledger(["Amount", "As of"], t, ["02/11/2026"] * len(t)), snapshot=NOVEMBER_2
        ),
        Case(lambda t: ledger(["02/11/2026", "01/11/2026"], t, old(t)), snapshot=NOVEMBER_2),
    ],
    f"{A}question_of_order#2": [
        Case(lambda t: dated(t, "02/11/2026", "11/02/2026"), (RIGHT, BREAKS), snapshot=NOVEMBER_2),
        Case(lambda t: dated(t, "11/02/2026", "02/11/2026"), (BREAKS, RIGHT), snapshot=NOVEMBER_2),
        Case(
            lambda t: ledger(["02/11/2026", "11/02/2026"], t, old(t)),
            (RIGHT, BREAKS),
            snapshot=NOVEMBER_2,
        ),
        Case(
            lambda t: ledger(["02/11/2026", "11/02/2026"], old(t), t),
            (BREAKS, RIGHT),
            snapshot=NOVEMBER_2,
        ),
    ],
    f"{A}_question_of_months": [
        Case(lambda t: ledger(["Aug 2026", "Sep 2026"], old(t), t), (NO_LEDGER,))
    ],
    f"{A}_question_of_months#2": [Case(lambda t: ledger(["Oct 2026", "Nov 2026"], old(t), t))],
    f"{A}_amount_column": [
        Case(lambda t: ledger(["Debit", "Credit"], t, zeros(t)), (RIGHT, BREAKS)),
        Case(lambda t: ledger(["Debit", "Credit"], zeros(t), t), (BREAKS, RIGHT)),
    ],
    f"{A}_question_of_parts": [
        Case(lambda t: ledger(["Free", "Locked"], each(t, lambda one: one - 1), ["1"] * len(t)))
    ],
    f"{A}_question_of_parts#2": [
        Case(lambda t: parts(less(t, 3), ["2"] * 16), (RIGHT, BREAKS, BREAKS)),
        Case(lambda t: parts(less(t, 1), old(t)), (BREAKS, RIGHT, BREAKS)),
        Case(lambda t: parts(old(t), less(t, 1)), (BREAKS, BREAKS, RIGHT)),
    ],
    "ledger.header.two_columns": [
        Case(lambda t: ledger(["Quantity", "Units"], t, old(t)), (RIGHT, BREAKS)),
        Case(lambda t: ledger(["Quantity", "Units"], old(t), t), (BREAKS, RIGHT)),
        Case(lambda t: ledger(["Amount", "Amount"], old(t), t), (BREAKS, RIGHT)),
    ],
    "ledger.tabs.unknown_header": [
        Case(
            lambda _: {
                "trades.csv": "Date(UTC),Pair,Side,Price,Executed,Amount,Fee\n"
                "2026-11-18 10:00:00,BTC,x0,0.25,0.25,0.25,0.25\n"
            },
            (NO_LEDGER,),
        )
    ],
    "ledger.tabs._question": [Case(lambda t: pivot(t, ("Sleeve", "Thing")))],
    "ledger.tabs._question#2": [
        Case(lambda t: ledger(["Yesterday", "Today"], old(t), t), (BREAKS, RIGHT)),
        Case(lambda t: ledger(["Yesterday", "Today"], t, old(t)), (RIGHT, BREAKS)),
        Case(lambda t: ledger(["Today"], t)),
    ],
    "ledger.days.question_of_late": [
        Case(lambda t: {"ledger-2026-11-19.csv": csv(plain(t))}, (RIGHT,))
    ],
    "ledger.inbox._versions": [
        Case(
            lambda t: {"ledger (1).csv": csv(plain(old(t))), "ledger (2).csv": csv(plain(t))},
            (RIGHT, BREAKS, BREAKS),
        ),
        Case(
            lambda t: {"ledger (1).csv": csv(plain(t)), "ledger (2).csv": csv(plain(old(t)))},
            (BREAKS, RIGHT, BREAKS),
        ),
        Case(
            lambda t: {
                "ledger (1).csv": csv(plain(t)[:9]),
                "ledger (2).csv": csv([plain(t)[0], *plain(t)[9:]]),
            },
            (BREAKS, BREAKS, RIGHT),
        ),
    ],
    "ledger.labels._ask_for_groups": [
        Case(lambda t: {"ledger.csv": csv(by_venue(t, OTHER_NAMES))}, (BREAKS, RIGHT))
    ],
    "ledger.labels._ask_for_groups#2": [Case(lambda t: {"ledger.csv": csv(by_venue(t, {}))})],
    "ledger.labels._ask_to_fill_down": [Case(lambda t: {"ledger.csv": csv(once(t))})],
    "ledger.spellings.ask_for_spellings": [
        Case(
            lambda t: {
                "ledger.csv": csv(
                    [
                        plain(t)[0],
                        *[[row[0], f"{row[1]} (1)", *row[2:]] for row in plain(t)[1:]],
                    ]
                )
            }
        )
    ],
    "ledger.spellings.ask_for_spellings#2": [
        Case(
            lambda t: {
                "ledger.csv": csv(
                    [
                        plain(t)[0],
                        *[[row[0], f"{row[1]} Curncy", *row[2:]] for row in plain(t)[1:]],
                    ]
                )
            }
        )
    ],
    "ledger.units._ask_for_unit": [
        Case(lambda t: ledger(["Balance (satoshis)"], rescaled(t)), (RIGHT, BREAKS)),
        Case(lambda t: ledger(["Balance (satoshis)"], t), (BREAKS, RIGHT)),
    ],
    "ledger.tabs._several_tabs": [
        Case(
            lambda t: {
                "ledger.xlsx": {
                    venue: split(t, venue) for venue in ("kraken", "vault", "coinbase", "bank-one")
                }
            }
        )
    ],
    "ledger.tabs._several_tabs#2": [
        Case(
            lambda t: {"ledger.xlsx": {"A": plain(t), "B": plain(old(t))}}, (RIGHT, BREAKS, BREAKS)
        ),
        Case(
            lambda t: {"ledger.xlsx": {"A": plain(old(t)), "B": plain(t)}}, (BREAKS, RIGHT, BREAKS)
        ),
        Case(lambda t: halves(t, "A", "B"), (BREAKS, BREAKS, RIGHT)),
        Case(lambda t: halves(t, "2026-11-20", "Others"), (BREAKS, BREAKS, RIGHT)),
    ],
    "ledger.tabs.level_of": [
        Case(
            lambda t: {
                "ledger.csv": csv([[row[0], row[1], row[4]] for row in plain(t)]),
            },
            settings='[settings]\nlevel = ["portfolio", "asset", "venue"]\n',
        ),
        Case(
            lambda t: {
                "ledger.csv": csv([["Asset", "Amount"], *map(list, by_asset(t))]),
            },
            settings='[settings]\nlevel = ["asset", "venue"]\n',
        ),
    ],
    "ledger.tabs._question_of_others": [
        Case(
            lambda t: {"ledger.xlsx": {"Ledger": plain(t), "Aside": [["x", 5], ["y", 6]]}},
            (RIGHT,),
        )
    ],
    "ledger.columns.rows_of_other_dates": [
        Case(
            lambda t: ledger(
                ["Amount", "Date"], t, ["2026-11-03", "2026-11-20", "2026-11-19", "2026-11-20"] * 4
            ),
            (RIGHT, BREAKS),
        ),
        Case(
            lambda t: {
                "ledger.csv": csv(
                    [
                        *table(["Amount", "Date"], t, ["2026-11-20"] * len(t)),
                        *[
                            ["alpha", "BTC", "kraken", f"gone {n}", n, "2026-11-19"]
                            for n in range(5)
                        ],
                    ]
                )
            },
            (BREAKS, RIGHT),
        ),
    ],
    "terms.together": [
        Case(
            lambda t: {
                "one.csv": csv(
                    [plain(t)[0], *[[r[0], f"{r[1]} (1)", *r[2:]] for r in plain(t)[1:9]]]
                ),
                "two.csv": csv(
                    [
                        [*FIELDS, "Free", "Locked"],
                        *[[*r[:4], r[4], "0"] for r in plain(t)[9:]],
                    ]
                ),
            }
        )
    ],
}
# Numbers of the lines that are never right: the line is `...`, a person must correct it, or amounts
# are written in two ways and some are rejected.
NEVER_RIGHT = {
    f"{V}rules_of": {1, 2},
    f"{C}ask_for_scope": {1},
    f"{C}_ask_for_signs": {1},
    "ledger.labels._ask_for_groups": {1},
}
# Kinds whose line leaves the ledger out, or correctly gives breaks.
AS_IT_IS = {
    "match.rounding.require_few#2",
    f"{A}_question_of_months",
    "ledger.tabs.unknown_header",
}


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Case], Path]:
    """Return a function that publishes the book of a case once, and returns its database."""

    @cache
    def publish(book: tuple[Amount, ...], snapshot: str) -> Path:
        desk = Desk(tmp_path_factory.mktemp("home"))
        desk.publish(book, snapshot)
        return desk.layout.database

    return lambda case: publish(case.book, case.snapshot)


def folder_of(case: Case, database: Path, root: Path, settings: str) -> AnswerFolder:
    """Return a folder with the ledger of a case in its inbox and these lines in recon.toml."""
    folder = AnswerFolder(database, root)
    put(case, folder, [one.text for one in case.book])
    folder.settle(settings)
    return folder


def put(case: Case, folder: AnswerFolder, texts: Texts) -> None:
    """Write the ledger of a case with these amounts into the inbox."""
    for name, content in case.files(texts).items():
        folder.put(content, name)


def question_of(case: Case, kind: str, database: Path, root: Path) -> tuple[str, str]:
    """Return the lines of the question of this kind, and the settings that lead to it."""
    settings = case.settings
    for number in range(3):
        with questions_raised() as raised, pytest.raises(Ambiguous) as asked:
            folder_of(case, database, root / f"{number}", settings).run()
        if kind in raised:
            return asked.value.line, settings
        settings += f"\n{answer(asked.value.line)}\n"
    raise AssertionError(raised)


def result_of(folder: AnswerFolder, line: str) -> str:
    """Return the result of a run, after pasting the lines of further questions as well."""
    for _ in range(3):
        asked = ""
        try:
            summary = folder.run()
        except Ambiguous as question:
            asked = question.line
        except NotReconciled:
            return REFUSED
        if not asked:
            return NO_LEDGER if not summary.run_id else BREAKS if summary.exit_code else RIGHT
        assert asked != line, "the same question is asked again"
        folder.settle(answer(asked))
    return ASKED


def changed(texts: Texts) -> list[str]:
    """Return the amounts with an error in the first of them."""
    return [str(Decimal(texts[0]) + 100), *texts[1:]]


@pytest.mark.parametrize("kind", some_daily(CASES, 15))
def test_each_line_of_each_question_gives_the_right_result(
    published: Callable[[Case], Path], tmp_path: Path, kind: str
) -> None:
    """Lines that are ready to paste are right for every ledger, and a choice for one of them."""
    found: dict[int, set[str]] = defaultdict(set)
    for number, case in enumerate(CASES[kind]):
        database = published(case)
        line, settings = question_of(case, kind, database, tmp_path / f"{number}")
        results = []
        for at, _ in enumerate(choices_of(line) or [""], 1):
            pasted = f"{settings}\n{answer(line, at)}\n"
            folder = folder_of(case, database, tmp_path / f"{number}-{at}", pasted)
            results.append(result_of(folder, line))
            if results[-1] == RIGHT:  # an error in the ledger must also show as a break
                put(case, folder, changed([one.text for one in case.book]))
                assert result_of(folder, line) == BREAKS, pasted
        assert tuple(results) == case.results, line
        if not choices_of(line) and kind not in AS_IT_IS:
            assert results == [RIGHT], line
        for at, result in enumerate(results, 1):
            found[at].add(result)
    never = NEVER_RIGHT.get(kind, set())
    wrong = [at for at in found if at not in never and RIGHT not in found[at]]
    assert kind in AS_IT_IS or not wrong, f"no case in which these lines are right: {wrong}"


def test_every_kind_of_question_has_a_case() -> None:
    """Every question in the code has a case with a ledger that raises it."""
    assert set(kinds_of_questions().values()) == set(CASES)

"""Tests of amounts and times as text, also hostile, against Python's decimals and dates."""

import json
from datetime import UTC, datetime
from decimal import Decimal, localcontext
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.records import amounts, json_text, timestamps
from pipelines.records.json_text import MAX_DEPTH, is_too_deep
from tests.support import oracle, strategies
from tests.support.shared import tries
from warehouse.exact import exact_sum, fit_decimal, plain

MANY = settings(max_examples=tries(40, 2250), deadline=None, derandomize=True, database=None)
NO_AMOUNTS = (
    *("", " ", "1_000", " 1", "1 ", "1\n", "\n1", "NaN", "nan", "Infinity", "-inf", "sNaN", "1,5"),
    *("1,000.50", "\u0661\u0662", "\uff11\uff12", "0x10", "1e", "e5", ".", "-", "+", "-.", "--1"),
    *(
        "+-1",
        "1e201",
        "1e-201",
        "1e+201",
        "1E999999999",
        "1e1000",
        "1e-02000",
        "1e1e1",
        "1.2.3",
        "1\x00",
        "\u066b5",
        "\u00bd",
    ),
    *("9" * 1001, "0." + "0" * 1000, "1e" + "0" * 1000, "\u22121"),
)
BRACKETS = st.text('[]{}"\\a')
ODD = st.text("0123456789.-+eE _\n\x00\u0661\uff11", max_size=12)


def test_invalid_amounts_are_rejected() -> None:
    """Underscores, spaces, other scripts, NaN, huge exponents and long texts are not amounts."""
    assert [text for text in NO_AMOUNTS if amounts.parse(text) is not None] == []
    values, invalid, inexact = amounts.column(pa.array(NO_AMOUNTS))
    assert (invalid, inexact) == (list(range(len(NO_AMOUNTS))), [])
    assert values.null_count == len(NO_AMOUNTS)


def test_an_amount_has_up_to_a_thousand_characters() -> None:
    """Every digit of the longest allowed amount is kept, and a longer text is not an amount."""
    text = f"-{'9' * 500}.{'8' * 498}"
    assert len(text) == 1000
    value = amounts.parse(text)
    assert value is not None
    assert plain(value) == text
    assert amounts.parse(f"{text}8") is None


@pytest.mark.parametrize("text", ["1e0", "1e-0", "1e+000", "2e00200", "2E-0200", "0e200", "1e010"])
def test_leading_zeros_do_not_change_an_exponent(text: str) -> None:
    """Leading zeros do not change an exponent, however many there are."""
    with localcontext(prec=2000):
        assert amounts.parse(text) == Decimal(text)


@MANY
@given(st.lists(strategies.amounts() | ODD | st.none(), max_size=20))
def test_a_column_of_amounts_is_exact_or_null(several: list[str | None]) -> None:
    """Each value is the Decimal of its text or NULL, and the indices of lost texts are returned."""
    values, invalid, inexact = amounts.column(pa.array(several, pa.string()))
    expected = [
        oracle.value(text) if text is not None and oracle.is_amount(text) else None
        for text in several
    ]
    assert values.to_pylist() == expected
    lost = [n for n, text in enumerate(several) if text is not None and expected[n] is None]
    assert sorted(invalid + inexact) == lost
    assert all(oracle.is_amount(str(several[place])) for place in inexact)
    assert not any(oracle.is_amount(str(several[place])) for place in invalid)


@MANY
@given(st.lists(st.from_regex(r"\A-?[0-9]{0,25}\.?[0-9]{0,25}\Z") | st.none(), max_size=5))
def test_a_column_of_plain_digits_has_the_parsers_values(several: list[str | None]) -> None:
    """A column of plain digits has the parser's values or NULL, for any number of digits."""
    values, invalid, inexact = amounts.column(pa.array(["e", *several], pa.string()).slice(1))
    parsed = [None if text is None else amounts.parse(text) for text in several]
    assert values.to_pylist() == [None if v is None else fit_decimal(v) for v in parsed]
    assert sorted(invalid + inexact) == [
        n for n, text in enumerate(several) if text is not None and values[n].as_py() is None
    ]


@MANY
@given(strategies.amounts())
def test_a_plain_amount_keeps_every_digit(text: str) -> None:
    """A plain amount has no exponent, no needless zero and no minus zero, and keeps every digit."""
    value = amounts.parse(text)
    assert value is not None
    printed = plain(value)
    with localcontext(prec=2000):
        assert Decimal(printed) == Decimal(text)
    assert not printed.startswith(("-0", "+")) or printed.startswith("-0.")
    assert "e" not in printed.lower()
    assert printed == "0" or not printed.strip("-").startswith("00")
    assert "." not in printed or not printed.endswith(("0", "."))


@MANY
@given(st.lists(strategies.amounts(), max_size=20))
def test_a_sum_of_amounts_is_exact_in_any_order(several: list[str]) -> None:
    """In any order, the sum of amounts equals the sum of integers in the smallest unit."""
    values = [value for text in several if (value := amounts.parse(text)) is not None]
    with localcontext(prec=2000):
        units = sum(int(Decimal(text).scaleb(300)) for text in several)
        assert Decimal(units).scaleb(-300) == exact_sum(values)
    assert exact_sum(values) == exact_sum(reversed(values))


@MANY
@given(st.lists(strategies.moments(), max_size=10))
def test_times_are_read_as_utc_microseconds(several: list[str]) -> None:
    """Times are UTC microseconds, cut and never rounded. The indices of cut times are returned."""
    values, wrong, cut = timestamps.column(pa.array(several, pa.string()))
    assert values.to_pylist() == [oracle.moment(text) for text in several]
    assert wrong == []
    for place, text in enumerate(several):
        assert (place in cut) is _is_cut(text)


def _is_cut(text: str) -> bool:
    fraction = text.partition(".")[2]
    digits = fraction[: len(fraction) - len(fraction.lstrip("0123456789"))]
    return bool(digits[6:].strip("0"))


NO_TIMES = (
    *("", "now", "2024-01-01", "2024-01-01T00:00:00", "2024-01-01T24:00:00Z", "20240101T240000Z"),
    *("2024-02-30T00:00:00Z", "2024-01-01T00:00:60Z", "2024-13-01T00:00:00Z", "1700000000"),
    *("2024-01-01T00:00:00+24:00", "2024-01-01T00:00:00+05:60", "2024-01-01T00:00:00Z\n"),
    *("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2024-01-01T00:00:00.Z"),
    *("\u0662\u0660\u0662\u0664-01-01T00:00:00Z", "2024-01-01T00:00:00 Z", "2024-1-1T0:0:0Z"),
)


def test_an_invalid_time_is_null_and_its_neighbours_are_read() -> None:
    """Impossible dates, missing zones and other texts are NULL, and their neighbours are read."""
    good = "2024-05-06T07:08:09Z"
    mixed = [text for odd in NO_TIMES for text in (odd, good)]
    values, wrong, cut = timestamps.column(pa.array(mixed))
    assert wrong == list(range(0, len(mixed), 2))
    assert values.to_pylist() == [None, datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)] * len(NO_TIMES)
    assert cut == []


@pytest.mark.parametrize("text", NO_TIMES)
def test_an_invalid_time_alone_in_its_column_is_found(text: str) -> None:
    """A wrong time is found even if its column has no other value that needs exact reading."""
    assert timestamps.column(pa.array([text, None]))[1:] == ([0], [])


def test_a_cut_time_next_to_an_invalid_one_is_reported() -> None:
    """A cut time is reported even if a broken neighbour makes the column use a different reader."""
    mixed = ["2024-05-06T07:08:09.1234567Z", "2024-02-30T00:00:00Z", None]
    assert timestamps.column(pa.array(mixed))[1:] == ([1], [0])


@MANY
@given(strategies.ANYTHING.filter(lambda text: "ud800" not in text))
def test_printing_json_keeps_digits_and_repeated_keys(text: str) -> None:
    """Numbers keep their digits, repeated keys stay, and the printed text has the same value."""
    printed = json_text.text_of(json_text.read_json(text.encode()))
    plain = json.JSONDecoder(object_pairs_hook=list, parse_int=str, parse_float=str)
    assert plain.decode(printed) == plain.decode(text)
    assert json_text.text_of(json_text.read_json(printed.encode())) == printed


def test_json_of_any_accepted_depth_can_be_printed() -> None:
    """Nesting that the decoder accepts can also be printed, at any call depth of the program."""
    deep = "[" * 400 + '{"a":1}' + "]" * 400

    def called(depth: int) -> str:
        return called(depth - 1) if depth else json_text.text_of(json_text.read_json(deep.encode()))

    assert called(300) == deep


@given(st.recursive(BRACKETS, lambda inner: st.lists(inner) | st.dictionaries(BRACKETS, inner)))
def test_the_depth_of_json_ignores_brackets_in_strings(value: Any) -> None:
    """The depth of a value counts lists and objects, and ignores brackets in strings and keys."""

    def depth(part: Any) -> int:
        inner = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
        return isinstance(part, list | dict) + max(map(depth, inner), default=0)

    for more in (MAX_DEPTH - depth(value), MAX_DEPTH - depth(value) + 1):
        raw = b"[" * more + json.dumps(value).encode() + b"]" * more
        assert is_too_deep(raw) is (more + depth(value) > MAX_DEPTH)


@pytest.mark.parametrize(("one", "other"), [('{"a":[1,2],"b":3}', '{"b":3,"a":[2,1]}')])
def test_canonical_text_ignores_only_order(one: str, other: str) -> None:
    """Keys and arrays in any order print the same text, but a different digit does not."""
    first, second = (
        json_text.text_of(json_text.read_json(text.encode()), canonical=True)
        for text in (one, other)
    )
    assert first == second
    changed = json_text.text_of(
        json_text.read_json(one.replace("3", "3.0").encode()), canonical=True
    )
    assert changed != first

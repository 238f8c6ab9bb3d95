"""Tests of the names and scopes of faults, and of the messages about wrong ones."""

from datetime import date

import pytest

from pipelines.sandbox import faults
from pipelines.sandbox.faults import FAULTS
from tests.support.faults.answers import ANSWER_FAULTS, BODY_FAULTS
from tests.support.faults.catalog import DESCRIPTIONS, KINDS, parse
from tests.support.faults.records import RECORD_FAULTS
from tests.support.faults.wire import WIRE_FAULTS
from tests.support.faults.worlds import WORLD_FAULTS


def test_the_command_offers_ten_faults_which_tests_extend() -> None:
    """The command offers ten faults. Tests use the same ten, and add the rare ones."""
    assert len(FAULTS) == 10
    assert {name: KINDS[name] for name in FAULTS} == FAULTS
    with pytest.raises(ValueError, match="no fault named 'gzip-bomb'"):
        faults.parse("gzip-bomb")


def test_every_fault_has_a_name_and_a_short_description() -> None:
    """Fault names can be parsed and are unique. Each has a description of one short line."""
    kinds = (ANSWER_FAULTS, BODY_FAULTS, RECORD_FAULTS, WORLD_FAULTS, WIRE_FAULTS)
    assert len(DESCRIPTIONS) == sum(map(len, kinds)) + 6
    for name, words in DESCRIPTIONS.items():
        assert parse(name).name == name
        assert "\n" not in words
        assert 10 < len(words) < 90


def test_every_part_of_a_scope_is_parsed() -> None:
    """Every part of a scope is parsed."""
    fault = faults.parse("slow,path=/v*,venue=a b,portfolio=p,count=2,after=1,seconds=0.5")
    assert (fault.path, fault.venue, fault.portfolio) == ("/v*", "a b", "p")
    assert (fault.count, fault.after, fault.seconds) == (2, 1, 0.5)
    assert faults.parse("slow,since=2026-11-21").since == date(2026, 11, 21)


@pytest.mark.parametrize("text", ["slow,count=two", "slow,nonsense=1", "slow,", "slow,since=x"])
def test_a_wrong_scope_message_lists_the_valid_parts(text: str) -> None:
    """The message about a wrong scope lists all possible parts of a scope."""
    with pytest.raises(ValueError, match="path=, venue=, portfolio=, count=, after=, since="):
        faults.parse(text)


@pytest.mark.parametrize(("text", "meant"), [("slwo", "Did you mean 'slow'"), ("nonsense", "")])
def test_an_unknown_fault_message_suggests_a_similar_name(text: str, meant: str) -> None:
    """The message suggests a similar name, if any, and the option that lists all faults."""
    words = f"no fault named '{text}'\\. ?{meant}.*--fault list"
    with pytest.raises(ValueError, match=words):
        faults.parse(text)

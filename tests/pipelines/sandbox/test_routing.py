"""Tests of the operations' responses (4, 7), as numbered statements about the document."""

import ast
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipelines.sandbox.authentication import Caller
from pipelines.sandbox.server import application
from pipelines.sandbox.specification import DECLARED_CODES, OPERATIONS, UNDECLARED_CODES

Ask = Callable[..., Any]
UNSUPPORTED = (400, "PARAMETER_UNSUPPORTED")
INVALID = (400, "PARAMETER_VALUE_INVALID")
NOT_FOUND = (400, "RESOURCE_NOT_FOUND")
STRANGER = "00000000-0000-4000-8000-000000000001"


@pytest.fixture(scope="module")
def ids(ask: Ask) -> list[str]:
    """Return the IDs of the world's portfolios, sorted."""
    return sorted(one["id"] for one in ask("/portfolios").json["data"])


def found(reply: Any) -> list[str]:
    """Check that a list request succeeded, and return the IDs in the list, sorted."""
    assert reply.status == 200
    return sorted(one["id"] for one in reply.json["data"])


def test_001_exactly_five_get_paths_are_served(ask: Ask, ids: list[str]) -> None:
    """The five paths are served, and similar paths are not found (1, 4)."""
    real = ["/portfolios", f"/portfolios/{ids[0]}", "/venues", "/venues/kestrel"]
    for path in [*real, "/venues/kestrel/instruments"]:
        assert ask(path).status == 200
    near = ["", "/", "/portfolios/", "/venues/", "/venues/kestrel/", "/instruments", "/Venues"]
    near += [f"/portfolios/{ids[0]}/positions", "/venues/kestrel/instruments/x", "//venues"]
    for path in near:
        assert ask(path).refusal == (404, "RESOURCE_NOT_FOUND")
    assert len(OPERATIONS) == 5


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "get"])
def test_008_074_every_method_except_get_is_refused(method: str, ask: Ask) -> None:
    """Every method except GET is refused with an error envelope and an `Allow` header (1, 4)."""
    reply = ask("/portfolios", method=method)
    assert reply.refusal == (405, "METHOD_UNSUPPORTED")
    assert reply.headers["allow"] == "GET"
    assert ask("/portfolios", method=method, method_status=400).status == 400


def test_075_no_body_is_needed(ask: Ask) -> None:
    """A request without a body is accepted (4)."""
    assert ask("/portfolios", body=b"").status == 200


def test_079_080_declared_paths_return_200_400_or_401(ask: Ask, ids: list[str]) -> None:
    """Requests for declared paths get 200, or an error envelope with 400 or 401 (4, 7)."""
    paths = ["/portfolios", f"/portfolios/{ids[0]}", "/venues", "/venues/kestrel"]
    paths += ["/venues/kestrel/instruments", "/portfolios/x", "/venues/x", "/venues/x/instruments"]
    queries = ["", "include=integrations", "include=instruments", "type=spot", "id=x", "&&=", "%ff"]
    for path in paths:
        for query in queries:
            for key in ("all", "some", "none", "venues-only", "stranger"):
                reply = ask(path, query, key=key)
                assert reply.status in {200, 400, 401}
                assert ("errors" in reply.json) == (reply.status != 200)


def test_081_090_callers_see_only_their_portfolios(ask: Ask, ids: list[str], some: Any) -> None:
    """The list contains exactly the portfolios that the caller may access (4.1, 5.3)."""
    assert len(ids) > len(some) > 0
    assert found(ask("/portfolios", key="some")) == sorted(some)
    assert found(ask("/portfolios", key="none")) == []


def test_082_083_084_085_an_id_list_filters_portfolios(ask: Ask, ids: list[str], some: Any) -> None:
    """An ID list returns the known portfolios, and a single unknown ID an empty list (4.1)."""
    assert found(ask("/portfolios", f"id={ids[0]}")) == ids[:1]
    assert found(ask("/portfolios", f"id={ids[0]},{ids[1]}")) == ids[:2]
    assert found(ask("/portfolios", f"id={ids[0]}%2C{ids[1]},{ids[1]}")) == ids[:2]
    assert found(ask("/portfolios", f"id={STRANGER}")) == []
    assert found(ask("/portfolios", "id=not-a-uuid")) == []
    other = next(one for one in ids if one not in some)
    assert found(ask("/portfolios", f"id={other}", key="some")) == []
    for choice in ("drop", "empty", "refuse"):
        for alone in (STRANGER, other):
            reply = ask("/portfolios", f"id={alone}", key="some", unknown_ids=choice)
            assert found(reply) == []


def test_an_id_list_accepts_upper_case_uuids(ask: Ask, ids: list[str]) -> None:
    """A UUID in an ID list may be in upper case, as in a path, unless a choice forbids it."""
    upper = f"id={ids[0].upper()}"
    assert found(ask("/portfolios", upper)) == ids[:1]
    assert found(ask("/portfolios", upper, uuid_any_case=False)) == []
    assert found(ask("/venues", "id=KESTREL")) == []


@pytest.mark.parametrize("query", ["id=%zz", "include=%", "%zz=1", "id=a%2"])
def test_an_invalid_percent_escape_is_an_invalid_value(ask: Ask, query: str) -> None:
    """An invalid percent escape in a query is an invalid value, as in a path (7)."""
    assert ask("/portfolios", query).refusal == INVALID


def test_choices_settle_the_open_points_of_id_lists(ask: Ask, ids: list[str]) -> None:
    """Choices decide the responses to mixed, empty, long and repeated ID lists (4.1, 8)."""
    mixed = f"id={ids[0]},{STRANGER}"
    assert found(ask("/portfolios", mixed)) == ids[:1]
    assert found(ask("/portfolios", mixed, unknown_ids="empty")) == []
    assert ask("/portfolios", mixed, unknown_ids="refuse").refusal == INVALID
    assert found(ask("/portfolios", "id=")) == []
    assert found(ask("/portfolios", "id=", empty_id="all")) == ids
    assert ask("/portfolios", "id=", empty_id="refuse").refusal == INVALID
    assert ask("/portfolios", mixed, max_ids=1).refusal == INVALID
    assert ask("/portfolios", f"id={ids[0]}&id={ids[1]}").refusal == INVALID
    twice = {"first": ids[:1], "last": ids[1:2]}
    for choice, expected in twice.items():
        query = f"id={ids[0]}&id={ids[1]}"
        assert found(ask("/portfolios", query, repeated_parameter=choice)) == expected


def test_086_089_include_and_id_combine(ask: Ask, ids: list[str]) -> None:
    """With `include` and `id`, the list has only the named portfolio, with integrations (4.1)."""
    reply = ask("/portfolios", f"include=integrations&id={ids[3]}")
    assert found(reply) == [ids[3]]
    assert "integrations" in reply.json["data"][0]


@pytest.mark.parametrize(
    ("path", "query", "refusal"),
    [
        pytest.param("/portfolios", "include=venues", INVALID, id="087"),
        pytest.param("/portfolios", "include=", INVALID, id="087-empty"),
        pytest.param("/portfolios", "include=integrations,integrations", INVALID, id="087-list"),
        pytest.param("/portfolios", "limit=10", UNSUPPORTED, id="088"),
        pytest.param("/portfolios", "Include=integrations", UNSUPPORTED, id="088-case"),
        pytest.param("/portfolios/{id}", "include=instruments", INVALID, id="093"),
        pytest.param("/portfolios/{id}", "id={id}", UNSUPPORTED, id="094"),
        pytest.param("/portfolios/1234", "", INVALID, id="095"),
        pytest.param("/portfolios/{id}0", "", INVALID, id="095-long"),
        pytest.param("/portfolios/%7B{id}%7D", "", INVALID, id="095-braces"),
        pytest.param("/venues", "include=prices", INVALID, id="100"),
        pytest.param("/venues", "cursor=x", UNSUPPORTED, id="101"),
        pytest.param("/venues", "include=integrations", INVALID, id="102"),
        pytest.param("/venues/kestrel", "include=integrations", INVALID, id="105"),
        pytest.param("/venues/kestrel", "id=kestrel", UNSUPPORTED, id="106"),
        pytest.param("/venues/kestrel/instruments", "type=option", INVALID, id="111"),
        pytest.param("/venues/kestrel/instruments", "type=SPOT", INVALID, id="111-case"),
        pytest.param("/venues/kestrel/instruments", "include=x", UNSUPPORTED, id="112"),
        pytest.param("/venues/%ff", "", INVALID, id="path-not-utf-8"),
        pytest.param("/venues/%zz", "", INVALID, id="path-broken-escape"),
        pytest.param("/portfolios", "id=%ff", INVALID, id="query-not-utf-8"),
        pytest.param("/venues/stranger", "", NOT_FOUND, id="venue-unknown"),
        pytest.param("/venues/stranger/instruments", "", NOT_FOUND, id="instruments-unknown"),
        pytest.param(f"/portfolios/{STRANGER}", "", NOT_FOUND, id="portfolio-unknown"),
    ],
)
def test_wrong_parameters_are_refused(
    path: str, query: str, refusal: tuple[int, str], ask: Ask, ids: list[str]
) -> None:
    """Unsupported parameters, invalid values and unknown IDs each have an error code (7)."""
    assert ask(path.format(id=ids[0]), query.format(id=ids[0])).refusal == refusal


def test_091_092_a_path_with_an_id_returns_that_portfolio(ask: Ask, ids: list[str]) -> None:
    """An ID in the path, in lower or upper case, returns that portfolio with integrations (4.2)."""
    for path in (f"/portfolios/{ids[0]}", f"/portfolios/{ids[0].upper()}"):
        data = ask(path, "include=integrations").json["data"]
        assert data["id"] == ids[0]
        assert "integrations" in data
    upper = ids[0].upper()
    assert ask(f"/portfolios/{upper}", uuid_any_case=False).refusal == INVALID


def test_096_130_an_inaccessible_portfolio_is_refused(ask: Ask, ids: list[str], some: Any) -> None:
    """An inaccessible portfolio is refused with 400 or 401, or reported as not found (4.2, 7)."""
    path = "/portfolios/" + next(one for one in ids if one not in some)
    for status in (400, 401):
        reply = ask(path, key="some", denied_status=status)
        assert reply.refusal == (status, "ACCESS_DENIED")
    assert ask(path, key="some", inaccessible_is_missing=True).refusal == NOT_FOUND
    assert ask("/portfolios", key="venues-only").refusal == (400, "ACCESS_DENIED")
    assert ask("/venues", key="venues-only").status == 200


def test_097_098_an_id_list_filters_venues(ask: Ask) -> None:
    """The list contains all venues, or only the venues in an ID list (4.3)."""
    assert len(found(ask("/venues"))) == 12
    two = "id=kestrel,north%20sea%2Fotc+desk,stranger"
    assert found(ask("/venues", two)) == ["kestrel", "north sea/otc desk"]


def test_099_103_104_include_embeds_instruments_in_venues(ask: Ask) -> None:
    """A venue embeds its instruments only with `include`, in a list or as a single object (4.4)."""
    listed = ask("/venues", "include=instruments&id=kestrel").json["data"][0]
    alone = ask("/venues/kestrel", "include=instruments").json["data"]
    plain = ask("/venues/kestrel").json["data"]
    assert listed["instruments"]
    assert sorted(map(repr, listed["instruments"])) == sorted(map(repr, alone["instruments"]))
    assert plain == {k: v for k, v in alone.items() if k != "instruments"} | {"type": plain["type"]}


def test_107_108_109_110_two_typed_lists_form_the_complete_list(ask: Ask) -> None:
    """The spot list and the future list together are the list without a type (4.5).

    All three contain complete instruments.
    """
    both = ask("/venues/kestrel/instruments").json["data"]
    parts = {
        kind: ask("/venues/kestrel/instruments", f"type={kind}").json["data"]
        for kind in ("spot", "future")
    }
    for kind, part in parts.items():
        assert {one["type"] for one in part} == {kind}
    assert sorted(map(repr, both)) == sorted(map(repr, parts["spot"] + parts["future"]))
    assert all("feedId" in one for one in both)


def test_129_131_exactly_the_known_codes_are_used(ask: Ask, ids: list[str]) -> None:
    """The responses use the eight declared codes, the undeclared one, and no other (7).

    Some codes need a choice.
    """

    class Broken:
        def at(self, _day: Any) -> Any:
            raise RuntimeError

    broken = application(Broken(), {"all": Caller("secret-of-all")}, lambda: 1_795_000_000_000)
    with pytest.raises(RuntimeError):
        ask("/venues", app=broken)
    replies = [
        ask(f"/portfolios/{ids[0]}", key="none"),
        ask("/venues", key="stranger"),
        ask("/venues", "x=1", requests_per_second=0),
        ask("/venues", method="POST"),
        ask("/venues", "include=x", invalid_value_code="PARAMETER_INVALID"),
        ask("/venues", "x=1"),
        ask("/venues/x", missing_status=404),
        ask("/venues", timestamp=1),
        ask("/venues", "include=x"),
    ]
    codes = sorted(reply.refusal[1] for reply in replies)
    assert codes == sorted(DECLARED_CODES + UNDECLARED_CODES)


def test_a_choice_reports_one_error_per_wrong_parameter(ask: Ask) -> None:
    """With the choice `all_errors`, a response has one error for each wrong parameter (7)."""
    errors = ask("/venues", "x=1&include=2&y=3", all_errors=True).json["errors"]
    assert [one["error"] for one in errors] == [UNSUPPORTED[1], UNSUPPORTED[1], INVALID[1]]
    assert len(ask("/venues", "x=1&include=2&y=3").json["errors"]) == 1


def test_every_statement_has_a_test() -> None:
    """Each of the 132 numbered statements about the document is checked in these test modules."""
    numbers: set[int] = set()
    for path in Path(__file__).parent.glob("test_*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
        names = [node.name for node in nodes if isinstance(node, ast.FunctionDef)]
        values = [node.value for node in nodes if isinstance(node, ast.Constant)]
        names += [text for text in values if isinstance(text, str)]
        numbers |= {int(three) for name in names for three in re.findall(r"_(\d{3})(?=_)", name)}
        numbers |= {int(name[:3]) for name in names if re.match(r"\d{3}(-|$)", name)}
        tables = [node.value for node in nodes if isinstance(node, ast.AnnAssign)]
        keys = [key for table in tables if isinstance(table, ast.Dict) for key in table.keys]
        found = [key.value for key in keys if isinstance(key, ast.Constant)]
        numbers |= {key for key in found if isinstance(key, int)}
    assert set(range(1, 133)) - numbers == set()

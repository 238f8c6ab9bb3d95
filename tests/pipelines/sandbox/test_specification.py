"""Tests of the sandbox's OpenAPI description: all responses match it."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime
from typing import Any
from urllib.parse import quote, urlencode
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.sandbox.authentication import Caller
from pipelines.sandbox.options import Choices
from pipelines.sandbox.server import application
from pipelines.sandbox.specification import OPERATIONS, RESOURCES
from pipelines.sandbox.world.world import LivingWorld
from tests.support.openapi import description
from tests.support.shared import tries

NOW = 1_795_000_000_000
FULL = LivingWorld().at(date(2026, 11, 21))
# Exclude the two largest portfolios, so that many responses can be read in a short time.
WORLD = replace(FULL, portfolios=FULL.portfolios[2:])
KEYS = {"all": Caller("secret-of-all"), "none": Caller("secret-of-none", frozenset())}
Ask = Callable[..., Any]


def app(**choices: Any) -> Any:
    """Return an application with these choices, which serves the smaller world."""
    return application(WORLD, KEYS, lambda: NOW, Choices(**choices))


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """Return the OpenAPI description of a sandbox without choices."""
    return description(Choices())


def faults(value: Any, schema: dict[str, Any], document: dict[str, Any], where: str) -> list[str]:
    """Return the differences between a value and its schema.

    This supports only the parts of JSON Schema that the description uses.
    """
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/components/schemas/")
        return faults(value, document["components"]["schemas"][name], document, where)
    if "anyOf" in schema:
        found = [faults(value, one, document, where) for one in schema["anyOf"]]
        return [] if [] in found else found[0]
    kinds = {"string": str, "boolean": bool, "object": dict, "array": list, "null": type(None)}
    if type(value) is not kinds[schema["type"]]:
        return [f"{where}: {value!r} is no {schema['type']}"]
    if type(value) is list:
        items = enumerate(value)
        return [
            f for at, one in items for f in faults(one, schema["items"], document, f"{where}[{at}]")
        ]
    if type(value) is dict:
        return faults_of_object(value, schema, document, where)
    return [] if right_text(value, schema) else [f"{where}: {value!r}"]


def faults_of_object(
    value: dict[str, Any], schema: dict[str, Any], document: dict[str, Any], where: str
) -> list[str]:
    """Return the missing, undescribed and wrong fields of an object."""
    fields = schema.get("properties", {})
    found = [f"{where} lacks {name}" for name in schema.get("required", []) if name not in value]
    for name, one in value.items():
        if name in fields:
            found += faults(one, fields[name], document, f"{where}.{name}")
        elif schema.get("additionalProperties") is False:
            found.append(f"{where}.{name} is not described")
    return found


def right_text(text: Any, schema: dict[str, Any]) -> bool:
    """Return True if a string or a Boolean matches its schema's enum, pattern and format."""
    if "enum" in schema and text not in schema["enum"]:
        return False
    if "pattern" in schema and not re.search(schema["pattern"], text):
        return False
    if schema.get("format") == "uuid":
        return bool(str(UUID(text)) == text)
    if schema.get("format") == "date-time":
        return datetime.fromisoformat(text).tzinfo is not None
    return True


def test_the_description_contains_every_declaration(document: dict[str, Any]) -> None:
    """The description has all five paths, and all resources, fields and parameters.

    All its references resolve.
    """
    assert len(document["paths"]) == len(OPERATIONS) == 5
    for name, fields in RESOURCES.items():
        schema = document["components"]["schemas"][name]
        assert list(schema["properties"]) == [field.name for field in fields]
    for operation in OPERATIONS:
        described = document["paths"]["/edge/v1beta/" + "/".join(operation.path)]["get"]
        names = {one["name"] for one in described["parameters"] if one["in"] == "query"}
        assert names == set(operation.parameters)
        assert sorted(described["responses"]) == ["200", "400", "401"]
    references = re.findall(r'"#/components/schemas/(\w+)"', json.dumps(document))
    assert set(references) <= set(document["components"]["schemas"])


def test_the_description_follows_the_choices() -> None:
    """The description of a server contains the statuses, gateway and nulls that were chosen."""
    document = description(
        Choices(missing_status=404, gateway="/gate", optional_as_null=True, requests_per_second=9)
    )
    described = document["paths"]["/gate/edge/v1beta/venues/{id}"]["get"]
    assert sorted(described["responses"]) == ["200", "400", "401", "404", "429"]
    balance = document["components"]["schemas"]["Balance"]["properties"]["margin"]
    assert {"type": "null"} in balance["anyOf"]


def test_the_checker_finds_wrong_fields_and_values(document: dict[str, Any]) -> None:
    """The checker finds unknown and missing fields and wrong values, so these tests can fail."""
    schema = {"$ref": "#/components/schemas/Integration"}
    good = {"id": str(UUID(int=1)), "venueId": "v", "integrationStatus": "verified"}
    assert faults(good, schema, document, "i") == []
    for bad in ({**good, "more": 1}, {**good, "venueId": 7}, {**good, "integrationStatus": "x"}):
        assert len(faults(bad, schema, document, "i")) == 1
    assert len(faults({"id": good["id"]}, schema, document, "i")) == 2


IDS = [one["id"] for one in (*WORLD.portfolios[:3], *WORLD.venues[:6], *FULL.portfolios[:1])]
SOME_TEXT = st.one_of(
    st.sampled_from([*IDS, "integrations", "instruments", "spot", "future", "", ","]),
    st.text(max_size=12),
    st.uuids().map(str),
)
NAMES = st.one_of(st.sampled_from(["id", "include", "type"]), st.text(max_size=6))


REQUESTS = st.fixed_dictionaries(
    {
        "operation": st.sampled_from(OPERATIONS),
        "id": SOME_TEXT.filter(bool),
        "parameters": st.lists(st.tuples(NAMES, SOME_TEXT), max_size=3),
        "key": st.sampled_from(["all", "all", "all", "none", "stranger"]),
        "skew": st.sampled_from([0, 0, 0, 0, 31_000, -31_000]),
    }
)


@settings(max_examples=tries(60, 3750), deadline=None)
@given(asked=REQUESTS)
def test_every_response_matches_the_description(
    asked: dict[str, Any], ask: Ask, document: dict[str, Any]
) -> None:
    """For any ID, parameters, caller and clock, the response has a described status and schema."""
    template = "/" + "/".join(asked["operation"].path)
    path = template.replace("{id}", quote(asked["id"], safe=""))
    query = urlencode(asked["parameters"])
    reply = ask(path, query, app=app(), key=asked["key"], timestamp=NOW + asked["skew"])
    described = document["paths"]["/edge/v1beta" + template]["get"]["responses"]
    content = described[str(reply.status)]["content"][reply.headers["content-type"]]
    assert faults(reply.json, content["schema"], document, "body") == []

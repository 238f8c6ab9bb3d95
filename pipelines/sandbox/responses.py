"""What of the world answers a query: access, filters, expansions, order and form (4, 5.3)."""

import random
import re
from collections.abc import Iterable, Mapping
from typing import Any

from pipelines.sandbox.authentication import Caller
from pipelines.sandbox.errors import RefusalError, shorten
from pipelines.sandbox.options import Choices
from pipelines.sandbox.routing import Query
from pipelines.sandbox.specification import RESOURCES
from pipelines.sandbox.world.world import Record, World

_FRACTION_AND_ZONE = re.compile(r"(?:\.(\d+))?(Z|[+-]\d\d:\d\d)$")


def read(query: Query, world: World, caller: Caller, choices: Choices) -> list[Record]:
    """Return the records that answer a query; one operation on one object gives one record.

    Raises RefusalError where access is refused or a path id names nothing.
    """
    _check_scope(query, caller, choices)
    if query.operation.resource == "Portfolio":
        return _portfolios(query, world, caller, choices)
    if query.operation.resource == "Venue":
        return _venues(query, world, choices)
    _one(query, list(world.venues), "venue", choices)
    listed = (world.instruments or {}).get(query.path_id or "", ())
    wanted = query.parameters.get("type")
    return [record for record in listed if wanted in {None, record["type"]}]


def _check_scope(query: Query, caller: Caller, choices: Choices) -> None:
    if caller.resources is not None and query.operation.path[0] not in caller.resources:
        message = f"The API key has no access to {query.operation.path[0]}."
        raise RefusalError(choices.denied_status, ("ACCESS_DENIED", message))


def _portfolios(query: Query, world: World, caller: Caller, choices: Choices) -> list[Record]:
    own = [
        record
        for record in world.portfolios
        if caller.portfolios is None or record["id"] in caller.portfolios
    ]
    if query.path_id is not None:
        exists = any(record["id"] == query.path_id for record in world.portfolios)
        accessible = any(record["id"] == query.path_id for record in own)
        if exists and not accessible and not choices.inaccessible_is_missing:
            message = "Access to the portfolio is refused."
            raise RefusalError(choices.denied_status, ("ACCESS_DENIED", message))
        found = _one(query, own, "portfolio", choices)
    else:
        found = _filter_by_id(query, own, choices)
    if query.has_include or choices.integrations_without_include:
        return found
    return [{k: v for k, v in record.items() if k != "integrations"} for record in found]


def _venues(query: Query, world: World, choices: Choices) -> list[Record]:
    venues = list(world.venues)
    if query.path_id is not None:
        found = _one(query, venues, "venue", choices)
    else:
        found = _filter_by_id(query, venues, choices)
    if not (query.has_include or choices.instruments_without_include):
        return found
    short = [field.name for field in RESOURCES["VenueInstrument"]]
    return [
        {
            **record,
            "instruments": [
                {name: instrument[name] for name in short}
                for instrument in (world.instruments or {}).get(record["id"], ())
            ],
        }
        for record in found
    ]


def _one(query: Query, records: list[Record], what: str, choices: Choices) -> list[Record]:
    found = [record for record in records if record["id"] == query.path_id]
    if not found:
        message = f"No {what} has the id {shorten(query.path_id or '')}."
        raise RefusalError(choices.missing_status, (choices.missing_code, message))
    return found[:1]


def _filter_by_id(query: Query, records: list[Record], choices: Choices) -> list[Record]:
    """Return the records that an `id` list names; no list names them all (4.1, rules 1 and 2)."""
    ids = query.ids
    if ids is None or (ids == [""] and choices.empty_id == "all"):
        return records
    if ids == [""] and choices.empty_id == "refuse":
        raise RefusalError(400, (choices.invalid_value_code, "The list 'id' is empty."))
    is_portfolio = query.operation.resource == "Portfolio"
    if is_portfolio and choices.uuid_any_case:
        ids = [wanted.lower() for wanted in ids]
    known = {record["id"] for record in records}
    strangers = [wanted for wanted in ids if wanted not in known]
    if strangers and is_portfolio and len(ids) == 1:
        return []  # shown: rule 2 of 4.1 leaves no choice
    if strangers and choices.unknown_ids == "refuse":
        message = f"The list 'id' holds {shorten(strangers[0])}, which is not accessible."
        raise RefusalError(400, (choices.invalid_value_code, message))
    if strangers and choices.unknown_ids == "empty":
        return []
    return [record for record in records if record["id"] in set(ids)]


def shuffle_lists(value: Any, choices: Choices, rng: random.Random) -> Any:
    """Return the same JSON with every list in another order, so that nobody leans on it (4.6)."""
    if isinstance(value, dict):
        return {name: shuffle_lists(item, choices, rng) for name, item in value.items()}
    if not isinstance(value, list):
        return value
    items = [shuffle_lists(item, choices, rng) for item in value]
    if choices.order == "shuffled":
        rng.shuffle(items)
    else:
        items.sort(key=repr, reverse=choices.order == "reversed")
    return items


def apply_forms(records: Iterable[Record], resource: str, choices: Choices) -> list[Record]:
    """Write nulls, amounts and date-times in the form that the choices ask for (2)."""
    if not choices.optional_as_null and choices.amounts == choices.datetimes == "as-made":
        return list(records)
    return [_apply_form(record, resource, choices) for record in records]


def _apply_form(record: Mapping[str, Any], resource: str, choices: Choices) -> Record:
    made: Record = dict(record)
    for field in RESOURCES[resource]:
        if field.name not in made:
            if choices.optional_as_null and not field.required:
                made[field.name] = None
        elif field.kind in RESOURCES and field.many:
            made[field.name] = [_apply_form(item, field.kind, choices) for item in made[field.name]]
        elif field.kind in RESOURCES:
            made[field.name] = _apply_form(made[field.name], field.kind, choices)
        elif field.kind == "amount":
            made[field.name] = _formed_amount(made[field.name], choices)
        elif field.kind == "date-time":
            made[field.name] = _formed_instant(made[field.name], choices)
    return made


def _formed_amount(text: str, choices: Choices) -> str:
    whole, _, fraction = text.partition(".")
    if choices.amounts == "padded":
        return f"{whole}.{fraction.ljust(18, '0')}"
    if choices.amounts == "exponent":
        return f"{whole}{fraction}e-{len(fraction)}"
    return text


def _formed_instant(text: str, choices: Choices) -> str:
    found = _FRACTION_AND_ZONE.search(text)
    if found is None or choices.datetimes == "as-made":
        return text
    fraction, zone = found.group(1) or "", found.group(2)
    if choices.datetimes == "offset":
        zone = zone.replace("Z", "+00:00")
    else:
        fraction = fraction.ljust(9, "0")
    return text[: found.start()] + (f".{fraction}" if fraction else "") + zone

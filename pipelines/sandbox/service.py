"""The steps from a request to its response, without any network access.

Checks run in this order: prefix, authentication, path, method, parameters, resource.
"""

import random
from collections import deque
from dataclasses import dataclass, field, replace

from pipelines.sandbox.authentication import Caller, SignedParts, authenticate
from pipelines.sandbox.faults import (
    Fault,
    FaultCounter,
    Scene,
    change_records,
    change_response,
    change_scene,
    change_world,
)
from pipelines.sandbox.options import Choices
from pipelines.sandbox.routing import (
    Query,
    apply_forms,
    check_method,
    find,
    read,
    shuffle_lists,
    understand,
)
from pipelines.sandbox.specification import (
    PREFIX,
    RefusalError,
    SandboxResponse,
    encode,
    error_response,
)

_SECOND = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """The state of the sandbox: all data that responses depend on, except for the request."""

    scene: Scene
    rng: random.Random
    choices: Choices
    faults: FaultCounter
    due: tuple[Fault, ...] = ()  # the faults that affect this request
    recent: deque[int] = field(default_factory=deque)  # timestamps of recent requests


def apply_faults(service: Service, path: bytes) -> Service:
    """Count a request, and return a service with the faults that apply to this request."""
    base = (service.choices.gateway + PREFIX).encode()
    below = path.removeprefix(base).decode("latin-1")
    due = service.faults.due(below, service.scene.today())
    return replace(service, due=due, scene=change_scene(due, replace(service.scene, path=below)))


def answer(service: Service, request: SignedParts, query: bytes) -> SandboxResponse:
    """Return the response to a request, which is an error envelope if the request is refused."""
    try:
        response = SandboxResponse(200, _respond(service, request, query))
    except RefusalError as refusal:
        response = error_response(refusal, service.choices.meta)
    return change_response(service.due, response, service.scene)


def server_error(choices: Choices) -> SandboxResponse:
    """Return the response for an internal error, without any details (§7)."""
    message = "The server failed. Nothing is wrong with the request."
    refusal = RefusalError(choices.server_error_status, ("INTERNAL_SERVER_ERROR", message))
    return error_response(refusal, choices.meta)


def _respond(service: Service, request: SignedParts, query: bytes) -> bytes:
    choices = service.choices
    base = choices.gateway + PREFIX
    if not request.path.startswith(f"{base}/".encode()):
        find(request.path, choices)
    scene = service.scene
    caller = authenticate(_signed_part(request, choices), scene.keys, scene.clock(), choices)
    _check_rate(service)
    operation, raw_id = find(request.path, choices)
    check_method(request.method, choices)
    return _envelope(service, understand(operation, raw_id, query, choices), caller)


def _envelope(service: Service, query: Query, caller: Caller) -> bytes:
    choices, resource, scene = service.choices, query.operation.resource, service.scene
    world = change_world(service.due, scene.world.at(scene.today()))
    records = apply_forms(read(query, world, caller, choices), resource, choices)
    data = shuffle_lists(change_records(service.due, records, resource), choices, service.rng)
    meta = dict(choices.meta)
    if not query.operation.many:
        return encode({"data": data[0], "meta": meta})
    if choices.page_size is not None and len(data) > choices.page_size:
        meta["next"] = str(choices.page_size)
        data = data[: choices.page_size]
    return encode({"data": data, "meta": meta})


def _signed_part(request: SignedParts, choices: Choices) -> SignedParts:
    """Return the request with its signed path, usually without the gateway prefix (§5.2)."""
    if choices.gateway_is_signed or not choices.gateway:
        return request
    return replace(request, path=request.path.removeprefix(choices.gateway.encode()))


def _check_rate(service: Service) -> None:
    """Raise RefusalError if too many requests arrived in the last second (§8)."""
    limit, recent = service.choices.requests_per_second, service.recent
    if limit is None:
        return
    now = service.scene.clock()
    # Forget requests that arrived at least 1,000 ms ago.
    while recent and now - recent[0] >= _SECOND:
        recent.popleft()
    if len(recent) >= limit:
        error = (service.choices.rate_limit_code, f"More than {limit} requests within a second.")
        raise RefusalError(429, error, headers={"Retry-After": "1"})
    recent.append(now)

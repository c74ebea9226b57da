"""The responses of the OpenAPI document: the envelope, and an example for every reason."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from tollway.contract.reasons import SUCCESS, Cause, Reason
from tollway.contract.sample_refusal import SAMPLE_BASE, sample_data

Json = dict[str, Any]

_AT_S = 1_767_225_600
_HEADERS = {
    "X-Request-Id": "Names this call; quote it to support.",
    "RateLimit-Policy": "The limit: calls (q) in a window of seconds (w).",
    "RateLimit": "What is left of it (r), and for how many seconds (t).",
    "Retry-After": "After too many requests: how many seconds to wait.",
    "X-Tollway-Reason": "After any code but 0: the name of the reason, such as CALLS_USED_UP.",
    "X-Replay-Of": "The request whose answer this is: nothing was charged again.",
    "X-Ignored-Parameters": "Parameters of the request that are not known, if it had any.",
    "X-Client-Request-Id": "The X-Request-Id of the request, if it had a well-formed one.",
}
HEADERS: Json = {
    name: {"description": meaning, "schema": {"type": "string"}}
    for name, meaning in _HEADERS.items()
}
# Shared, so that a generated client has one type for each and not one more for every operation. No
# type of an answer can be called so: the dash is in no name of Python.
DATA_OF_REFUSALS: Json = {
    "Not-Authorized": {
        "title": "Not-Authorized",
        "type": "object",
        "description": "With code 302: where the owner can approve.",
        "properties": {
            "authorize_url": {
                "type": "string",
                "description": "The link: the owner opens it, signs in, and approves or declines.",
            },
            "expires_at": {
                "type": "integer",
                "description": "Until when the link can be opened, in seconds since 1970.",
            },
        },
        "required": ["authorize_url", "expires_at"],
    },
    "No-Data": {
        "title": "No-Data",
        "type": "object",
        "maxProperties": 0,
        "description": "After a refusal.",
    },
}
_LINK, _NOTHING = ({"$ref": f"#/components/schemas/{name}"} for name in DATA_OF_REFUSALS)


def headers_of(*names: str) -> Json:
    """Headers of a response, by reference; all of them if none is named."""
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names or _HEADERS}


class Success(NamedTuple):
    """One kind of data that a success can have: its example's name, its schema, its example."""

    name: str
    schema: Json
    example: msgspec.Struct | None


def responses_of(
    successes: Sequence[Success], messages: Mapping[Reason, str], mapped: bool
) -> dict[str, Json]:
    """One response per HTTP status."""
    responses: dict[str, Json] = {}
    for each in successes:
        data = msgspec.to_builtins(each.example) if each.example is not None else None
        _add(responses, "200", SUCCESS, each.schema)
        if data is not None:
            _show(responses["200"], each.name, SUCCESS, SUCCESS.message.en, data)
    for reason, message in messages.items():
        cause = reason.value
        status = str(cause.status) if mapped else "200"
        data = sample_data(reason, SAMPLE_BASE, _AT_S)
        _add(responses, status, cause, _LINK if data else _NOTHING)
        _show(responses[status], reason.name, cause, message, data)
    return responses


def _add(responses: dict[str, Json], status: str, cause: Cause, data: Json) -> None:
    """Adds this kind of data to the response of a status."""
    text = "Every answer with the envelope." if status == "200" else f"Code {cause.code}."
    response = responses.setdefault(status, _response(text))
    schema = response["content"]["application/json"]["schema"]
    kinds = schema["properties"]["data"]["anyOf"]
    if data not in kinds:
        kinds.append(data)
        # Generated clients take the first kind that fits; some take any object for an empty one.
        kinds.sort(key=_NOTHING.__eq__)


def _show(response: Json, name: str, cause: Cause, msg: str, data: object) -> None:
    envelope = {"code": cause.code, "msg": msg, "msec": 1, "time": _AT_S, "data": data}
    example = {"summary": f"Code {cause.code}", "value": envelope}
    response["content"]["application/json"]["examples"][name] = example


def _response(description: str) -> Json:
    envelope = {
        "type": "object",
        "required": ["code", "msg", "msec", "time", "data"],
        "properties": {
            "code": {"type": "integer", "description": "0 means success."},
            "msg": {"type": "string", "description": "What happened, and what to do."},
            "msec": {"type": "integer", "description": "Milliseconds the call took."},
            "time": {"type": "integer", "description": "Seconds timestamp of the answer."},
            "data": {"anyOf": []},
        },
    }
    content: Json = {"application/json": {"schema": envelope, "examples": {}}}
    return {"description": description, "headers": headers_of(), "content": content}

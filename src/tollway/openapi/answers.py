"""What the OpenAPI document says of answers: the envelope, and an example for every reason."""

from collections.abc import Mapping, Sequence
from typing import Any

from tollway.contract.decoding import DeclaredField
from tollway.contract.operation import Operation
from tollway.contract.reasons import SUCCESS, Cause, Reason, Refusal

Json = dict[str, Any]

_HEADERS = {
    "X-Request-Id": "Names this call; quote it to support.",
    "RateLimit-Policy": "The limit: calls (q) in a window of seconds (w).",
    "RateLimit": "What is left of it (r), and for how many seconds (t).",
    "Retry-After": "After a 202: how many seconds to wait.",
    "X-Replay-Of": "The request whose answer this is: nothing was charged again.",
}


def responses_of(payload_type: type, messages: Mapping[Reason, str], mapped: bool) -> Json:
    """One response per HTTP status, with an example for every reason."""
    payload = {"$ref": f"#/components/schemas/{payload_type.__name__}"}
    responses: dict[str, Json] = {"200": _response("Every answer with the envelope.", payload)}
    responses["200"]["content"]["application/json"]["examples"] = {
        "SUCCESS": _example(SUCCESS, SUCCESS.message.en)
    }
    for reason, message in messages.items():
        cause = reason.value
        status = str(cause.status) if mapped else "200"
        response = responses.setdefault(status, _response(f"Code {cause.code}.", payload))
        media = response["content"]["application/json"]
        media.setdefault("examples", {})[reason.name] = _example(cause, message)
    return responses


def _response(description: str, payload: Json) -> Json:
    envelope = {
        "type": "object",
        "required": ["code", "msg", "msec", "time", "data"],
        "properties": {
            "code": {"type": "integer", "description": "0 means success."},
            "msg": {"type": "string"},
            "msec": {"type": "integer", "description": "Milliseconds the call took."},
            "time": {"type": "integer", "description": "Seconds timestamp of the answer."},
            "data": {"anyOf": [payload, {"type": "object"}]},
        },
    }
    headers = {
        name: {"description": meaning, "schema": {"type": "string"}}
        for name, meaning in _HEADERS.items()
    }
    content: Json = {"application/json": {"schema": envelope}}
    return {"description": description, "headers": headers, "content": content}


def _example(cause: Cause, msg: str) -> Json:
    envelope = {"code": cause.code, "msg": msg, "msec": 1, "time": 1_767_225_600, "data": {}}
    return {"summary": f"Code {cause.code}", "value": envelope}


def message_of(reason: Reason, operation: Operation, fields: Sequence[DeclaredField]) -> str:
    """What the message of a reason looks like for this operation."""
    first = fields[0]
    doubled = next((each for each in fields if each.field.other_spelling), first)
    samples: Json = {
        "field": doubled.name,
        "other": doubled.field.other_spelling,
        "expected": doubled.field.kind.expected,
        "problem": "it is empty",
        "part": "request",
        "limit": 10,
        "limit_s": 10,
        "left": 0,
        "cost": 1,
        "today": "2026-01-01",
        "allowed": operation.method,
        "fields": first.name,
        "owner": "shop",
        "start": "startTime",
        "end": "endTime",
        "span_s": 700_000,
    }
    return Refusal(reason, **samples).message("en")

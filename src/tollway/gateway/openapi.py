"""The OpenAPI document, made from the descriptors of the operations.

It describes every operation with its parameters, its answers and an example for every reason, the
requests for a receipt and for a token, and the webhooks.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from tollway import __version__
from tollway.contract.answer_fields import answer_fields
from tollway.contract.decoding import DeclaredField, declared_fields
from tollway.contract.language import in_english
from tollway.contract.operation import Encoding, Operation
from tollway.contract.reasons import Refusal
from tollway.contract.receipt import RECEIPT_REASONS, RECEIPTS_PATH, Receipt
from tollway.contract.sample_refusal import sample_refusal
from tollway.gateway.oauth import GRANT_TYPE, TOKEN_PATH, TokenAnswer, TokenRefusal
from tollway.gateway.openapi_responses import (
    DATA_OF_REFUSALS,
    HEADERS,
    Json,
    Success,
    headers_of,
    responses_of,
)
from tollway.operations.account_api import ACCOUNT_OPERATIONS
from tollway.operations.account_api.examples import ALL_EXAMPLES, RECEIPT_EXAMPLE
from tollway.operations.account_api.operation import AccountOperation
from tollway.operations.demo_data import EXAMPLE_DAY
from tollway.operations.examples import Example
from tollway.pipeline.dry_run import SLOW_PATTERN, DryRunAnswer
from tollway.webhooks.events import EVENT_TYPES, EventType, event_example

# Generated clients have a part for each, and pages a heading.
_TAGS = {
    "Operations": "What an account pays for.",
    "More calls": "Further calls on the same data, permitted and paid as their operation.",
    "Account": "Your own account; free of charge, for live tokens.",
    "Tokens": "Tokens that clients obtain.",
    "Webhooks": "What the gateway sends you.",
}
_SLOW = f"^{SLOW_PATTERN}$"
_FORM_TYPES = ("multipart/form-data", "application/x-www-form-urlencoded")


def _header(name: str, description: str, schema: Json) -> Json:
    return {
        "name": name,
        "in": "header",
        "required": False,
        "description": description,
        "schema": schema,
    }


_HEADER_PARAMETERS = (
    _header(
        "Idempotency-Key",
        "The same request with the same key is answered once more, free of charge, for 24 hours; "
        "another request with it is refused.",
        {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[ -~]+$"},
    ),
    _header(
        "X-Tollway-Dry-Run",
        "1: answer what the call would cost and whether it would be allowed now. Nothing is done "
        "or charged.",
        {"type": "string", "enum": ["1"]},
    ),
)


def _outcome_header(operation: Operation) -> Json:
    return _header(
        "X-Tollway-Outcome",
        "With a test token: the outcome that the call is to have, such as the reason that it is to "
        "be refused for, by its name, or slow:MILLISECONDS. With a live token it is refused.",
        {"type": "string", "anyOf": [{"enum": [*operation.outcomes]}, {"pattern": _SLOW}]},
    )


def describe_operation(operation: Operation, payload: Json, dry_run: Json, mapped: bool) -> Json:
    fields = declared_fields(operation.request_type)
    example = ALL_EXAMPLES.get(operation.name)
    is_free = isinstance(operation, AccountOperation)
    headers = [] if is_free else [*_HEADER_PARAMETERS, _outcome_header(operation)]
    described: Json = {
        "operationId": operation.name,
        "tags": [_tag_of(operation)],
        "summary": in_english(operation.title),
        **({"description": in_english(operation.note)} if operation.note else {}),
        "parameters": headers,
        "responses": responses_of(
            _successes(operation, example, payload, dry_run),
            {each: sample_refusal(each, operation).message("en") for each in operation.reasons},
            mapped,
        ),
    }
    if operation.encoding is Encoding.QUERY:
        described["parameters"] = [
            {"name": name, "in": "query", "required": required, "schema": schema}
            | _example_of(example, name, schema)
            for name, required, schema in _spellings(fields)
        ] + headers
    else:
        kinds = _FORM_TYPES if operation.encoding is Encoding.FORM else ("application/json",)
        media: Json = {"schema": parameters_schema(operation)}
        if example is not None:
            media["example"] = _as_described(example.request(EXAMPLE_DAY), media["schema"])
        content = dict.fromkeys(kinds, media)
        described["requestBody"] = {"required": True, "content": content}
    if operation.is_file:
        _describe_file(described["responses"], payload)
    return described


def _tag_of(operation: Operation) -> str:
    if isinstance(operation, AccountOperation):
        return "Account"
    return "More calls" if operation.belongs_to else "Operations"


def _successes(
    operation: Operation, example: Example | None, payload: Json, dry_run: Json
) -> list[Success]:
    found = []
    if not operation.is_file:
        found.append(Success("SUCCESS", payload, None if example is None else example.answer))
    if not isinstance(operation, AccountOperation):
        cost = DryRunAnswer(True, operation.default_price, operation.balance_unit, 1000)
        found.append(Success("DRY_RUN", dry_run, cost))
    return found


def _describe_file(responses: Json, line: Json) -> None:
    file = {"schema": {"type": "string", "format": "binary"}}
    response = responses.setdefault("200", {"description": "", "content": {}})
    response["description"] = "A file of gzip JSON Lines, or an envelope."
    response["content"]["application/gzip"] = {**file, "x-line-schema": line}


def _example_of(example: Example | None, name: str, schema: Json) -> Json:
    request = {} if example is None else example.request(EXAMPLE_DAY)
    return {"example": _typed(request[name], schema)} if name in request else {}


def _as_described(request: Mapping[str, Any], schema: Json) -> Json:
    return {name: _typed(value, schema["properties"][name]) for name, value in request.items()}


def _typed(value: Any, schema: Json) -> Any:
    """A value of an example in the type of its schema: in a form, a number is a text."""
    if schema.get("type") == "integer" and isinstance(value, str):
        return int(value)
    if schema.get("type") == "array" and schema["items"].get("type") == "object":
        return [_as_described(each, schema["items"]) for each in value]
    return value


def parameters_schema(operation: Operation) -> Json:
    """All parameters of an operation as one object."""
    spelled = _spellings(declared_fields(operation.request_type))
    return {
        "type": "object",
        "properties": {name: schema for name, _, schema in spelled},
        "required": [name for name, required, _ in spelled if required],
    }


def describe_receipt(payload: Json, mapped: bool) -> Json:
    messages = {
        each: Refusal(each, limit=10, allowed="GET").message("en") for each in RECEIPT_REASONS
    }
    return {
        "operationId": "receipt",
        "tags": ["Account"],
        "summary": "Receipt of one of your own calls; free of charge",
        "parameters": [
            {
                "name": "request_id",
                "in": "path",
                "required": True,
                "description": "The X-Request-Id of the call's answer.",
                "schema": {"type": "string"},
                "example": RECEIPT_EXAMPLE.request_id,
            }
        ],
        "responses": responses_of([Success("SUCCESS", payload, RECEIPT_EXAMPLE)], messages, mapped),
    }


def describe_token(answer: Json) -> Json:
    """Plain OAuth: no envelope, and a status of its own for every error."""
    texts = {name: {"type": "string"} for name in ("client_id", "client_secret")}
    form = {
        "type": "object",
        "properties": {"grant_type": {"type": "string", "const": GRANT_TYPE}, **texts},
        "required": ["grant_type"],
    }
    sent = {
        "schema": form,
        "example": {
            "grant_type": GRANT_TYPE,
            "client_id": "cli_8n3q6t9w2z5c",
            "client_secret": "…",
        },
    }
    fields = {name: {"type": "string"} for name in ("error", "error_description")}
    error = {"type": "object", "properties": fields, "required": ["error"]}
    issued = msgspec.to_builtins(TokenAnswer("tw_live_4k7m…", "Bearer", 3600))
    media: Json = {"schema": answer, "example": issued}
    responses = {"200": _token_response("A token.", media)}
    for reason in TokenRefusal:
        fault = reason.value
        response = _token_response("No token.", {"schema": error, "examples": {}})
        described = responses.setdefault(str(fault.status), response)
        described["content"]["application/json"]["examples"][reason.name] = {
            "value": {"error": fault.error, "error_description": fault.sentence}
        }
    responses["429"]["headers"] = headers_of("X-Request-Id", "Retry-After")
    return {
        "operationId": "token",
        "tags": ["Tokens"],
        "summary": "A token for a client; free of charge",
        # The id and secret as HTTP Basic, or in the form.
        "security": [{"client_secret": []}, {}],
        "requestBody": {"required": True, "content": dict.fromkeys(_FORM_TYPES, sent)},
        "responses": responses,
    }


def _token_response(description: str, media: Json) -> Json:
    content = {"application/json": media}
    return {"description": description, "headers": headers_of("X-Request-Id"), "content": content}


_WEBHOOK_HEADERS = {
    "webhook-id": "Id of the event: it is the same each time the event is sent.",
    "webhook-timestamp": "When this was sent, in seconds since 1970.",
    "webhook-signature": "v1, and the signature in base64; two of them after a new secret.",
}


def describe_webhooks() -> Json:
    """By the type of the event: each as it is sent, with its headers."""
    return {name: {"post": _describe_webhook(name, kind)} for name, kind in EVENT_TYPES.items()}


def _describe_webhook(name: str, kind: EventType) -> Json:
    data = {
        field: _value_schema(value, field in kind.nullable) for field, value in kind.example.items()
    }
    body = {
        "type": {"type": "string", "const": name},
        "timestamp": {"type": "string", "format": "date-time"},
        "data": {"type": "object", "properties": data, "required": [*data]},
    }
    schema = {"type": "object", "properties": body, "required": [*body]}
    return {
        "operationId": f"on_{name.replace('.', '_')}",
        "tags": ["Webhooks"],
        "summary": f"When {kind.reports}",
        # What is sent is signed, with the secret of the webhook.
        "security": [],
        "parameters": [
            {
                "name": header,
                "in": "header",
                "required": True,
                "description": meaning,
                "schema": {"type": "string"},
            }
            for header, meaning in _WEBHOOK_HEADERS.items()
        ],
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": schema, "example": event_example(name)}},
        },
        "responses": {"2XX": {"description": "Taken. With any other status it is sent again."}},
    }


def _value_schema(value: object, is_nullable: bool) -> Json:
    kind = "integer" if isinstance(value, int) else "string"
    return {"type": [kind, "null"] if is_nullable else kind}


def _spellings(fields: Sequence[DeclaredField]) -> list[tuple[str, bool, Json]]:
    """Every name of a field; if it has two, neither is required by itself. A name in the other case
    is only mentioned: otherwise a generated client would have every field twice."""
    spelled = []
    for name, field, required, others in fields:
        cased = [each for each in others if each != field.other_spelling]
        also = f" Also taken as {' and '.join(cased)}." if cased else ""
        schema = {**field.kind.schema(), "description": f"{in_english(field.meaning)}{also}"}
        other = field.other_spelling
        spelled.append((name, required and other is None, schema))
        if other is not None:
            note = f"Another spelling of {name}; send one of the two."
            spelled.append((other, False, {**schema, "description": note}))
    return spelled


def openapi(operations: Sequence[Operation], base_url: str, *, mapped: bool) -> Json:
    """The whole document."""
    described = [*operations, *ACCOUNT_OPERATIONS]
    types: list[type[msgspec.Struct]] = [each.response_type for each in described]
    types += [Receipt, TokenAnswer, DryRunAnswer]
    # Types that share a name get longer names here, so use the references as returned.
    references, components = msgspec.json.schema_components(
        types, ref_template="#/components/schemas/{name}"
    )
    *payloads, receipt, token, dry_run = references
    _describe_fields(components, types)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Tollway",
            "version": __version__,
            "description": "Every answer is the same JSON envelope; `code` 0 means success, and "
            "only success is charged.",
        },
        "servers": [{"url": base_url}],
        "security": [{"token": []}, {"client": []}],
        "tags": [{"name": name, "description": about} for name, about in _TAGS.items()],
        "paths": {
            each.path: {each.method.lower(): describe_operation(each, payload, dry_run, mapped)}
            for each, payload in zip(described, payloads, strict=True)
        }
        | {
            f"{RECEIPTS_PATH}{{request_id}}": {"get": describe_receipt(receipt, mapped)},
            TOKEN_PATH: {"post": describe_token(token)},
        },
        "webhooks": describe_webhooks(),
        "components": {
            "schemas": {**components, **DATA_OF_REFUSALS},
            "headers": HEADERS,
            "securitySchemes": _security_schemes(base_url),
        },
    }


def _describe_fields(components: dict[str, Json], types: Iterable[type[msgspec.Struct]]) -> None:
    """Puts the meaning of each field into the schema of its type."""
    left, seen = list(types), set[type[msgspec.Struct]]()
    while left:
        kind = left.pop()
        if kind in seen:
            continue
        seen.add(kind)
        fields = {each.name: each for each in answer_fields(kind)}
        left += [each.inner for each in fields.values() if each.inner is not None]
        for component in components.values():
            properties = component.get("properties", {})
            # A title is the bare name of a type, which a type of an installed package can share.
            if component.get("title") != kind.__name__ or properties.keys() != fields.keys():
                continue
            for name, field in fields.items():
                if field.meaning is not None:
                    properties[name]["description"] = field.meaning.en


def _security_schemes(base_url: str) -> Json:
    flow = {"tokenUrl": f"{base_url}{TOKEN_PATH}", "scopes": {}}
    return {
        "token": {"type": "http", "scheme": "bearer"},
        "client": {"type": "oauth2", "flows": {"clientCredentials": flow}},
        "client_secret": {"type": "http", "scheme": "basic"},
    }

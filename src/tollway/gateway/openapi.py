"""The OpenAPI document, made from the descriptors of the operations.

It describes every operation with its parameters, its answers and an example for every reason, and
the requests for a receipt and for a token.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tollway import __version__
from tollway.account.endpoints import ACCOUNT_OPERATIONS
from tollway.account.operation import AccountOperation
from tollway.contract.decoding import DeclaredField, declared_fields
from tollway.contract.operation import Encoding, Operation
from tollway.contract.reasons import SUCCESS, Cause, Reason, Refusal
from tollway.contract.receipt import RECEIPT_REASONS, RECEIPTS_PATH, Receipt
from tollway.contract.sample_refusal import sample_refusal
from tollway.gateway.token_request import GRANT_TYPE, TOKEN_PATH, TokenAnswer, Unobtained
from tollway.operations.examples import EXAMPLE_DAY, EXAMPLES, Example

Json = dict[str, Any]

_HEADERS = {
    "X-Request-Id": "Names this call; quote it to support.",
    "RateLimit-Policy": "The limit: calls (q) in a window of seconds (w).",
    "RateLimit": "What is left of it (r), and for how many seconds (t).",
    "Retry-After": "After a 202: how many seconds to wait.",
    "X-Tollway-Reason": "After any code but 0: the name of the reason, such as CALLS_USED_UP.",
    "X-Replay-Of": "The request whose answer this is: nothing was charged again.",
    "X-Ignored-Parameters": "Parameters of the request that are not known, if it had any.",
    "X-Client-Request-Id": "The X-Request-Id of the request, if it had a well-formed one.",
}


def responses_of(payload: Json, messages: Mapping[Reason, str], mapped: bool) -> Json:
    """One response per HTTP status, with an example for every reason."""
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


_FORM_TYPES = ("multipart/form-data", "application/x-www-form-urlencoded")
_DRY_RUN_PARAMETER = {
    "name": "X-Tollway-Dry-Run",
    "in": "header",
    "required": False,
    "description": "1: answer what the call would cost and whether it would be allowed now. "
    "Nothing is done or charged.",
    "schema": {"const": "1"},
}
_OUTCOME_PARAMETER = {
    "name": "X-Tollway-Outcome",
    "in": "header",
    "required": False,
    "description": "With a test token: the reason that the call is to be refused for, by its name, "
    "or slow:MILLISECONDS. With a live token it is refused.",
    "schema": {"type": "string"},
}
_KEY_PARAMETER = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "The same request with the same key is answered once more for nothing, for 24 "
    "hours; another request with it is refused.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[ -~]+$"},
}


_HEADER_PARAMETERS = (_KEY_PARAMETER, _DRY_RUN_PARAMETER, _OUTCOME_PARAMETER)


def describe_operation(operation: Operation, payload: Json, mapped: bool) -> Json:
    fields = declared_fields(operation.request_type)
    example = EXAMPLES.get(operation.name)
    headers = [] if isinstance(operation, AccountOperation) else [*_HEADER_PARAMETERS]
    described: Json = {
        "operationId": operation.name,
        "summary": operation.title,
        **({"description": operation.note} if operation.note else {}),
        "parameters": headers,
        "responses": responses_of(
            payload,
            {each: sample_refusal(each, operation).message("en") for each in operation.reasons},
            mapped,
        ),
    }
    if operation.encoding is Encoding.QUERY:
        described["parameters"] = [
            {"name": name, "in": "query", "required": required, "schema": schema}
            | _example_of(example, name)
            for name, required, schema in _spellings(fields)
        ] + headers
    else:
        kinds = _FORM_TYPES if operation.encoding is Encoding.FORM else ("application/json",)
        media: Json = {"schema": parameters_schema(operation)}
        if example is not None:
            media["example"] = dict(example.request(EXAMPLE_DAY))
        content = dict.fromkeys(kinds, media)
        described["requestBody"] = {"required": True, "content": content}
    if operation.is_file:
        file = {"schema": {"type": "string", "format": "binary"}}
        described["responses"]["200"]["content"]["application/gzip"] = file
    if example is not None:
        examples = described["responses"]["200"]["content"]["application/json"]["examples"]
        examples["SUCCESS"]["value"]["data"] = msgspec.to_builtins(example.answer)
    return described


def _example_of(example: Example | None, name: str) -> Json:
    request = {} if example is None else example.request(EXAMPLE_DAY)
    return {"example": request[name]} if name in request else {}


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
        "summary": "Receipt of one of your own calls; free of charge",
        "parameters": [
            {
                "name": "request_id",
                "in": "path",
                "required": True,
                "description": "The X-Request-Id of the call's answer.",
                "schema": {"type": "string"},
            }
        ],
        "responses": responses_of(payload, messages, mapped),
    }


def describe_token(answer: Json) -> Json:
    """Plain OAuth: no envelope, and a status of its own for every error."""
    texts = {name: {"type": "string"} for name in ("client_id", "client_secret")}
    form = {
        "type": "object",
        "properties": {"grant_type": {"const": GRANT_TYPE}, **texts},
        "required": ["grant_type"],
    }
    fields = {name: {"type": "string"} for name in ("error", "error_description")}
    error = {"type": "object", "properties": fields, "required": ["error"]}
    responses: dict[str, Json] = {
        "200": {"description": "A token.", "content": {"application/json": {"schema": answer}}}
    }
    for reason in Unobtained:
        fault = reason.value
        media: Json = {"schema": error, "examples": {}}
        response = {"description": "No token.", "content": {"application/json": media}}
        described = responses.setdefault(str(fault.status), response)
        described["content"]["application/json"]["examples"][reason.name] = {
            "value": {"error": fault.error, "error_description": fault.sentence}
        }
    return {
        "operationId": "token",
        "summary": "A token for a client; free of charge",
        # The id and secret as HTTP Basic, or in the form.
        "security": [{"client_secret": []}, {}],
        "requestBody": {"required": True, "content": {k: {"schema": form} for k in _FORM_TYPES}},
        "responses": responses,
    }


def _spellings(fields: Sequence[DeclaredField]) -> list[tuple[str, bool, Json]]:
    """Every name of a field; where there are two, neither alone is required. A name in the other
    case is mentioned only, or a client made from this would have every field twice."""
    spelled = []
    for name, field, required, others in fields:
        cased = [each for each in others if each != field.other_spelling]
        also = f" Also taken as {' and '.join(cased)}." if cased else ""
        schema = {**field.kind.schema(), "description": f"{field.meaning}{also}"}
        other = field.other_spelling
        spelled.append((name, required and other is None, schema))
        if other is not None:
            note = f"Another spelling of {name}; send one of the two."
            spelled.append((other, False, {**schema, "description": note}))
    return spelled


def openapi(operations: Sequence[Operation], base_url: str, *, mapped: bool) -> Json:
    """The whole document."""
    described = [*operations, *ACCOUNT_OPERATIONS]
    types = [*(operation.response_type for operation in described), Receipt, TokenAnswer]
    # Types of one name get longer names here, so each is referred to as it was named.
    references, components = msgspec.json.schema_components(
        types, ref_template="#/components/schemas/{name}"
    )
    *payloads, receipt, token = references
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
        "paths": {
            each.path: {each.method.lower(): describe_operation(each, payload, mapped)}
            for each, payload in zip(described, payloads, strict=True)
        }
        | {
            f"{RECEIPTS_PATH}{{request_id}}": {"get": describe_receipt(receipt, mapped)},
            TOKEN_PATH: {"post": describe_token(token)},
        },
        "components": {
            "schemas": components,
            "securitySchemes": _security_schemes(base_url),
        },
    }


def _security_schemes(base_url: str) -> Json:
    flow = {"tokenUrl": f"{base_url}{TOKEN_PATH}", "scopes": {}}
    return {
        "token": {"type": "http", "scheme": "bearer"},
        "client": {"type": "oauth2", "flows": {"clientCredentials": flow}},
        "client_secret": {"type": "http", "scheme": "basic"},
    }

"""What the OpenAPI document says of each path: its parameters or body, and its answers."""

from collections.abc import Sequence

from tollway.contract.decoding import DeclaredField, declared_fields
from tollway.contract.oauth import GRANT_TYPE, TokenAnswer, Unobtained
from tollway.contract.operation import Encoding, Operation
from tollway.contract.reasons import Refusal
from tollway.contract.receipt import RECEIPT_REASONS, Receipt
from tollway.openapi.answers import Json, message_of, responses_of

_FORM_TYPES = ("multipart/form-data", "application/x-www-form-urlencoded")
_KEY_PARAMETER = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "The same request with the same key is answered once more for nothing, for 24 "
    "hours; another request with it is refused.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[ -~]+$"},
}


def describe_operation(operation: Operation, mapped: bool) -> Json:
    fields = declared_fields(operation.request_type)
    described: Json = {
        "operationId": operation.name,
        "summary": operation.title,
        "parameters": [_KEY_PARAMETER],
        "responses": responses_of(
            operation.response_type,
            {each: message_of(each, operation, fields) for each in operation.reasons},
            mapped,
        ),
    }
    if operation.encoding is Encoding.QUERY:
        described["parameters"] = [
            {"name": name, "in": "query", "required": required, "schema": schema}
            for name, required, schema in _spellings(fields)
        ] + [_KEY_PARAMETER]
    else:
        kinds = _FORM_TYPES if operation.encoding is Encoding.FORM else ("application/json",)
        schema = {
            "type": "object",
            "properties": {name: schema for name, _, schema in _spellings(fields)},
            "required": [name for name, required, _ in _spellings(fields) if required],
        }
        content = {kind: {"schema": schema} for kind in kinds}
        described["requestBody"] = {"required": True, "content": content}
    return described


def describe_receipt(mapped: bool) -> Json:
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
        "responses": responses_of(Receipt, messages, mapped),
    }


def describe_token() -> Json:
    """Plain OAuth: no envelope, and a status of its own for every error."""
    texts = {name: {"type": "string"} for name in ("client_id", "client_secret")}
    form = {
        "type": "object",
        "properties": {"grant_type": {"const": GRANT_TYPE}, **texts},
        "required": ["grant_type"],
    }
    answer = {"$ref": f"#/components/schemas/{TokenAnswer.__name__}"}
    told = {name: {"type": "string"} for name in ("error", "error_description")}
    error = {"type": "object", "properties": told, "required": ["error"]}
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
    """Every name a field goes by; where there are two, neither alone is required."""
    spelled = []
    for name, field, required in fields:
        schema = {**field.kind.schema(), "description": field.meaning}
        other = field.other_spelling
        spelled.append((name, required and other is None, schema))
        if other is not None:
            note = f"Another spelling of {name}; send one of the two."
            spelled.append((other, False, {**schema, "description": note}))
    return spelled

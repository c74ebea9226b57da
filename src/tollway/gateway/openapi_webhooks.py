"""The webhooks of the OpenAPI document: every event as it is sent, with its headers."""

from tollway.gateway.openapi_responses import Json
from tollway.webhooks.events import EVENT_TYPES, EventType, event_example

_HEADERS = {
    "webhook-id": "Id of the event: it is the same each time the event is sent.",
    "webhook-timestamp": "When this was sent, in seconds since 1970.",
    "webhook-signature": "v1, and the signature in base64; two of them after a new secret.",
}


def describe_webhooks() -> Json:
    """By the type of the event."""
    return {name: {"post": _describe(name, kind)} for name, kind in EVENT_TYPES.items()}


def _describe(name: str, kind: EventType) -> Json:
    data = {field: _schema(value, field in kind.nullable) for field, value in kind.example.items()}
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
            for header, meaning in _HEADERS.items()
        ],
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": schema, "example": event_example(name)}},
        },
        "responses": {"2XX": {"description": "Taken. With any other status it is sent again."}},
    }


def _schema(value: object, is_nullable: bool) -> Json:
    kind = "integer" if isinstance(value, int) else "string"
    return {"type": [kind, "null"] if is_nullable else kind}

"""Calls that the gateway makes to itself, for an agent or a page, as if they had come in by HTTP.

They pass through the same edge and pipeline, with the same limits, price and receipt.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from tollway.contract.operation import Encoding, Operation
from tollway.pipeline.bodies import Message, Scope
from tollway.pipeline.http import Edge

Headers = Sequence[tuple[bytes, bytes]]


async def own_call(
    edge: Edge,
    operation: Operation,
    values: Mapping[str, Any],
    headers: Headers,
    client: tuple[str, int],
) -> tuple[dict[str, Any], dict[bytes, bytes]]:
    """The envelope of the answer, and its headers."""
    sent = {name: value for name, value in values.items() if value is not None}
    query, body, added = b"", b"", [*headers]
    if operation.encoding is Encoding.QUERY:
        query = urlencode({name: _as_text(value) for name, value in sent.items()}).encode()
    else:
        # Every operation with a body also reads JSON.
        body = json.dumps(sent).encode()
        added += [(b"content-type", b"application/json")]
        added += [(b"content-length", str(len(body)).encode())]
    answered, answer = dict[bytes, bytes](), bytearray()

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        answered.update(message.get("headers", ()))
        answer.extend(message.get("body", b""))

    await edge(_scope(operation, query, added, client), receive, send)
    return json.loads(answer), answered


def _scope(operation: Operation, query: bytes, headers: Headers, client: tuple[str, int]) -> Scope:
    return {
        "type": "http",
        # A version that needs no Host header.
        "http_version": "1",
        "method": operation.method,
        "raw_path": operation.path.encode(),
        "query_string": query,
        "headers": headers,
        "client": client,
    }


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)

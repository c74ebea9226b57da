"""Signed pushes, as a source sends them."""

import time

import httpx

from tests.support.gateway import Gateway
from tollway.intake.sources import ALL, SourceScope
from tollway.webhooks.signature import key_of, sign

SOURCE = "market"
EVERYONE = SourceScope((ALL,), (ALL,))


def push(
    gateway: Gateway,
    secret: str,
    body: bytes,
    *,
    source: str = SOURCE,
    message_id: str = "msg_1",
    late_s: int = 0,
    signature: str | None = None,
    kind: str = "orders",
    query: str = "",
    client: httpx.Client | None = None,
) -> httpx.Response:
    timestamp = str(int(time.time()) - late_s)
    signed = sign(key_of(secret), message_id, timestamp, body)
    headers = {
        "webhook-source": source,
        "webhook-id": message_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": signed if signature is None else signature,
    }
    return (client or gateway.client).post(f"/push/{kind}{query}", content=body, headers=headers)

"""Checks that a webhook is from the gateway, by the rules of Standard Webhooks.

event = verify(request_body, request_headers, ["whsec_…"])
"""

import hmac
import json
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from time import time
from typing import Any, Optional, Union

from tollway_client.errors import SignatureError

_SECRET_START = "whsec_"  # noqa: S105 - what every secret begins with


@dataclass(frozen=True)
class Event:
    """A webhook. One that is delivered twice has the same id both times."""

    id: str
    type: str
    timestamp: str
    data: Any


def verify(
    body: bytes,
    headers: Mapping[str, str],
    secrets: Union[str, Sequence[str]],
    *,
    tolerance_s: int = 300,
    now_s: Optional[float] = None,
) -> Event:
    """The event of a webhook; raises SignatureError if it is not one of the gateway.

    Give the body exactly as it arrived, and both secrets while one replaces the other.
    """
    if isinstance(body, str):
        raise TypeError("Give the body as the bytes that arrived: decoded, it may be another.")
    sent = {name.lower(): value for name, value in headers.items()}
    message_id, moment = sent.get("webhook-id", ""), sent.get("webhook-timestamp", "")
    if not message_id or not (moment.isascii() and moment.isdigit() and len(moment) < 16):
        raise SignatureError("The headers webhook-id and webhook-timestamp are missing or invalid.")
    if abs((time() if now_s is None else now_s) - int(moment)) > tolerance_s:
        raise SignatureError("The webhook is too old, or the clock of this machine is wrong.")
    # Some servers decode bytes that are no text to surrogates.
    signed = f"{message_id}.{moment}.".encode("utf-8", "surrogatepass") + body
    given = sent.get("webhook-signature", "").encode("utf-8", "surrogatepass").split()
    for secret in [secrets] if isinstance(secrets, str) else secrets:
        expected = b"v1," + b64encode(hmac.new(_key(secret), signed, sha256).digest())
        if any(hmac.compare_digest(expected, each) for each in given):
            return _event(message_id, body)
    raise SignatureError("No signature of the webhook fits the secret.")


def _key(secret: str) -> bytes:
    if not secret.startswith(_SECRET_START):
        raise ValueError(f"A secret is {_SECRET_START} and base64.")
    try:
        return b64decode(secret[len(_SECRET_START) :], validate=True)
    except Base64Error:
        raise ValueError(f"A secret is {_SECRET_START} and base64.") from None


def _event(message_id: str, body: bytes) -> Event:
    content = json.loads(body)
    return Event(
        message_id, content.get("type", ""), content.get("timestamp", ""), content.get("data")
    )

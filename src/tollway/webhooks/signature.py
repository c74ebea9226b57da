"""Secrets and signatures by the Standard Webhooks rules, for events to callers and for pushes to
the gateway."""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from tollway.store.sealing import Sealer

TOLERANCE_S = 300
_SECRET_PREFIX = "whsec_"  # noqa: S105 - the prefix of every secret, and no secret itself
_SECRET_BYTES = 32
_VERSION = "v1,"
_ID_MAX = 256
# The newest secret and the previous one.
ACTIVE_SECRETS = 2


class SignatureError(Exception):
    """The push is not signed correctly. The cause is withheld on purpose."""


class Claimed(NamedTuple):
    """What the headers of a push say."""

    message_id: str
    timestamp: str
    signatures: Sequence[str]


def new_secret() -> str:
    return _SECRET_PREFIX + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()


def key_of(secret: str) -> bytes:
    return base64.b64decode(secret.removeprefix(_SECRET_PREFIX))


def sealed_secrets(sealer: Sealer, context: bytes, active: Sequence[str]) -> bytes:
    return sealer.seal(msgspec.json.encode(active), context)


def opened_secrets(sealer: Sealer, context: bytes, sealed: bytes) -> list[str]:
    """The newest first."""
    return msgspec.json.decode(sealer.open(sealed, context), type=list[str])


def read_claim(message_id: str, timestamp: str, signature: str, now_s: float) -> Claimed:
    """What the headers say. Refuses a stale timestamp, or headers without a signature of our
    version, before the body is read."""
    if not 0 < len(message_id) <= _ID_MAX:
        raise SignatureError
    if not timestamp.isascii() or not timestamp.isdigit() or len(timestamp) > 12:
        raise SignatureError
    if abs(now_s - int(timestamp)) > TOLERANCE_S:
        raise SignatureError
    # A sender that is rotating its secret may send several signatures.
    sent = [each for each in signature.split(" ")[:8] if each.startswith(_VERSION)]
    if not sent:
        raise SignatureError
    return Claimed(message_id, timestamp, sent)


def signing_key(claimed: Claimed, keys: Sequence[bytes], body: bytes) -> bytes:
    """The key that signed the body; SignatureError if none did."""
    for key in keys:
        expected = sign(key, claimed.message_id, claimed.timestamp, body).encode()
        for signature in claimed.signatures:
            if hmac.compare_digest(expected, signature.encode()):
                return key
    raise SignatureError


def sign(key: bytes, message_id: str, timestamp: str, body: bytes) -> str:
    # Not joined first: other threads would wait while megabytes are copied.
    mac = hmac.new(key, f"{message_id}.{timestamp}.".encode(), hashlib.sha256)
    mac.update(body)
    return _VERSION + base64.b64encode(mac.digest()).decode()

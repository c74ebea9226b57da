"""The signature of a push, as Standard Webhooks describes it."""

import base64
import hashlib
import hmac
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from tollway.intake.loading import Loader

TOLERANCE_S = 300
_VERSION = "v1,"
_ID_MAX = 256


class SignatureError(Exception):
    """The push is not signed as it must be. The cause is not given."""


class Claimed(NamedTuple):
    """What the headers of a push say."""

    message_id: str
    timestamp: str
    signatures: Sequence[str]


def read_claim(message_id: str, timestamp: str, signature: str, now_s: float) -> Claimed:
    """What the headers say; refused before the body is read if it is not from just now, or has no
    signature that could be good."""
    if not 0 < len(message_id) <= _ID_MAX:
        raise SignatureError
    if not timestamp.isascii() or not timestamp.isdigit() or len(timestamp) > 12:
        raise SignatureError
    if abs(now_s - int(timestamp)) > TOLERANCE_S:
        raise SignatureError
    # Several signatures may be sent, for a sender that is changing its secret.
    sent = [each for each in signature.split(" ")[:8] if each.startswith(_VERSION)]
    if not sent:
        raise SignatureError
    return Claimed(message_id, timestamp, sent)


def signing_key(claimed: Claimed, keys: Sequence[bytes], body: bytes) -> bytes:
    """The key that the body was signed with."""
    for key in keys:
        expected = sign(key, claimed.message_id, claimed.timestamp, body).encode()
        for signature in claimed.signatures:
            if hmac.compare_digest(expected, signature.encode()):
                return key
    raise SignatureError


def sign(key: bytes, message_id: str, timestamp: str, body: bytes) -> str:
    signed = f"{message_id}.{timestamp}.".encode() + body
    return _VERSION + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()


_decoder = msgspec.json.Decoder()
_raw_items = msgspec.json.Decoder(list[msgspec.Raw])
_raw_item = msgspec.json.Decoder(msgspec.Raw)
_NOT_OBJECT = "the record is not a JSON object"
# Those that are wrong are kept, so there must be an end to them: a body may have a million.
_WRONG_MAX = 1000


class MalformedError(Exception):
    """Nothing of the body is taken; the text says why to the sender."""


class Pushed(NamedTuple):
    """What a body came to: records to store, and those that are wrong, with their reasons."""

    good: list[Any]
    wrong: list[tuple[bytes, str]]


def read_push(loader: Loader, body: bytes) -> Pushed:
    good: list[Any] = []
    wrong: list[tuple[bytes, str]] = []
    for record in _records(body):
        try:
            values = _decoder.decode(record)
            if isinstance(values, dict):
                good.append(loader.check(values))
            else:
                wrong.append((record, _NOT_OBJECT))
        except (msgspec.ValidationError, ValueError) as error:
            wrong.append((record, _reason(error)))
        except RecursionError:
            wrong.append((record, _NOT_OBJECT))
        if len(wrong) > _WRONG_MAX:
            raise MalformedError(
                f"Over {_WRONG_MAX} records are wrong, so nothing was stored: mend them, or send "
                f"fewer at once. Of the first one: {wrong[0][1]}"
            )
    if not good and all(reason == _NOT_OBJECT for _, reason in wrong):
        raise MalformedError("Send a JSON object, an array of objects, or one object per line.")
    return Pushed(good, wrong)


def _records(body: bytes) -> Iterator[bytes]:
    if body.lstrip()[:1] == b"[":
        try:
            return iter([bytes(item) for item in _raw_items.decode(body)])
        except (msgspec.MsgspecError, RecursionError):
            raise MalformedError("The body is not a whole JSON array.") from None
    try:
        return iter([bytes(_raw_item.decode(body))])
    except (msgspec.MsgspecError, RecursionError):
        return (line for line in body.splitlines() if line.strip())


def _reason(error: Exception) -> str:
    # What is not JSON at all gets our own words: the decoder names the byte at which it gave up.
    if type(error) is msgspec.DecodeError or isinstance(error, UnicodeDecodeError):
        return _NOT_OBJECT
    return str(error)

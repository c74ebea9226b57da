"""The signature of a push, as Standard Webhooks describes it."""

import base64
import codecs
import hashlib
import hmac
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from tollway.intake.json_records import ArrayError, is_one_value, items_of
from tollway.intake.loading import Loader
from tollway.intake.record_problems import read_object

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
    is_any_object = False
    for record in _whole(_records(body)):
        try:
            values = read_object(record)
            is_any_object = True
            good.append(loader.check(values))
        except ValueError as error:
            wrong.append((record, str(error)))
        if len(wrong) > _WRONG_MAX:
            raise MalformedError(
                f"Over {_WRONG_MAX} records are wrong, so nothing was stored: mend them, or send "
                f"fewer at once. Of the first one: {wrong[0][1]}"
            )
    if not is_any_object:
        raise MalformedError("Send a JSON object, an array of objects, or one object per line.")
    return Pushed(good, wrong)


def _whole(records: Iterable[bytes]) -> Iterator[bytes]:
    try:
        yield from records
    except ArrayError:
        raise MalformedError("The body is not a whole JSON array.") from None


def _records(body: bytes) -> Iterable[bytes]:
    body = body.removeprefix(codecs.BOM_UTF8)
    if body.lstrip()[:1] == b"[":
        return items_of(body)
    if is_one_value(body):
        return [body]
    return (line for line in body.splitlines() if line.strip())

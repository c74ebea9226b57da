"""The JSON envelope around every answer: the five fields of the specification, in its order."""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import msgspec

NO_DATA = b"{}"
# Quotes inside a JSON string are escaped with a backslash, so no text of a record matches.
_TAKEN = re.compile(rb'("withholding_money"\s*:\s*)[0-9]+')

_encoder = msgspec.json.Encoder()


def encode_envelope(code: int, msg: bytes, msec: int, time_s: int, data: bytes) -> bytes:
    """The envelope around a message and a payload that are already encoded.

    Put together by hand, because the payload may be large and may come from a cache.
    """
    return b"".join((_before_data(code, msg, msec, time_s), data, b"}"))


# Calls that arrive together mostly share this part.
@lru_cache(maxsize=128)
def _before_data(code: int, msg: bytes, msec: int, time_s: int) -> bytes:
    return b'{"code":%d,"msg":%b,"msec":%d,"time":%d,"data":' % (code, msg, msec, time_s)


def encode_data(data: object) -> bytes:
    """Encodes a message or a payload for the envelope."""
    return _encoder.encode(data)


def encoded_list(items: Iterable[bytes]) -> Any:
    """A list for a payload, of items that are already encoded."""
    return msgspec.Raw(b"[%b]" % b",".join(items))


# A placeholder for a list in a payload. JSON never contains this byte.
LIST_TO_COME: Any = msgspec.Raw(b"\0")


def encode_around(data: object, *items: bytes) -> bytes:
    """A payload with its one LIST_TO_COME filled in. The items are already encoded and joined, in
    any number of pieces; each is copied only once."""
    head, _, tail = _encoder.encode(data).partition(b"\0")
    return b"".join((head, b"[", *items, b"]", tail))


# A placeholder for an integer in the parts of a payload.
NUMBER_TO_COME: Any = msgspec.Raw(b"%d")


def parts_around(data: object) -> tuple[bytes, bytes]:
    """What comes before and after the items of a payload's one LIST_TO_COME, as templates for its
    NUMBER_TO_COME. The payload must not have texts, which could contain a `%`."""
    head, _, tail = _encoder.encode(data).partition(b"\0")
    return head + b"[", b"]" + tail


def template_around(data: object) -> bytes:
    """A payload with several LIST_TO_COME, as a template: `template % lists` fills in the encoded
    lists in their order."""
    return _encoder.encode(data).replace(b"%", b"%%").replace(b"\0", b"%b")


def as_repetition(data: bytes) -> bytes:
    """A payload as its idempotent replay has it: the replay charges nothing."""
    return _TAKEN.sub(rb"\g<1>0", data)

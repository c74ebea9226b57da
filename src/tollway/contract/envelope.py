"""The JSON envelope around every answer: the five fields of the specification, in its order."""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import msgspec

NO_DATA = b"{}"
# Within a JSON string a quote follows a backslash, so no text of a record matches.
_TAKEN = re.compile(rb'("withholding_money"\s*:\s*)[0-9]+')

_encoder = msgspec.json.Encoder()


def encode_envelope(code: int, msg: bytes, msec: int, time_s: int, data: bytes) -> bytes:
    """The envelope around a message and a payload that are encoded already.

    Put together by hand, because the payload may be large and may come from a cache.
    """
    return b"".join((_before_data(code, msg, msec, time_s), data, b"}"))


# Of calls that came together, most have the same.
@lru_cache(maxsize=128)
def _before_data(code: int, msg: bytes, msec: int, time_s: int) -> bytes:
    return b'{"code":%d,"msg":%b,"msec":%d,"time":%d,"data":' % (code, msg, msec, time_s)


def encode_data(data: object) -> bytes:
    """A message or a payload as it will stand in the envelope."""
    return _encoder.encode(data)


def encoded_list(items: Iterable[bytes]) -> Any:
    """A list for a payload, of items that are encoded already."""
    return msgspec.Raw(b"[%b]" % b",".join(items))


# Stands for a list of a payload until its items are put in. JSON never has this byte.
LIST_TO_COME: Any = msgspec.Raw(b"\0")


def encode_around(data: object, *items: bytes) -> bytes:
    """A payload with one LIST_TO_COME, and its items, encoded and joined already: in whatever
    pieces, they are copied once."""
    head, _, tail = _encoder.encode(data).partition(b"\0")
    return b"".join((head, b"[", *items, b"]", tail))


# Stands for a whole number in the parts of a payload.
NUMBER_TO_COME: Any = msgspec.Raw(b"%d")


def parts_around(data: object) -> tuple[bytes, bytes]:
    """What comes before and after the items of a payload's one LIST_TO_COME, as templates of its
    numbers to come. Such a payload has no text."""
    head, _, tail = _encoder.encode(data).partition(b"\0")
    return head + b"[", b"]" + tail


def template_around(data: object) -> bytes:
    """A payload with several LIST_TO_COME, as a template: `template % lists` puts them in, in the
    order in which they stand there, each an encoded list."""
    return _encoder.encode(data).replace(b"%", b"%%").replace(b"\0", b"%b")


def as_repetition(data: bytes) -> bytes:
    """A payload that was sent before, as its repetition has it: that takes nothing."""
    return _TAKEN.sub(rb"\g<1>0", data)

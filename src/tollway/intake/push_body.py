"""The records in the body of a push: one object, an array of objects, or one object per line."""

import codecs
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import nsmallest
from typing import Any, NamedTuple

from tollway.intake.json_records import ArrayError, is_one_value, items_of
from tollway.intake.loading import Loader
from tollway.intake.record_problems import read_object

# Rejected records are kept, and a body may have a million of them.
_REJECTED_MAX = 1000
# How many problems the answer shows; the operator sees them all.
_PROBLEMS_SHOWN = 10
_PIECE_BYTES = 65_536
_line = re.compile(rb"\S[^\r\n]*")


Values = Mapping[str, object]


class MalformedError(Exception):
    """The body is refused as a whole; the text says why."""


class Good(NamedTuple):
    """A record that can be stored: its position in the body, its text, and the row."""

    number: int
    text: bytes
    row: Any


class Rejected(NamedTuple):
    """A record that is set aside, and why."""

    number: int
    text: bytes
    reason: str


class Pushed(NamedTuple):
    """The records of a body: those to store, and the rejected ones."""

    good: list[Good]
    rejected: list[Rejected]

    @property
    def problems(self) -> list[dict[str, int | str]]:
        """Tells the sender where in the body the first rejected ones are."""
        first = nsmallest(_PROBLEMS_SHOWN, self.rejected)
        return [{"record": each.number, "reason": each.reason} for each in first]


def read_push(
    loader: Loader, body: bytes, received_s: int, check_scope: Callable[[Values], None]
) -> Pushed:
    good: list[Good] = []
    rejected: list[Rejected] = []
    is_any_object = False
    for number, record in enumerate(_whole(_records(body)), start=1):
        try:
            values = read_object(record)
            is_any_object = True
            checked = loader.check(values, received_s)
            check_scope(values)
            good.append(Good(number, record, checked))
        except ValueError as error:
            rejected.append(Rejected(number, record, str(error)))
        if len(rejected) > _REJECTED_MAX:
            raise MalformedError(
                f"Over {_REJECTED_MAX} records are wrong, so nothing was stored: correct them, or "
                f"send fewer at once. Of the first one: {rejected[0].reason}"
            )
    if not is_any_object:
        raise MalformedError("Send a JSON object, an array of objects, or one object per line.")
    return Pushed(good, rejected)


def _whole(records: Iterable[bytes]) -> Iterator[bytes]:
    try:
        yield from records
    except ArrayError:
        raise MalformedError(
            "The body is not a whole JSON array, or a record of it is too large."
        ) from None


def _records(body: bytes) -> Iterable[bytes]:
    body = body.removeprefix(codecs.BOM_UTF8)
    if body.lstrip()[:1] == b"[":
        return items_of(body)
    if is_one_value(body):
        return [body]
    return _lines(body)


def _lines(body: bytes) -> Iterator[bytes]:
    """The lines that are not blank, cut piece by piece: a body can have millions of them, and no
    other thread runs while they are cut, so all calls would wait."""
    start, size = 0, _PIECE_BYTES
    while start < len(body):
        piece = body[start : start + size]
        is_last = start + size >= len(body)
        end = len(piece) if is_last else 1 + max(piece.rfind(b"\n"), piece.rfind(b"\r"))
        yield from _line.findall(piece, 0, end)
        start += end
        # A line that is longer than the piece needs a larger one.
        size = _PIECE_BYTES if end else 2 * size

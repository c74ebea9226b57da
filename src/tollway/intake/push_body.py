"""The records in the body of a push: one object, an array of objects, or one object per line."""

import codecs
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
    return (line for line in body.splitlines() if line.strip())

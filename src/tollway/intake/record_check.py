"""The one check of all records. The decisions are msgspec's, in C: a file has millions of them."""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from operator import attrgetter
from time import time
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import inspect

from tollway.intake.record_fields import is_amount
from tollway.intake.record_problems import (
    RecordError,
    core_of,
    explain,
    fields_of,
    item_type_of,
    text_problem,
)

_DAY_S = 86_400
_FIRST_DAY = date(2000, 1, 1)

R = TypeVar("R", bound=msgspec.Struct)


class RecordCheck(Generic[R]):
    """Checks records of one type."""

    def __init__(self, record_type: type[R]) -> None:
        self._type = record_type
        self._texts = _getter(_names_of(record_type, inspect.StrType))
        self._amounts = _names_of(record_type, inspect.DecimalType)
        self._lists = [
            (name, _getter(_names_of(item_type, inspect.StrType)))
            for name, item_type in _lists_of(record_type)
        ]

    def __call__(self, values: dict[str, object]) -> R:
        """The typed record; raises RecordError."""
        try:
            record = msgspec.convert(values, self._type, strict=False)
        # What is too large for a decimal is an ArithmeticError.
        except (ValueError, ArithmeticError, RecursionError):
            raise explain(values, self._type) from None
        for name in self._amounts:
            yuan = getattr(record, name)
            if yuan is not None and not is_amount(values.get(name), yuan):
                raise explain(values, self._type)
        # One search through all texts: a pattern on each would cost more than all the rest.
        texts = "".join(filter(None, self._texts(record)))
        for name, texts_of in self._lists:
            texts += "".join(
                text or "" for each in getattr(record, name) for text in texts_of(each)
            )
        if text_problem(texts):
            raise explain(values, self._type)
        return record


def check_not_ahead(field: str, at_s: float) -> None:
    """Refuses the time of what has happened if it is more than a day ahead: it would outlast every
    later version."""
    if at_s > time() + _DAY_S:
        raise RecordError(field, "it is more than a day ahead", "the time at which it happened")


def check_day(field: str, day: date) -> None:
    """The same for a date. In some time zone it is tomorrow already."""
    if day < _FIRST_DAY:
        raise RecordError(field, "it is before the year 2000", "the date on which it happened")
    if day > datetime.fromtimestamp(time(), UTC).date() + timedelta(days=2):
        raise RecordError(field, "it is more than a day ahead", "the date on which it happened")


def _names_of(record_type: type[msgspec.Struct], core_type: type[inspect.Type]) -> list[str]:
    fields = fields_of(record_type)
    return [field.name for field, _ in fields if isinstance(core_of(field.type), core_type)]


def _lists_of(record_type: type[msgspec.Struct]) -> Iterator[tuple[str, type[msgspec.Struct]]]:
    for field, _ in fields_of(record_type):
        core = core_of(field.type)
        if isinstance(core, inspect.ListType):
            yield field.name, item_type_of(core)


def _getter(names: Sequence[str]) -> Callable[[Any], Sequence[str | None]]:
    """Several attributes at once, which is faster than one after the other."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda record: [getattr(record, name) for name in names]

"""The one check of all records. msgspec decides, in C, because a file has millions of records."""

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from itertools import chain
from operator import attrgetter
from time import time
from typing import Any, Generic, TypeVar, cast

import msgspec
from msgspec import inspect

from tollway.contract.fields import has_control
from tollway.intake.json_records import JsonNumber, json_number
from tollway.intake.record_fields import BEGIN_S, ID_MAX, is_amount, is_rounded
from tollway.intake.record_problems import (
    RecordError,
    core_of,
    explain,
    fields_of,
    is_id,
    item_type_of,
    text_problem,
)

# JSON never has a NUL unescaped.
_NUL = b"\\u0000"
_DAY_S = 86_400
_FIRST_DAY = date(2000, 1, 1)
_SLASHED = re.compile("([0-9]{4})/([0-9]{1,2})/([0-9]{1,2})")

R = TypeVar("R", bound=msgspec.Struct)


class RecordCheck(Generic[R]):
    def __init__(self, record_type: type[R]) -> None:
        self._type = record_type
        self._texts = _getter(_names_of(record_type, inspect.StrType))
        self._ids = _trimmed_of(record_type)
        self._one_line = _getter(
            [field.name for field, _ in fields_of(record_type) if is_id(field.type)]
        )
        self._amounts = _names_of(record_type, inspect.DecimalType)
        self._whole = _names_of(record_type, inspect.IntType)
        self._dates = _names_of(record_type, inspect.DateType)
        self._lists = [
            (
                name,
                _getter(_names_of(item_type, inspect.StrType)),
                _names_of(item_type, inspect.IntType),
            )
            for name, item_type in _lists_of(record_type)
        ]

    def __call__(self, values: dict[str, object]) -> R:
        """The typed record; raises RecordError."""
        try:
            record = msgspec.convert(values, self._type, strict=False)
        # A number that is too large for a decimal raises ArithmeticError.
        except (ValueError, ArithmeticError, RecursionError):
            if plain := self._with_plain_dates(values) or self._with_trimmed_ids(values):
                return self(plain)
            raise explain(values, self._type) from None
        for name in self._ids:
            text = getattr(record, name)
            if text is not None and text != text.strip():
                return self({**values, name: text.strip()})
        for name in self._amounts:
            yuan = getattr(record, name)
            if yuan is not None and not is_amount(values.get(name), yuan):
                raise explain(values, self._type)
        for name in self._whole:
            if is_rounded(values.get(name)):
                raise explain(values, self._type)
        # One search through all texts: a pattern on each would cost more than all the rest.
        texts = "".join(filter(None, self._texts(record)))
        for name, texts_of, whole in self._lists:
            texts += "".join(
                text or "" for each in getattr(record, name) for text in texts_of(each)
            )
            sent = cast(list[dict[str, object]], values.get(name, []))
            if any(is_rounded(each.get(number)) for each in sent for number in whole):
                raise explain(values, self._type)
        if text_problem(texts) or has_control("".join(filter(None, self._one_line(record)))):
            raise explain(values, self._type)
        return record

    def _with_trimmed_ids(self, values: dict[str, object]) -> dict[str, object] | None:
        """The values with trimmed ids, whose spaces do not count as length; None if that changes
        nothing."""
        trimmed = {
            name: text.strip()
            for name in self._ids
            if isinstance(text := values.get(name), str) and text != text.strip()
        }
        return {**values, **trimmed} if trimmed else None

    def _with_plain_dates(self, values: dict[str, object]) -> dict[str, object] | None:
        """The values with dates like 2026/1/31, as Excel saves them, rewritten as 2026-01-31; None
        if there are none."""
        plain: dict[str, object] = {}
        for name in self._dates:
            sent = values.get(name)
            written = _SLASHED.fullmatch(sent) if isinstance(sent, str) else None
            if written:
                plain[name] = f"{written[1]}-{written[2]:0>2}-{written[3]:0>2}"
        return {**values, **plain} if plain else None


# Many records have the same amounts.
_AMOUNTS_KEPT = 4096


@lru_cache(maxsize=_AMOUNTS_KEPT)
def _amount(text: str) -> object:
    """An amount from its text, as `read_json` reads it: its value does not show whether it had an
    exponent. None if it is not certainly good."""
    number = json_number(text)
    if isinstance(number, JsonNumber) or not is_amount(number, Decimal(number)):
        return None
    return Decimal(number)


class JsonCheck(Generic[R]):
    """The same check for many JSON records at once, in a quarter of the time.

    It accepts a record only if every field is known and in its proper type and range. For any other
    it returns None, and `RecordCheck` decides.
    """

    def __init__(self, record_type: type[R]) -> None:
        assert not any(_lists_of(record_type)), "entries of a list can have unknown fields"
        self._amounts = _names_of(record_type, inspect.DecimalType)
        self._amounts_of = [attrgetter(name) for name in self._amounts]
        self._ids = _getter(_trimmed_of(record_type))
        exact = msgspec.defstruct(
            record_type.__name__,
            [(name, Any) for name in self._amounts],
            bases=(record_type,),
            forbid_unknown_fields=True,
            frozen=True,
            kw_only=True,
            gc=False,
        )
        self._decoder = msgspec.json.Decoder(cast(type[R], exact), float_hook=_amount)

    def __call__(self, lines: Sequence[bytes]) -> list[R | None]:
        """Checks all records together, which takes less time, and each one only if some are odd."""
        records = self._decoded(lines)
        good = [each for each in records if each is not None]
        ids = list(filter(None, chain.from_iterable(map(self._ids, good))))
        is_plain = (
            ids == list(map(str.strip, ids))
            and "".join(ids).isprintable()
            and not _has_nul(b"\n".join(lines))
        )
        if is_plain and all(set(map(type, map(of, good))) <= {Decimal} for of in self._amounts_of):
            return records
        return [
            record if record is not None and self._is_good(record, raw) else None
            for record, raw in zip(records, lines, strict=True)
        ]

    def _decoded(self, lines: Sequence[bytes]) -> list[R | None]:
        records: list[R | None] = []
        decoding = map(self._decoder.decode, lines)
        while len(records) < len(lines):
            # Stops at a line that cannot be decoded, and goes on after it.
            try:
                records.extend(decoding)
            except (ValueError, RecursionError):
                records.append(None)
        return records

    def _is_good(self, record: R, raw: bytes) -> bool:
        if _has_nul(raw):
            return False
        for text in filter(None, self._ids(record)):
            if text != text.strip() or not text.isprintable():
                return False
        for name in self._amounts:
            yuan = getattr(record, name)
            if type(yuan) is int and is_amount(yuan, Decimal(yuan)):
                msgspec.structs.force_setattr(record, name, Decimal(yuan))
            elif type(yuan) is not Decimal:
                return False
        return True


def _has_nul(raw: bytes) -> bool:
    # Most records have no backslash, and one character is faster to search for.
    return b"\\" in raw and _NUL in raw


def is_ahead(at_s: float) -> bool:
    """Whether a time is more than a day ahead."""
    return at_s > time() + _DAY_S


def check_not_ahead(field: str, at_s: float) -> None:
    """Refuses the time of an event if it is more than a day ahead: the record would outlast every
    later version."""
    if is_ahead(at_s):
        raise RecordError(field, "it is more than a day ahead", "the time at which it happened")


def check_since_2000(field: str, at_s: float, expected: str) -> None:
    """Refuses a number that is no time, where 0 stands for "always"."""
    if 0 < at_s < BEGIN_S:
        raise RecordError(field, "it is before the year 2000", expected)


def check_day(field: str, day: date) -> None:
    """The same for a date. One more day is allowed: in some time zone it is tomorrow already."""
    if day < _FIRST_DAY:
        raise RecordError(field, "it is before the year 2000", "the date on which it happened")
    if day > datetime.fromtimestamp(time(), UTC).date() + timedelta(days=2):
        raise RecordError(field, "it is more than a day ahead", "the date on which it happened")


def _names_of(record_type: type[msgspec.Struct], core_type: type[inspect.Type]) -> list[str]:
    fields = fields_of(record_type)
    return [field.name for field, _ in fields if isinstance(core_of(field.type), core_type)]


def _trimmed_of(record_type: type[msgspec.Struct]) -> list[str]:
    return [
        field.name
        for field, _ in fields_of(record_type)
        if isinstance(core := core_of(field.type), inspect.StrType) and core.max_length == ID_MAX
    ]


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

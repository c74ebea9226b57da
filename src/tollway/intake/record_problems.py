"""Why a record is rejected, in our own words: the field, the problem, and what to send.

A reason quotes nothing of a record except short numbers: a record can have personal data, also in
the wrong fields, and the reason is stored in plain text.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from functools import cache
from typing import Any, get_type_hints

import msgspec
from msgspec import inspect

from tollway.contract.fields import has_control
from tollway.contract.json_limits import PARTS_MAX
from tollway.intake.json_records import JsonNumber, NotJsonError, is_too_large, read_json
from tollway.intake.record_fields import ONE_LINE, is_amount, is_rounded

# A longer number can be a phone.
_SHOWN_DIGITS_MAX = 6
_NUMBER = re.compile(r"(?P<sign>[+-]?)(?P<whole>[0-9]+)(\.(?P<decimals>[0-9]+))?(?P<exponent>e.+)?")


class RecordError(ValueError):
    """A record is wrong; the text is for the operator or the sender."""

    def __init__(self, field: str, problem: str, expected: str) -> None:
        super().__init__(f"{field}: {problem}; send {expected}.")


class NotOwnError(RecordError):
    """These records would change what belongs to a channel of others."""

    def __init__(self, field: str, records: Sequence[Any]) -> None:
        problem = "it belongs to a channel that this source does not speak for"
        super().__init__(field, problem, "records of its own channels")
        self.records = records


class LostCell:
    """A cell of a table whose value is lost; no field accepts it, and in columns that are no
    field it does not matter."""

    __slots__ = ("problem", "text")

    def __init__(self, text: str, problem: str) -> None:
        self.text = text
        self.problem = problem

    def __str__(self) -> str:
        return self.text


class LostCellError(RecordError):
    """A field of a record is a lost cell."""

    def __init__(self, field: str, cell: LostCell) -> None:
        ValueError.__init__(self, f"{field}: {cell.problem}")


class WholeRecordError(RecordError):
    """A record is wrong as a whole."""

    def __init__(self, sentence: str) -> None:
        ValueError.__init__(self, sentence)


def read_object(raw: bytes) -> dict[str, object]:
    """The values of a record that is written as JSON; raises RecordError."""
    if is_too_large(raw):
        raise WholeRecordError(
            f"the record is over 1 MiB, or has over {PARTS_MAX:,} values; send a smaller one."
        )
    values: object = None
    with suppress(NotJsonError):
        values = read_json(raw)
    if not isinstance(values, dict):
        raise WholeRecordError('the record is not a JSON object; send one, as {"name": "value"}.')
    return values


def explain(values: Mapping[str, object], record_type: type[msgspec.Struct]) -> RecordError:
    """Why a record does not fit its type."""
    found = _first_problem(values, record_type, "")
    if found is not None:
        return found
    return RecordError("the record", "a field's name is not valid text", "names in UTF-8")


def _first_problem(
    values: Mapping[str, object], record_type: type[msgspec.Struct], within: str
) -> RecordError | None:
    for field, hint in fields_of(record_type):
        name = f"{within}{field.encode_name}"
        if field.encode_name not in values:
            if field.required:
                return RecordError(name, "it is missing", _expected(field.type))
            continue
        found = _problem_of(values[field.encode_name], field.type, hint, name)
        if found is not None:
            return found
    return None


@cache
def fields_of(record_type: type[msgspec.Struct]) -> list[tuple[inspect.Field, Any]]:
    info = inspect.type_info(record_type)
    assert isinstance(info, inspect.StructType)
    hints = get_type_hints(record_type, include_extras=True)
    return [(field, hints[field.name]) for field in info.fields]


def _problem_of(value: object, info: inspect.Type, hint: Any, name: str) -> RecordError | None:
    core = core_of(info)
    if isinstance(value, LostCell):
        return LostCellError(name, value)
    if isinstance(core, inspect.ListType) and isinstance(value, list):
        return _problem_in_list(value, core, name)
    if isinstance(value, str) and (problem := text_problem(value) or _id_problem(value, info)):
        return RecordError(name, problem, _expected(info))
    try:
        read = msgspec.convert(value, hint, strict=False)
    except (ValueError, ArithmeticError):
        return RecordError(name, _described(value, core), _expected(info))
    is_inexact = isinstance(core, inspect.IntType) and is_rounded(value)
    if is_inexact or (isinstance(read, Decimal) and not is_amount(value, read)):
        return RecordError(name, _described(value, core), _expected(info))
    return None


def _problem_in_list(values: list[object], info: inspect.ListType, name: str) -> RecordError | None:
    if info.max_length is not None and len(values) > info.max_length:
        return RecordError(name, f"it has {len(values):,} entries", _expected(info))
    item_type = item_type_of(info)
    for number, value in enumerate(values):
        if not isinstance(value, dict):
            return RecordError(f"{name}[{number}]", _described(value, info), "an object")
        found = _first_problem(value, item_type, f"{name}[{number}].")
        if found is not None:
            return found
    return None


def text_problem(text: str) -> str:
    """Why a database could not store this text; empty if it can."""
    if "\0" in text:
        return "it contains a NUL character"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "it contains half of a surrogate pair, or bytes that are not UTF-8"
    return ""


def _id_problem(text: str, info: inspect.Type) -> str:
    if is_id(info) and has_control(text.strip()):
        return "it contains a line break or a control character"
    return ""


def is_id(info: inspect.Type) -> bool:
    return ONE_LINE in extra_of(info)


def extra_of(info: inspect.Type) -> dict[str, Any]:
    """What `record_fields` says of a kind of value that msgspec itself does not use."""
    if isinstance(info, inspect.UnionType):
        return extra_of(_not_null(info))
    return info.extra or {} if isinstance(info, inspect.Metadata) else {}


def core_of(info: inspect.Type) -> inspect.Type:
    """The type that a field accepts besides null, without its metadata."""
    if isinstance(info, inspect.Metadata):
        return core_of(info.type)
    return core_of(_not_null(info)) if isinstance(info, inspect.UnionType) else info


def _not_null(info: inspect.UnionType) -> inspect.Type:
    return next(each for each in info.types if not isinstance(each, inspect.NoneType))


def item_type_of(info: inspect.ListType) -> type[msgspec.Struct]:
    item = core_of(info.item_type)
    assert isinstance(item, inspect.StructType), "records have lists of objects only"
    return item.cls


def _expected(info: inspect.Type) -> str:  # noqa: PLR0911 - one answer for each type
    if isinstance(info, inspect.Metadata):
        described = info.extra_json_schema or {}
        return str(described.get("description") or _expected(info.type))
    if isinstance(info, inspect.UnionType):
        return _expected(_not_null(info))
    match info:
        case inspect.StrType(min_length=least, max_length=most):
            return f"a text of {least or 0} to {most} characters"
        case inspect.IntType(ge=least, le=most, lt=end):
            return f"a whole number from {least} to {end - 1 if most is None and end else most}"
        case inspect.LiteralType(values=choices):
            return f"one of the texts {', '.join(map(str, choices))}"
        case inspect.ListType(max_length=most):
            return f"a list of at most {most} objects"
        case inspect.DateType():
            return "a date as YYYY-MM-DD"
    return "true or false" if isinstance(info, inspect.BoolType) else "a value that fits"


_KINDS = {type(None): "null", bool: "true or false", list: "a list", dict: "an object"}


def _described(value: object, core: inspect.Type) -> str:
    if type(value) in _KINDS:
        return f"it is {_KINDS[type(value)]}"
    is_number = isinstance(core, inspect.IntType | inspect.DecimalType)
    if isinstance(value, str):
        return _number_described(value, core) if is_number else _text_described(value, core)
    if not is_number:
        return "it is a number"
    return _number_described(value.text if isinstance(value, JsonNumber) else str(value), core)


# What is wrong with a text that a field does not accept.
_OTHER_TEXTS: dict[type[inspect.Type], str] = {
    inspect.StrType: "it has another form",
    inspect.LiteralType: "it is none of these",
    inspect.BoolType: "it is neither",
    inspect.DateType: "it is not a date of the calendar",
    inspect.ListType: "it is a text",
}


def _text_described(text: str, core: inspect.Type) -> str:
    if not text:
        return "it is empty"
    if isinstance(core, inspect.StrType) and core.max_length and len(text) > core.max_length:
        return f"it has {len(text):,} characters"
    return _OTHER_TEXTS.get(type(core), "it does not fit")


def _number_described(text: str, core: inspect.Type) -> str:
    number = _NUMBER.fullmatch(text.lower()) if text.isascii() else None
    if number is None:
        return "it is not a number" if text else "it is empty"
    if number["exponent"]:
        return "it has an exponent"
    if number["sign"]:
        return "it has a sign" if number["sign"] == "+" else "it is negative"
    decimals = len(number["decimals"] or "")
    if decimals > 2:
        return f"it has {decimals} decimals"
    if decimals and isinstance(core, inspect.IntType):
        return "it has decimals"
    return shown_number(text)


def shown_number(text: str) -> str:
    """What may be said of a plain number that a field does not accept."""
    digits = len(text.replace(".", ""))
    return f"it is {text}" if digits <= _SHOWN_DIGITS_MAX else f"it has {digits:,} digits"

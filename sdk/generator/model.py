"""What an SDK has to know of the operations, read from their descriptors."""

from collections.abc import Sequence
from datetime import date, datetime
from types import NoneType, UnionType
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

import msgspec

from tollway.contract.answer_fields import answer_fields
from tollway.contract.decoding import declared_fields
from tollway.contract.language import in_english
from tollway.contract.operation import Operation
from tollway.contract.reasons import Reason
from tollway.operations.catalogue import ALL_OPERATIONS

# Said of each loop over an export's file.
FILE_NOTE = "A file that breaks off is read on after the last record that arrived."


class Parameter(NamedTuple):
    """One parameter of a request. `kind` is text, texts, requests, whole, day or moment."""

    name: str
    kind: str
    required: bool
    meaning: str
    expected: str


class Described(NamedTuple):
    """One operation; `loop` is the method that loops over all its records, and what each is."""

    operation: Operation
    method: str
    payload: str
    parameters: tuple[Parameter, ...]
    loop: "Loop | None"

    @property
    def title(self) -> str:
        return in_english(self.operation.title)


class Loop(NamedTuple):
    """How to read all records of a list; `fixed` are the parameters that the loop sets."""

    method: str
    pages: str
    record: str
    fixed: frozenset[str]
    # The field by which a record of an export's file is named.
    key: str = ""


_METHODS = {"waybills": "issue_waybill", "waybills_batch": "issue_waybills"}
_LOOPS = {
    "orders": Loop(
        "iter_orders",
        "order_pages",
        "OrderEntry",
        frozenset({"vvtype", "page", "pageSize"}),
        "order_sn",
    ),
    "coupon_claims": Loop(
        "iter_coupon_claims",
        "claim_pages",
        "CouponRecord",
        frozenset({"page", "limit"}),
        "couponCode",
    ),
    "promotion_material": Loop(
        "iter_promotion_material",
        "material_pages",
        "Material",
        frozenset({"page_num", "page_size"}),
    ),
}
_KINDS: dict[Any, str] = {str: "text", int: "whole", date: "day", datetime: "moment"}


def described(operations: Sequence[Operation] = ALL_OPERATIONS) -> list[Described]:
    return [
        Described(
            each,
            _METHODS.get(each.name, each.name.removeprefix("account_")),
            each.response_type.__name__,
            _parameters(each),
            _LOOPS.get(each.name),
        )
        for each in operations
        if not each.is_file
    ]


def described_files() -> list[Described]:
    """The files of exports, each with the method that loops over its records."""
    return [
        Described(
            each,
            f"iter_{each.name.removesuffix('_file')}",
            "",
            _parameters(each),
            _LOOPS[each.belongs_to or ""],
        )
        for each in ALL_OPERATIONS
        if each.is_file
    ]


# What divides a time into windows must know which time it is.
_WITH_ZONE = "seconds, or a time with its zone, such as 2026-11-13T08:00:00+08:00"
_OF_ONE_CALL = " At most 7 days after startTime."


def loop_parameters(each: Described) -> list[Parameter]:
    """The parameters of a loop, as the loop takes them."""
    assert each.loop is not None
    parameters = [one for one in each.parameters if one.name not in each.loop.fixed]
    if each.loop.pages != "claim_pages":
        return parameters
    return [
        one._replace(meaning=one.meaning.removesuffix(_OF_ONE_CALL), expected=_WITH_ZONE)
        if one.kind == "moment"
        else one
        for one in parameters
    ]


def _parameters(operation: Operation) -> tuple[Parameter, ...]:
    hints = get_type_hints(operation.request_type)
    return tuple(
        Parameter(
            name,
            _kind(hints[name]),
            required,
            in_english(field.meaning),
            field.kind.expected.en,
        )
        for name, field, required, _ in declared_fields(operation.request_type)
    )


def _kind(hint: Any) -> str:
    if get_origin(hint) is list:
        return "texts" if get_args(hint)[0] is str else "requests"
    members = [each for each in get_args(hint) or (hint,) if each is not NoneType]
    return "moment" if datetime in members else _KINDS[members[0]]


def payload_types(operations: Sequence[Operation] = ALL_OPERATIONS) -> list[type[msgspec.Struct]]:
    """All types of the answers, each after those it contains."""
    found: dict[type[msgspec.Struct], None] = {}
    for each in operations:
        _collect(each.response_type, found)
    return list(found)


def _collect(hint: Any, found: dict[type[msgspec.Struct], None]) -> None:
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        for inner in get_type_hints(hint).values():
            _collect(inner, found)
        found.setdefault(hint)
        return
    for inner in get_args(hint):
        _collect(inner, found)


def members_of(hint: Any) -> tuple[Any, bool]:
    """A field's type without None, and whether it may be None."""
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    if get_origin(hint) is UnionType:
        (inner,) = [each for each in get_args(hint) if each is not NoneType]
        return inner, True
    return hint, False


def meanings_of(kind: type[msgspec.Struct]) -> dict[str, str]:
    """What each field of an answer means."""
    found = {}
    for field in answer_fields(kind):
        text = "" if field.meaning is None else field.meaning.en
        twin = f" The same as {field.other_spelling}." if field.other_spelling else ""
        found[field.name] = f"{text}{twin}"
    return found


def codes() -> dict[str, int]:
    return {reason.name: reason.value.code for reason in Reason}

"""One contract over all operations: every field is there, in its type, in both spellings."""

import re
from collections.abc import Iterator
from datetime import date
from typing import Any

import msgspec
import pytest

from tests.support.all_operations import ask, good_request
from tests.support.gateway import Gateway, Reply
from tests.support.ledger import new_caller
from tests.support.stores import Store
from tollway.contract.decoding import declared_fields
from tollway.contract.fields import Choice
from tollway.contract.operation import Operation, Unit
from tollway.operations.catalogue import ALL_OPERATIONS, BY_NAME, OPERATIONS

# Where the specification spells one field of an answer twice, both are sent, with one value.
BOTH_SPELLINGS = (
    ("pageSize", "page_size"),
    ("totalElements", "total_elements"),
    ("shopName", "shop_name"),
    ("receiver_address", "address"),
)


@pytest.fixture(scope="module")
def asked(gateway: Gateway, store: Store, today: date) -> dict[str, Reply]:
    """Each operation's answer in the sandbox, where there is data for all of them."""
    caller = new_caller(store, operations=OPERATIONS, kind="test")
    return {
        each.name: ask(gateway, each, caller.token, good_request(each, today))
        for each in OPERATIONS
    }


def test_all_operations_are_called(asked: dict[str, Reply]) -> None:
    assert set(asked) == set(BY_NAME)
    assert {reply.code for reply in asked.values()} == {0}


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)
def test_every_field_is_there_in_its_type_and_no_other(
    asked: dict[str, Reply], operation: Operation
) -> None:
    data = asked[operation.name].data
    typed = msgspec.convert(data, operation.response_type, strict=True)
    assert msgspec.to_builtins(typed) == data
    lists = [
        (name, found)
        for each in _objects(data)
        for name, found in each.items()
        if isinstance(found, list)
    ]
    shown = {name for name, found in lists if found}
    assert shown == {name for name, _ in lists}, "the sandbox shows an entry of every list"


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)
def test_what_is_paid_in_credits_tells_the_credits(
    asked: dict[str, Reply], operation: Operation
) -> None:
    data = asked[operation.name].data
    assert ("withholding_money" in data) == (operation.unit is Unit.CREDITS)
    assert data.get("withholding_money", 0) == 0, "the sandbox is free"


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)
def test_both_spellings_are_sent_with_one_value(
    asked: dict[str, Reply], operation: Operation
) -> None:
    for each in _objects(asked[operation.name].data):
        for one, other in BOTH_SPELLINGS:
            assert (one in each) == (other in each)
            assert each.get(one) == each.get(other)


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    children = value.values() if isinstance(value, dict) else value
    if isinstance(value, dict):
        yield value
    if isinstance(value, (dict, list)):
        for child in children:
            yield from _objects(child)


@pytest.mark.parametrize("operation", ALL_OPERATIONS, ids=lambda each: each.name)
def test_what_a_number_stands_for_is_said_in_both_languages(operation: Operation) -> None:
    for name, field, _, _ in declared_fields(operation.request_type):
        if isinstance(field.kind, Choice):
            assert not re.search("[a-z]{3}", field.kind.expected.zh), name

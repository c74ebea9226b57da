"""One contract over all five operations: every field is there, in its type, in both spellings."""

from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest

from tests.support.books import new_caller
from tests.support.gateway import Gateway, Reply, Store
from tests.support.waybills import request as waybill_request
from tollway.contract.operation import Encoding, Operation, Unit
from tollway.demo.carriers import WP_CODE
from tollway.demo.claims import SIDS, midnight_s
from tollway.demo.figures import product_ids
from tollway.demo.owners import ADZONE_ID, SHOP, SITE_ID, USER
from tollway.operations.catalogue import BY_NAME, OPERATIONS

_SHANGHAI = ZoneInfo("Asia/Shanghai")
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
    requests: dict[str, dict[str, Any]] = {
        "product_analysis": {"product_id": product_ids(1)[0], "query_date": today.isoformat()},
        "coupon_claims": {
            "startTime": str(midnight_s(today - timedelta(days=5), _SHANGHAI)),
            "endTime": str(midnight_s(today - timedelta(days=1), _SHANGHAI)),
            "page": "1",
            "limit": "20",
            "sid": SIDS[0],
            "type": "4",
        },
        "promotion_material": {
            "adzone_id": ADZONE_ID,
            "site_id": SITE_ID,
            "promotion_id": 37104,
            "platform_user_id": int(USER.id),
        },
        "waybills": waybill_request(WP_CODE),
        "orders": {"owner_id": SHOP.id},
    }
    return {
        name: _ask(gateway, BY_NAME[name], caller.token, sent) for name, sent in requests.items()
    }


def _ask(gateway: Gateway, operation: Operation, token: str, sent: dict[str, Any]) -> Reply:
    if operation.encoding is Encoding.QUERY:
        return gateway.get(operation.path, token=token, query=sent)
    if operation.encoding is Encoding.FORM:
        return gateway.post_form(operation.path, sent, token=token)
    return gateway.post_json(operation.path, sent, token=token)


def test_all_five_are_asked(asked: dict[str, Reply]) -> None:
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

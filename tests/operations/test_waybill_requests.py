"""What a request for a waybill says: every field, and which requests ask for the same one."""

import pytest

from tests.support.gateway import Gateway, reply_of
from tests.support.ledger import RUNTIME, Caller, credits_left
from tests.support.stores import Store
from tests.support.waybills import (
    PRICE,
    authorize_shops,
    issue,
    load_numbers,
    new_carrier,
    new_customer,
    request,
    waybill_part,
    without_charge,
)
from tollway.carriers.waybills import cancel_waybill
from tollway.demo.owners import SHOP_CODE
from tollway.operations.waybills.operation import WAYBILLS, WaybillRequest


@pytest.fixture(scope="module")
def wp_code(store: Store) -> str:
    return new_carrier(store, 200)


@pytest.fixture
def customer(store: Store) -> Caller:
    return new_customer(store)


@pytest.mark.parametrize("left_out", sorted(set(request("X")) - {"sender_mobile"}))
def test_100_parameter_missing(
    gateway: Gateway, store: Store, customer: Caller, wp_code: str, left_out: str
) -> None:
    body = request(wp_code)
    del body[left_out]
    reply = issue(gateway, customer.token, body)
    assert (reply.code, reply.data) == (100, {})
    assert left_out in reply.msg and "missing" in reply.msg
    assert credits_left(store, customer) == 10_000


def test_100_a_weight_without_its_unit_is_not_taken_for_grams(
    gateway: Gateway, customer: Caller, wp_code: str
) -> None:
    reply = issue(gateway, customer.token, request(wp_code, weight="2"))
    assert (reply.code, reply.headers["x-tollway-reason"]) == (100, "PARAMETER_UNKNOWN")
    assert "Parameter weight is not known, but weight_g (in grams) is" in reply.msg
    chinese = {"Accept-Language": "zh"}
    reply = issue(gateway, customer.token, request(wp_code, weight="2"), **chinese)
    assert "weight_g（单位：克）" in reply.msg


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("order_sn", "1234567", "7 characters"),
        ("order_sn", "x" * 65, "65 characters"),
        ("order_sn", "SN2026\n0001", "line break"),
        ("order_sn", "SN2026\x1b[31m01", "control character"),
        ("order_sn", "ORD\u202e12345678", "cannot be seen"),
        ("order_sn", "ORD\u200b12345678", "cannot be seen"),
        ("sender_name", "名" * 40, "40 characters"),
        ("sender_detail", "路" * 256, "256 characters"),
        ("waybill_type", "4", "known values"),
        ("waybill_type", "one", "whole number"),
        ("vvtype", 3, "known values"),
        ("receiver_name", ["a"], "not a text"),
        ("receiver_phone", "1\0", "NUL"),
    ],
)
def test_100_parameter_invalid(
    gateway: Gateway, customer: Caller, wp_code: str, field: str, value: object, problem: str
) -> None:
    reply = issue(gateway, customer.token, request(wp_code, **{field: value}))
    assert (reply.code, reply.data) == (100, {})
    assert field in reply.msg and problem in reply.msg


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"owner_id": NaN}', b"\xff"])
def test_100_body_unreadable(gateway: Gateway, customer: Caller, body: bytes) -> None:
    headers = {"Authorization": f"Bearer {customer.token}", "Content-Type": "application/json"}
    reply = reply_of(gateway.client.post(WAYBILLS.path, content=body, headers=headers))
    assert (reply.code, reply.data) == (100, {})


def test_numbers_are_taken_as_numbers_or_digits(
    gateway: Gateway, customer: Caller, wp_code: str
) -> None:
    body = request(wp_code, order_sn=1234567890, waybill_type=1, vvtype="1", owner_id=880012001)
    first = issue(gateway, customer.token, body).data
    again = {**body, "order_sn": "1234567890", "waybill_type": "1", "owner_id": "880012001"}
    assert waybill_part(issue(gateway, customer.token, again).data) == waybill_part(first)


def test_both_spellings_of_the_senders_phone(
    gateway: Gateway, customer: Caller, wp_code: str
) -> None:
    body = request(wp_code)
    first = issue(gateway, customer.token, body).data
    other = {**body, "sender_phone": body["sender_mobile"]}
    assert waybill_part(issue(gateway, customer.token, other).data) == waybill_part(first)
    del other["sender_mobile"]
    assert waybill_part(issue(gateway, customer.token, other).data) == waybill_part(first)
    reply = issue(gateway, customer.token, {**body, "sender_phone": "1"})
    assert reply.code == 100
    assert "sender_mobile" in reply.msg and "sender_phone" in reply.msg
    del other["sender_phone"]
    assert "sender_mobile" in issue(gateway, customer.token, other).msg


def test_the_shop_code(gateway: Gateway, customer: Caller, wp_code: str) -> None:
    missing = issue(gateway, customer.token, request(wp_code, vvtype=2))
    assert missing.code == 100 and "shopCode" in missing.msg and "missing" in missing.msg
    for edition in (1, 2):
        wrong = issue(gateway, customer.token, request(wp_code, vvtype=edition, shopCode="nope"))
        assert wrong.code == 100 and "shopCode" in wrong.msg
        right = request(wp_code, vvtype=edition, shopCode=SHOP_CODE)
        assert issue(gateway, customer.token, right).data["code"] == 1


def test_100_carrier_unknown(gateway: Gateway, store: Store, customer: Caller) -> None:
    reply = issue(gateway, customer.token, request("UNKNOWN"))
    assert (reply.code, reply.data) == (100, {})
    assert "wp_code" in reply.msg
    assert credits_left(store, customer) == 10_000


def test_the_same_request_again_is_the_same_waybill_free_of_charge(
    gateway: Gateway, store: Store, wp_code: str
) -> None:
    # Exactly enough for one: the second call costs nothing, so an empty balance is no obstacle.
    customer = new_customer(store, credits_=PRICE)
    body = request(wp_code)
    first = issue(gateway, customer.token, body)
    second = issue(gateway, customer.token, body)
    assert (first.code, second.code) == (0, 0)
    assert second.data == without_charge(first.data)
    assert first.data["withholding_money"] == PRICE
    assert "x-replay-of" not in first.headers
    assert second.headers["x-replay-of"] == first.headers["x-request-id"]
    assert credits_left(store, customer) == 0


# What identifies a waybill, or checks the shop, is no content.
NO_CONTENT = {"owner_id", "order_sn", "wp_code", "shopCode", "vvtype"}
OTHER_CONTENT = {
    **{f"{party}_name": "李四" for party in ("sender", "receiver")},
    **{f"{party}_province": "江苏省" for party in ("sender", "receiver")},
    **{f"{party}_city": "南京市" for party in ("sender", "receiver")},
    **{f"{party}_town": "玄武区" for party in ("sender", "receiver")},
    **dict.fromkeys(("sender_mobile", "receiver_phone"), "13900000000"),
    **dict.fromkeys(("sender_detail", "receiver_address"), "中山路 2 号"),
    "waybill_type": "2",
    "goods_name": "咖啡",
    "weight_g": 600,
}
_PLACES = ("province", "city", "town")


def test_another_content_under_the_same_key_is_reported_field_by_field(
    gateway: Gateway, store: Store, customer: Caller, wp_code: str
) -> None:
    body = request(wp_code, goods_name="茶叶", weight_g=500)
    first = issue(gateway, customer.token, body).data
    # A further parcel of the order has a request of its own (tests/operations/test_parcels.py).
    fields = [*WaybillRequest.__struct_fields__]
    contents = [name for name in fields if name not in {*NO_CONTENT, "parentWaybillCode"}]
    for name in contents:
        party = name.partition("_")[0]
        of_place = [f"{party}_{part}" for part in _PLACES]
        changed = of_place if name in of_place else [name]
        other = {**body, **{each: OTHER_CONTENT[each] for each in changed}}
        reply = issue(gateway, customer.token, other)
        assert (reply.code, reply.data) == (100, {})
        named = reply.msg.partition("different: ")[2].partition(")")[0].split(", ")
        assert sorted(named) == sorted(changed)
        assert str(OTHER_CONTENT[name]) not in reply.msg
    assert credits_left(store, customer) == 10_000 - PRICE
    assert waybill_part(issue(gateway, customer.token, body).data) == waybill_part(first)


def test_content_that_a_repetition_leaves_out_is_other_content(
    gateway: Gateway, customer: Caller, wp_code: str
) -> None:
    body = request(wp_code)
    issue(gateway, customer.token, {**body, "goods_name": "茶叶"})
    reply = issue(gateway, customer.token, body)
    assert reply.code == 100 and "goods_name" in reply.msg


def test_each_part_of_the_key_makes_another_waybill(
    gateway: Gateway, store: Store, customer: Caller, wp_code: str
) -> None:
    body = request(wp_code)
    other = new_carrier(store, 10)
    authorize_shops(store, customer, "another-shop")
    load_numbers(store, other, ["YT9999999999999"])
    calls = [
        (customer, body),
        (new_customer(store), body),
        (customer, {**body, "owner_id": "another-shop"}),
        (customer, {**body, "order_sn": f"{body['order_sn']}-2"}),
        (customer, {**body, "wp_code": other}),
    ]
    issued = [issue(gateway, caller.token, each).data for caller, each in calls]
    assert [each["code"] for each in issued] == [1] * 5
    assert len({each["objectId"] for each in issued}) == 5


def test_a_cancelled_waybill_frees_its_key_but_not_its_number(
    gateway: Gateway, store: Store, customer: Caller, wp_code: str
) -> None:
    body = request(wp_code)
    first = issue(gateway, customer.token, body).data
    number = first["waybillCode"]
    cancelled = store.do(lambda database: cancel_waybill(database, number, wp_code, RUNTIME))
    assert cancelled.state == "cancelled"
    changed = {**body, "receiver_name": "李四"}
    second = issue(gateway, customer.token, changed).data
    assert second["code"] == 1 and second["withholding_money"] == PRICE
    assert second["waybillCode"] != number and second["objectId"] != first["objectId"]
    assert waybill_part(issue(gateway, customer.token, changed).data) == waybill_part(second)

"""Waybills that cannot be delivered are not sold; an order of several parcels has a waybill for
each."""

from typing import Any

import pytest

from tests.support.gateway import Gateway
from tests.support.ledger import RUNTIME, Caller, credits_left
from tests.support.receipts import receipt_of
from tests.support.stores import Store
from tests.support.waybills import (
    PRICE,
    authorize_shops,
    issue,
    new_carrier,
    new_customer,
    request,
)
from tollway.carriers.waybills import cancel_waybill


@pytest.fixture(scope="module")
def customer(store: Store) -> Caller:
    return new_customer(store)


@pytest.fixture(scope="module")
def wp_code(store: Store) -> str:
    return new_carrier(store, 100)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("receiver_phone", "abc"),
        ("receiver_phone", "138****1234"),
        ("sender_mobile", "123"),
        ("receiver_province", "火星"),
        ("receiver_city", "火星市"),
        ("receiver_city", "杭州市"),
        ("receiver_town", "火星"),
        ("sender_town", "南山区"),
    ],
)
def test_100_what_cannot_be_delivered_is_not_sold(
    gateway: Gateway, store: Store, wp_code: str, field: str, value: str
) -> None:
    customer = new_customer(store)
    for language in ("en", "zh"):
        body = request(wp_code, **{field: value})
        reply = issue(gateway, customer.token, body, **{"Accept-Language": language})
        assert (reply.code, reply.data) == (100, {})
        assert field in reply.msg
    assert credits_left(store, customer) == 10_000


def test_short_forms_are_sold_and_what_is_not_listed_is_warned_of(
    gateway: Gateway, customer: Caller, wp_code: str
) -> None:
    short = request(wp_code, receiver_province="广东", receiver_city="深圳", receiver_town="市辖区")
    reply = issue(gateway, customer.token, short)
    assert reply.data["code"] == 1
    assert receipt_of(gateway, customer.token, reply)["waybill"]["warnings"] == []
    # A development zone, and a district that exists, in another city.
    for city, town in (("东莞市", "松山湖"), ("深圳市", "天河区")):
        body = request(wp_code, receiver_city=city, receiver_town=town)
        reply = issue(gateway, customer.token, body)
        assert reply.data["code"] == 1
        (warning,) = receipt_of(gateway, customer.token, reply)["waybill"]["warnings"]
        assert warning.startswith("receiver_town is not listed in the place that it was sent with")


def test_a_further_parcel_has_a_number_of_its_own_and_names_the_first(
    gateway: Gateway, store: Store, wp_code: str
) -> None:
    customer = new_customer(store)
    first = issue(gateway, customer.token, request(wp_code)).data
    assert first["parentWaybillCode"] is None
    body = request(wp_code, parentWaybillCode=first["waybillCode"])
    reply = issue(gateway, customer.token, body)
    assert (reply.data["code"], reply.data["withholding_money"]) == (1, PRICE)
    assert reply.data["parentWaybillCode"] == first["waybillCode"]
    assert reply.data["waybillCode"] != first["waybillCode"]
    waybill = receipt_of(gateway, customer.token, reply)["waybill"]
    assert waybill["parent_number"] == first["waybillCode"]
    again = issue(gateway, customer.token, body)
    assert again.data["waybillCode"] == reply.data["waybillCode"]
    assert again.data["parentWaybillCode"] == first["waybillCode"]
    assert credits_left(store, customer) == 10_000 - 2 * PRICE
    alone = {name: value for name, value in body.items() if name != "parentWaybillCode"}
    assert "parentWaybillCode" in issue(gateway, customer.token, alone).msg


def test_100_a_parent_must_be_a_first_parcel_of_the_same_shop_and_carrier(
    gateway: Gateway, store: Store, wp_code: str
) -> None:
    customer, other = new_customer(store), new_customer(store)
    authorize_shops(store, customer, "another-shop")

    def issued(caller: Caller, **changes: Any) -> str:
        number: str = issue(gateway, caller.token, request(wp_code, **changes)).data["waybillCode"]
        return number

    first = issued(customer)
    cancelled = issued(customer)
    store.do(lambda database: cancel_waybill(database, cancelled, wp_code, RUNTIME))
    numbers = (
        "no-such-number",
        issued(other),
        issued(customer, owner_id="another-shop"),
        issued(customer, parentWaybillCode=first),
        cancelled,
    )
    before = credits_left(store, customer)
    for number in numbers:
        reply = issue(gateway, customer.token, request(wp_code, parentWaybillCode=number))
        assert (reply.code, reply.data) == (100, {})
        assert "parentWaybillCode" in reply.msg
    elsewhere = request(new_carrier(store, 1), parentWaybillCode=first)
    assert issue(gateway, customer.token, elsewhere).code == 100
    assert credits_left(store, customer) == before

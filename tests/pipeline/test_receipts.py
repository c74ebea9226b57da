"""Receipts over HTTP: one test for each thing that can become of a call."""

from datetime import date
from typing import Any

import pytest

from tests.support.all_operations import all_operations_caller, ask, good_request
from tests.support.changes import assert_seen
from tests.support.gateway import Gateway, Reply
from tests.support.ledger import new_caller, newest_entry
from tests.support.receipts import ask_receipt, id_of, notes_of, receipt_of
from tests.support.stores import Store
from tollway.carriers.carriers import AreaKind, ServiceArea, add_carrier
from tollway.consent.grants import grants_of_account
from tollway.contract.operation import Operation
from tollway.demo.owners import SHOP
from tollway.ledger.permissions import set_closed
from tollway.operations.catalogue import OPERATIONS
from tollway.operations.coupon_claims.operation import COUPON_CLAIMS
from tollway.operations.orders.operation import ORDERS
from tollway.operations.product_analysis.operation import PRODUCT_ANALYSIS
from tollway.operations.waybills.operation import WAYBILLS

each_operation = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)


@each_operation
def test_a_charged_call_tells_price_and_balances(
    served: Gateway, world: Store, today: date, operation: Operation
) -> None:
    caller = all_operations_caller(world)
    reply = ask(served, operation, caller.token, good_request(operation, today))
    # At once: it follows from the entry that was there before the answer left.
    receipt = ask_receipt(served, caller.token, id_of(reply)).data
    entry = newest_entry(world, caller, operation.balance_unit)
    price = operation.default_price
    assert receipt["request_id"] == id_of(reply) == entry.request_id
    assert (receipt["account_id"], receipt["token_id"]) == (caller.account_id, caller.token_id)
    assert (receipt["operation"], receipt["at_ms"]) == (operation.name, entry.at_ms)
    assert (receipt["outcome"], receipt["code"], receipt["reason"]) == ("charged", 0, "SUCCESS")
    assert (receipt["amount"], receipt["unit"]) == (price, operation.balance_unit)
    assert receipt["balance_before"] - price == receipt["balance_after"] == entry.balance_after
    assert (receipt["replay_of"], receipt["hold"]) == (None, None)


@each_operation
def test_a_call_under_a_grant_names_the_consent_that_was_used(
    served: Gateway, world: Store, today: date, operation: Operation
) -> None:
    caller = all_operations_caller(world)
    reply = ask(served, operation, caller.token, good_request(operation, today))
    used = ask_receipt(served, caller.token, id_of(reply)).data["consent"]
    if operation.consent is None:
        assert used is None
        return
    grants = world.do(lambda database: grants_of_account(database, caller.account_id))
    (expected,) = [
        {"owner_kind": each.owner_kind, "owner_id": each.owner_id, "consent_id": each.id}
        for each in (named.grant for named in grants)
        if each.scope == operation.consent.scope
    ]
    assert used == expected


@each_operation
def test_a_repetition_with_a_key_names_the_call_that_paid(
    served: Gateway, world: Store, today: date, operation: Operation
) -> None:
    caller, sent = all_operations_caller(world), good_request(operation, today)
    key = {"Idempotency-Key": "once"}
    first, again = (ask(served, operation, caller.token, sent, key) for _ in range(2))
    receipt = receipt_of(served, caller.token, again)
    assert (receipt["outcome"], receipt["reason"]) == ("not_charged", "REPLAYED")
    assert receipt["replay_of"] == id_of(first)
    assert (receipt["amount"], receipt["balance_after"]) == (0, None)
    assert receipt_of(served, caller.token, first)["outcome"] == "charged"


def test_an_issued_waybill_and_one_asked_for_again_name_it(
    served: Gateway, world: Store, today: date
) -> None:
    caller, sent = all_operations_caller(world), good_request(WAYBILLS, today)
    first, again = (ask(served, WAYBILLS, caller.token, sent) for _ in range(2))
    paid, free = (receipt_of(served, caller.token, reply) for reply in (first, again))
    assert (paid["outcome"], paid["amount"]) == ("charged", WAYBILLS.default_price)
    assert (free["outcome"], free["reason"], free["amount"]) == ("not_charged", "REPLAYED", 0)
    assert free["replay_of"] == id_of(first)
    assert (
        paid["waybill"]
        == free["waybill"]
        == {
            "object_id": first.data["objectId"],
            "wp_code": sent["wp_code"],
            "number": first.data["waybillCode"],
            "state": "issued",
            "parent_number": None,
            "warnings": [],
        }
    )


def test_what_a_carrier_refuses_is_not_charged(served: Gateway, world: Store, today: date) -> None:
    area = ServiceArea(AreaKind.ONLY, ("西藏",))
    world.do(lambda database: add_carrier(database, "FAR", "远方快递", r"F\d{8}", area))
    caller = all_operations_caller(world)
    reply = ask(served, WAYBILLS, caller.token, {**good_request(WAYBILLS, today), "wp_code": "FAR"})
    assert (reply.code, reply.data["code"]) == (0, 0)
    receipt = receipt_of(served, caller.token, reply)
    assert (receipt["outcome"], receipt["code"]) == ("not_charged", 0)
    assert (receipt["reason"], receipt["amount"]) == ("NOT_DONE", 0)
    assert receipt["waybill"] is None


def test_a_free_call_says_that_it_was_free(served: Gateway, world: Store, today: date) -> None:
    caller = all_operations_caller(world, price=0)
    for operation in (COUPON_CLAIMS, ORDERS):
        reply = ask(served, operation, caller.token, good_request(operation, today))
        receipt = receipt_of(served, caller.token, reply)
        assert (receipt["outcome"], receipt["code"]) == ("not_charged", 0)
        assert (receipt["reason"], receipt["amount"]) == ("FREE", 0)
        assert (receipt["consent"] is None) == (operation.consent is None)


ZH = {"Accept-Language": "zh"}
WRONG: dict[str, tuple[dict[str, Any], str, str]] = {
    "PARAMETER_INVALID": (
        {"receiver_phone": "call me 7f3"},
        "Parameter receiver_phone is not valid: it is not a phone number. Send ",
        "参数 receiver_phone 无效：不是电话号码。请传入",
    ),
    "PARAMETER_MISSING": (
        {"receiver_name": None},
        "Parameter receiver_name is missing: send ",
        "缺少参数 receiver_name：请传入",
    ),
    "SPELLINGS_CONFLICT": (
        {"sender_phone": "13912345678"},
        "sender_mobile and sender_phone are two spellings of one parameter and differ",
        "sender_mobile 与 sender_phone 是同一参数的两种写法且取值不同",
    ),
}


@pytest.mark.parametrize("reason", WRONG)
def test_a_refused_parameter_is_named_and_its_value_is_not_kept(
    served: Gateway, world: Store, today: date, reason: str
) -> None:
    changed, in_english, in_chinese = WRONG[reason]
    caller = all_operations_caller(world)
    reply = ask(served, WAYBILLS, caller.token, {**good_request(WAYBILLS, today), **changed})
    receipt = receipt_of(served, caller.token, reply)
    assert receipt["reason"] == reason
    assert receipt["msg"] == reply.msg and reply.msg.startswith(in_english)
    said = ask_receipt(served, caller.token, id_of(reply), **ZH).data["msg"]
    assert said.startswith(in_chinese)
    for value in changed.values():
        assert value is None or value not in said + receipt["msg"]


REFUSALS: dict[str, tuple[Operation, dict[str, Any], dict[str, Any]]] = {
    "PARAMETER_INVALID": (COUPON_CLAIMS, {}, {"limit": "x"}),
    "PRODUCT_UNKNOWN": (PRODUCT_ANALYSIS, {}, {"product_id": "unknown"}),
    "OWNER_UNKNOWN": (ORDERS, {}, {"owner_id": "unknown"}),
    "CREDITS_USED_UP": (COUPON_CLAIMS, {"credits_": 0}, {}),
    "CALLS_USED_UP": (PRODUCT_ANALYSIS, {"calls": 0}, {}),
    "PERMISSION_MISSING": (COUPON_CLAIMS, {"granted": False}, {}),
    "CARRIER_UNKNOWN": (WAYBILLS, {}, {"wp_code": "UNKNOWN"}),
}


@pytest.mark.parametrize("reason", REFUSALS)
def test_a_refused_call_says_why_and_that_nothing_was_charged(
    served: Gateway, world: Store, today: date, reason: str
) -> None:
    operation, of_account, change = REFUSALS[reason]
    caller = all_operations_caller(world, **of_account)
    reply = ask(served, operation, caller.token, {**good_request(operation, today), **change})
    assert reply.code != 0
    receipt = receipt_of(served, caller.token, reply)
    assert (receipt["outcome"], receipt["amount"]) == ("not_charged", 0)
    assert (receipt["code"], receipt["reason"]) == (reply.code, reason)
    assert receipt["operation"] == operation.name
    assert f"code {reply.code} ({reason})" in receipt["why"]


def test_a_closed_operation_and_a_missing_consent_have_receipts(
    served: Gateway, world: Store, today: date
) -> None:
    caller = new_caller(world, operations=OPERATIONS, credits_=100)
    not_allowed = ask(served, ORDERS, caller.token, {"owner_id": SHOP.id})
    world.do(lambda database: set_closed(database, COUPON_CLAIMS.name, is_closed=True))

    def call() -> Reply:
        return ask(served, COUPON_CLAIMS, caller.token, good_request(COUPON_CLAIMS, today))

    try:
        assert_seen(world, lambda: call().code, 203)
        closed = call()
    finally:
        world.do(lambda database: set_closed(database, COUPON_CLAIMS.name, is_closed=False))
    receipts = [receipt_of(served, caller.token, reply) for reply in (not_allowed, closed)]
    assert [(each["code"], each["reason"]) for each in receipts] == [
        (302, "NOT_AUTHORIZED"),
        (203, "OPERATION_CLOSED"),
    ]
    owners = [(each["owner_kind"], each["owner_id"]) for each in receipts]
    assert owners == [("shop", SHOP.id), (None, None)]


def test_the_receipt_of_a_refused_call_names_the_shop_that_it_asked_for(
    served: Gateway, world: Store, today: date
) -> None:
    caller = all_operations_caller(world)
    sent = good_request(ORDERS, today)
    unknown = ask(served, ORDERS, caller.token, {**sent, "owner_id": "no such shop"})
    unread = ask(served, ORDERS, caller.token, {**sent, "page": "x"})
    paid = ask(served, ORDERS, caller.token, sent)
    receipts = [receipt_of(served, caller.token, each) for each in (unknown, unread, paid)]
    assert [each["code"] for each in receipts] == [103, 100, 0]
    owners = [(each["owner_kind"], each["owner_id"]) for each in receipts]
    # What cannot be read names none.
    assert owners == [("shop", "no such shop"), (None, None), ("shop", SHOP.id)]


def test_the_reason_is_given_in_chinese_too(served: Gateway, world: Store, today: date) -> None:
    caller = all_operations_caller(world)
    reply = ask(served, COUPON_CLAIMS, caller.token, good_request(COUPON_CLAIMS, today))
    receipt = receipt_of(served, caller.token, reply, **{"Accept-Language": "zh-CN"})
    assert receipt["why"] == "调用成功，已扣费。"


def test_charged_calls_are_not_written_a_second_time(
    served: Gateway, world: Store, today: date
) -> None:
    caller = all_operations_caller(world)
    for operation in OPERATIONS:
        assert ask(served, operation, caller.token, good_request(operation, today)).code == 0
    # Refused calls are written in order: when this one is there, those before it are too.
    receipt_of(served, caller.token, ask(served, COUPON_CLAIMS, caller.token, {}))
    assert notes_of(world, caller) == 1

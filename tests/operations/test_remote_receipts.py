"""Receipts of waybills of a remote carrier: one id tells the whole way, however late it ends."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.fake_carrier import ISSUE, LOOK_UP, FakeCarrier
from tests.support.gateway import Gateway, Reply
from tests.support.ledger import Caller
from tests.support.receipts import receipt_of
from tests.support.remote import age_pending, eventually
from tests.support.stores import Store
from tests.support.waybills import PRICE, issue, new_customer, request
from tollway.demo.owners import SHOP

CREDITS = 100


@pytest.fixture
def customer(remote_store: Store) -> Caller:
    return new_customer(remote_store, credits_=CREDITS)


def receipt_for(served: Gateway, customer: Caller, of: Reply, **expected: object) -> dict[str, Any]:
    """The receipt, once it tells what is expected."""
    return eventually(
        lambda: receipt_of(served, customer.token, of),
        lambda receipt: expected.items() <= receipt.items(),
    )


def test_issued_at_once_it_is_charged(served: Gateway, customer: Caller, wp_code: str) -> None:
    reply = issue(served, customer.token, request(wp_code))
    receipt = receipt_of(served, customer.token, reply)
    assert (receipt["outcome"], receipt["code"], receipt["amount"]) == ("charged", 0, PRICE)
    assert (receipt["balance_before"], receipt["balance_after"]) == (CREDITS, CREDITS - PRICE)
    assert receipt["hold"]["state"] == "captured"
    assert receipt["consent"]["owner_id"] == SHOP.id
    assert receipt["waybill"]["number"] == reply.data["waybillCode"]


def test_what_the_carrier_refuses_is_given_back(
    served: Gateway, carrier: FakeCarrier, customer: Caller, wp_code: str
) -> None:
    carrier.misbehave("refuse", message=ISSUE, times=1)
    reply = issue(served, customer.token, request(wp_code))
    assert (reply.code, reply.data["code"]) == (0, 0)
    receipt = receipt_for(served, customer, reply, code=0)
    assert (receipt["outcome"], receipt["reason"]) == ("not_charged", "NOT_DONE")
    assert (receipt["amount"], receipt["hold"]["state"]) == (0, "released")
    assert receipt["waybill"]["state"] == "refused"


def test_answered_with_101_it_is_held_and_then_charged(
    served: Gateway, carrier: FakeCarrier, customer: Caller, hasty: str
) -> None:
    carrier.misbehave("stall_after_commit", message=ISSUE, times=1)
    carrier.misbehave("stall_before_commit", message=LOOK_UP)
    body = request(hasty)
    reply = issue(served, customer.token, body)
    assert reply.code == 101
    receipt = receipt_for(served, customer, reply, code=101)
    assert (receipt["outcome"], receipt["reason"]) == ("held", "CARRIER_SILENT")
    assert (receipt["amount"], receipt["balance_after"]) == (PRICE, CREDITS - PRICE)
    assert (receipt["hold"]["state"], receipt["waybill"]["state"]) == ("held", "pending")
    carrier.misbehave("none")
    later = receipt_for(served, customer, reply, outcome="charged")
    assert (later["code"], later["amount"], later["at_ms"]) == (101, PRICE, receipt["at_ms"])
    assert (later["hold"]["state"], later["waybill"]["state"]) == ("captured", "issued")
    again = issue(served, customer.token, body)
    replayed = receipt_of(served, customer.token, again)
    assert (replayed["reason"], replayed["replay_of"]) == ("REPLAYED", receipt["request_id"])
    assert replayed["waybill"] == later["waybill"]


def test_answered_with_101_it_is_held_and_then_given_back(
    served: Gateway, remote_store: Store, carrier: FakeCarrier, customer: Caller, wp_code: str
) -> None:
    carrier.misbehave("cut_before_commit", message=ISSUE, times=1)
    reply = issue(served, customer.token, request(wp_code))
    assert receipt_for(served, customer, reply, code=101)["outcome"] == "held"
    age_pending(remote_store)
    later = receipt_for(served, customer, reply, outcome="not_charged")
    assert (later["code"], later["amount"], later["unit"]) == (101, 0, None)
    assert (later["hold"]["state"], later["waybill"]["state"]) == ("released", "refused")


def test_answered_with_101_and_charged_later_it_is_listed_and_counted_once(
    served: Gateway, carrier: FakeCarrier, customer: Caller, hasty: str
) -> None:
    carrier.misbehave("stall_after_commit", message=ISSUE, times=1)
    carrier.misbehave("stall_before_commit", message=LOOK_UP)
    reply = issue(served, customer.token, request(hasty))
    held = receipt_for(served, customer, reply, code=101)
    today = datetime.fromtimestamp(held["at_ms"] / 1000, UTC).date()
    span = {"from_date": f"{today - timedelta(1)}", "to_date": f"{today + timedelta(1)}"}

    def listed() -> list[tuple[str, int, int]]:
        found = served.get("/account/v1/requests", token=customer.token).data["requests"]
        return [(each["request_id"], each["code"], each["amount"]) for each in found]

    def counted() -> tuple[int, int]:
        days = served.get("/account/v1/usage", token=customer.token, query=span).data["days"]
        return sum(each["charged_calls"] for each in days), sum(
            each["other_calls"] for each in days
        )

    assert (listed(), counted()) == ([(held["request_id"], 101, 0)], (0, 1))
    carrier.misbehave("none")
    receipt_for(served, customer, reply, outcome="charged")
    assert (listed(), counted()) == ([(held["request_id"], 0, PRICE)], (1, 0))

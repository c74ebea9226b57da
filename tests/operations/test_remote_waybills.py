"""Waybills of a remote carrier through real HTTP: each outcome, and never two of one order."""

import asyncio
import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.support import forks
from tests.support.fake_carrier import ISSUE, LOOK_UP, FakeCarrier
from tests.support.gateway import Gateway, Reply
from tests.support.late_answers import LateAnswers
from tests.support.ledger import Caller
from tests.support.remote import (
    HASTY,
    PATIENT,
    LedgerState,
    age_past_deadline,
    age_pending,
    connected_carrier,
    eventually,
    kill_while_asking,
    ledger_of,
)
from tests.support.stores import Store
from tests.support.waybills import (
    PRICE,
    issue,
    load_numbers,
    new_customer,
    request,
    without_charge,
)
from tollway.carriers.carrier_links import disconnect
from tollway.operations.waybills.operation import WAYBILLS

# Without a deadline it would be the client that gives up, after 30 s.
ANSWERED_WITHIN_S = 20
CREDITS = 10_000


@pytest.fixture
def customer(remote_store: Store) -> Caller:
    return new_customer(remote_store, credits_=CREDITS)


def numbers(carrier: FakeCarrier, body: dict[str, Any]) -> list[str]:
    """What the carrier's journal has for an order."""
    return [
        line["number"]
        for line in carrier.journal()
        if line["event"] == "issued" and line["order_sn"] == body["order_sn"]
    ]


def settled(store: Store, caller: Caller) -> LedgerState:
    return eventually(lambda: ledger_of(store, caller), lambda ledger: ledger.held == 0)


def test_the_carrier_gives_the_number_and_the_price_is_captured(
    served: Gateway, remote_store: Store, carrier: FakeCarrier, customer: Caller, wp_code: str
) -> None:
    body = request(wp_code)
    reply = issue(served, customer.token, body)
    assert (reply.code, reply.data["code"]) == (0, 1)
    assert [reply.data["waybillCode"]] == numbers(carrier, body)
    # The sorting codes are the carrier's own.
    assert "转运中心" in reply.data["printData"]
    ledger = ledger_of(remote_store, customer)
    assert (ledger.available, ledger.held, ledger.posted) == (CREDITS - PRICE, 0, PRICE)
    assert ledger.kinds == ["top_up", "hold", "release", "charge"]
    assert reply.data["withholding_money"] == PRICE


@pytest.mark.parametrize("is_marked", [True, False])
def test_a_number_that_the_carrier_gave_itself_does_not_stop_its_pool(
    served: Gateway,
    remote_store: Store,
    carrier: FakeCarrier,
    customer: Caller,
    wp_code: str,
    is_marked: bool,
) -> None:
    first = issue(served, customer.token, request(wp_code)).data["waybillCode"]
    # It counts its numbers.
    given, free = (f"YT{int(first[2:]) + n:013d}" for n in (1, 2))
    assert load_numbers(remote_store, wp_code, [given, free]) == []
    assert issue(served, customer.token, request(wp_code)).data["waybillCode"] == given
    of_given = f"wp_code = '{wp_code}' AND number = '{given}'"
    assert remote_store.run(f"SELECT is_taken FROM waybill_number WHERE {of_given}") == [(1,)]
    if not is_marked:
        # As if it had been loaded at the same moment on another node.
        remote_store.run(f"UPDATE waybill_number SET is_taken = 0 WHERE {of_given}")
    remote_store.do(lambda database: disconnect(database, wp_code))
    reply = issue(served, customer.token, request(wp_code))
    assert (reply.code, reply.data["waybillCode"]) == (0, free)
    assert ledger_of(remote_store, customer).posted == 3 * PRICE
    out = issue(served, customer.token, request(wp_code))
    assert out.data["code"] == 0 and "used up" in out.data["errorMsg"]


def test_what_a_caller_still_waits_for_is_not_settled_without_the_carriers_sorting_codes(
    served: Gateway, remote_store: Store, carrier: FakeCarrier, customer: Caller
) -> None:
    """Only the direct answer has them; a look-up tells the number alone."""
    proxy = LateAnswers(f"{carrier.url}/")
    body = request(connected_carrier(remote_store, carrier, url=proxy.url, **PATIENT))
    with ThreadPoolExecutor(1) as pool, proxy.held(ISSUE) as answer:
        call = pool.submit(issue, served, customer.token, body)
        answer.wait()
        output = forks.run("tollway", "reconcile", "--json", env=remote_store.settings).stdout
        answer.let_go.set()
        reply = call.result()
    proxy.close()
    outcomes = [
        each["outcome"]
        for each in json.loads(output)
        if each["waybill"]["order_sn"] == body["order_sn"]
    ]
    assert [reply.data["waybillCode"]] == numbers(carrier, body)
    assert "转运中心" in reply.data["printData"]
    assert outcomes == ["still being asked"]


def test_asked_again_it_is_the_same_answer_and_the_carrier_hears_nothing(
    served: Gateway, remote_store: Store, carrier: FakeCarrier, customer: Caller, wp_code: str
) -> None:
    body = request(wp_code)
    first, second = (issue(served, customer.token, body) for _ in range(2))
    assert second.data == without_charge(first.data)
    assert second.headers["x-replay-of"] == first.headers["x-request-id"]
    assert len(numbers(carrier, body)) == 1
    assert ledger_of(remote_store, customer).posted == PRICE


def test_64_equal_requests_at_once_are_one_number_one_charge_and_one_answer(
    served: Gateway, remote_store: Store, carrier: FakeCarrier, customer: Caller, wp_code: str
) -> None:
    carrier.misbehave("delay", message=ISSUE, delay_ms=200, times=1)
    body = request(wp_code)
    answers = fire(served, customer, [body] * 64)
    assert {answer["code"] for answer in answers} == {0}
    data = [answer["data"] for answer in answers]
    assert sum(each["withholding_money"] > 0 for each in data) == 1
    assert all(without_charge(each) == without_charge(data[0]) for each in data)
    assert [answers[0]["data"]["waybillCode"]] == numbers(carrier, body)
    assert ledger_of(remote_store, customer).posted == PRICE


def fire(served: Gateway, caller: Caller, bodies: list[dict[str, Any]]) -> list[dict[str, Any]]:
    async def run() -> list[dict[str, Any]]:
        headers = {"Authorization": f"Bearer {caller.token}"}
        async with httpx.AsyncClient(
            base_url=served.base_url, headers=headers, timeout=60
        ) as client:
            replies = await asyncio.gather(
                *(client.post(WAYBILLS.path, json=body) for body in bodies)
            )
        return [reply.json() for reply in replies]

    return asyncio.run(run())


def test_what_the_carrier_refuses_is_an_inner_failure_and_costs_nothing(
    served: Gateway, remote_store: Store, carrier: FakeCarrier, customer: Caller, wp_code: str
) -> None:
    carrier.misbehave("refuse", message=ISSUE, reason="月结账号已冻结", times=1)
    body = request(wp_code)
    reply = issue(served, customer.token, body)
    assert (reply.code, reply.data["code"]) == (0, 0)
    assert reply.data["errorMsg"] == "月结账号已冻结"
    assert reply.data["withholding_money"] == 0
    ledger = ledger_of(remote_store, customer)
    assert (ledger.available, ledger.held, ledger.posted) == (CREDITS, 0, 0)
    assert ledger.kinds == ["top_up", "hold", "release"]
    # The order is free to be asked for again.
    assert issue(served, customer.token, body).data["code"] == 1


@pytest.mark.parametrize("fault", ["cut_after_commit", "cut_in_answer", "garbage", "wrong_digest"])
def test_an_answer_that_is_lost_is_looked_up_at_once(
    served: Gateway,
    remote_store: Store,
    carrier: FakeCarrier,
    customer: Caller,
    wp_code: str,
    fault: str,
) -> None:
    carrier.misbehave(fault, message=ISSUE, times=1)
    body = request(wp_code)
    reply = issue(served, customer.token, body)
    assert (reply.code, reply.data["code"]) == (0, 1)
    assert [reply.data["waybillCode"]] == numbers(carrier, body)
    assert ledger_of(remote_store, customer).posted == PRICE


def test_101_a_carrier_that_hangs_costs_its_deadline_and_is_settled_later(
    served: Gateway, remote_store: Store, carrier: FakeCarrier, customer: Caller, hasty: str
) -> None:
    carrier.misbehave("stall_after_commit", message=ISSUE, times=1)
    carrier.misbehave("stall_before_commit", message=LOOK_UP)
    body = request(hasty)
    began_s = time.monotonic()
    reply = issue(served, customer.token, body)
    assert HASTY["deadline_ms"] / 1000 <= time.monotonic() - began_s < ANSWERED_WITHIN_S
    assert_silent(reply)
    ledger = ledger_of(remote_store, customer)
    assert (ledger.available, ledger.held, ledger.posted) == (CREDITS - PRICE, PRICE, 0)
    # Asked again, it is neither issued nor held again.
    assert_silent(issue(served, customer.token, body))
    carrier.misbehave("none")
    settled(remote_store, customer)
    after = issue(served, customer.token, body)
    assert [after.data["waybillCode"]] == numbers(carrier, body)
    assert after.headers["x-replay-of"] == reply.headers["x-request-id"]
    assert ledger_of(remote_store, customer).posted == PRICE


def assert_silent(reply: Reply) -> None:
    assert (reply.code, reply.data) == (101, {})
    assert f"credits are held until it does ({PRICE})" in reply.msg


def test_101_what_never_reached_the_carrier_is_given_up_only_after_its_time(
    served: Gateway, remote_store: Store, carrier: FakeCarrier, customer: Caller, wp_code: str
) -> None:
    carrier.misbehave("cut_before_commit", message=ISSUE, times=1)
    body, before = request(wp_code), carrier.received(LOOK_UP)
    assert_silent(issue(served, customer.token, body))
    # The carrier says that it does not know it, as often as it is asked. That does not count yet.
    age_past_deadline(remote_store, PATIENT["deadline_ms"])
    eventually(lambda: carrier.received(LOOK_UP), lambda received: received > before + 2)
    assert ledger_of(remote_store, customer).held == PRICE
    age_pending(remote_store)
    ledger = settled(remote_store, customer)
    assert (ledger.available, ledger.posted) == (CREDITS, 0)
    assert numbers(carrier, body) == []
    assert issue(served, customer.token, body).data["code"] == 1
    assert len(numbers(carrier, body)) == 1


def test_a_late_commit_of_the_carrier_is_not_issued_twice(
    served: Gateway, remote_store: Store, carrier: FakeCarrier, customer: Caller, hasty: str
) -> None:
    # The carrier does it after the gateway has stopped waiting, and after it was first asked again.
    carrier.misbehave(
        "stall_after_commit", message=ISSUE, times=1, delay_ms=HASTY["deadline_ms"] + 300
    )
    body = request(hasty)
    assert_silent(issue(served, customer.token, body))
    settled(remote_store, customer)
    reply = issue(served, customer.token, body)
    assert [reply.data["waybillCode"]] == numbers(carrier, body)
    assert ledger_of(remote_store, customer).posted == PRICE


def test_101_a_carrier_that_is_not_there_holds_nothing(
    served: Gateway, remote_store: Store, customer: Caller, carrier: FakeCarrier
) -> None:
    unreachable = connected_carrier(remote_store, carrier, url="http://127.0.0.1:9", **PATIENT)
    for _ in range(8):  # The later ones are refused by the breaker, and not even held.
        reply = issue(served, customer.token, request(unreachable))
        assert (reply.code, reply.data) == (101, {})
        assert "cannot be reached" in reply.msg
    ledger = ledger_of(remote_store, customer)
    assert (ledger.available, ledger.held, ledger.posted) == (CREDITS, 0, 0)
    assert ledger.kinds.count("hold") == 5


def test_204_without_credits_the_carrier_is_not_asked(
    served: Gateway, remote_store: Store, carrier: FakeCarrier, wp_code: str
) -> None:
    poor = new_customer(remote_store, credits_=PRICE - 1)
    before = carrier.received(ISSUE)
    assert issue(served, poor.token, request(wp_code)).code == 204
    assert carrier.received(ISSUE) == before
    assert ledger_of(remote_store, poor).kinds == ["top_up"]


def test_a_restart_settles_what_the_process_before_left_behind(
    tmp_path_factory: pytest.TempPathFactory, carrier: FakeCarrier
) -> None:
    store = Store(tmp_path_factory.mktemp("restart") / "tollway.db")
    customer = new_customer(store, credits_=CREDITS)
    wp_code = connected_carrier(store, carrier, **PATIENT)
    body = request(wp_code)
    carrier.misbehave("stall_after_commit", message=ISSUE, times=1)
    kill_while_asking(Gateway(store), carrier, customer, body)
    eventually(lambda: numbers(carrier, body), bool)
    carrier.misbehave("none")
    age_past_deadline(store, PATIENT["deadline_ms"])
    gateway = Gateway(store)
    ledger = settled(store, customer)
    assert ledger.posted == PRICE
    reply = issue(gateway, customer.token, body)
    assert [reply.data["waybillCode"]] == numbers(carrier, body)
    assert gateway.stop() == 0


def test_asked_for_again_after_it_was_given_up_it_is_still_recorded_for_the_owner(
    tmp_path_factory: pytest.TempPathFactory, carrier: FakeCarrier
) -> None:
    store = Store(tmp_path_factory.mktemp("given-up") / "tollway.db")
    customer = new_customer(store, credits_=CREDITS)
    wp_code = connected_carrier(store, carrier, **PATIENT)
    carrier.misbehave("cut_before_commit", message=ISSUE, times=1)
    # Nothing else settles it, so the caller's own repetition does, and then starts over.
    gateway = Gateway(store, reconcile_interval_s=3600)
    body = request(wp_code)
    assert_silent(issue(gateway, customer.token, body))
    age_pending(store)
    again = issue(gateway, customer.token, body)
    assert again.code == 0
    assert ledger_of(store, customer).posted == PRICE
    uses = store.run("SELECT request_id FROM consent_use")
    assert uses == [(again.headers["x-request-id"],)]
    assert gateway.stop() == 0


def test_a_number_that_the_carrier_gave_before_leaves_the_credits_held(
    own_store: Store, carrier: FakeCarrier
) -> None:
    """The answer must not be that nothing was charged: the operator's decision may charge it."""
    customer = new_customer(own_store, credits_=CREDITS)
    wp_code = connected_carrier(own_store, carrier, **HASTY)
    gateway = Gateway(own_store, reconcile_interval_s=3600)
    first = issue(gateway, customer.token, request(wp_code)).data["waybillCode"]
    own_store.run(f"UPDATE waybill SET number = 'YT{int(first[2:]) + 1:013d}'")
    body = request(wp_code)
    for reply in (issue(gateway, customer.token, body) for _ in range(2)):
        assert (reply.code, reply.headers["x-tollway-reason"]) == (101, "CARRIER_SILENT"), reply.msg
        assert "credits are held until it does (10)" in reply.msg
    assert ledger_of(own_store, customer)[:3] == (CREDITS - 2 * PRICE, PRICE, PRICE)
    assert gateway.stop() == 0


def test_a_repetition_with_another_content_is_refused_whether_the_carrier_has_answered_or_not(
    served: Gateway, carrier: FakeCarrier, customer: Caller, wp_code: str
) -> None:
    body = request(wp_code)
    other = {**body, "receiver_name": "李四", "goods_name": "茶叶"}
    carrier.misbehave("cut_after_commit", message=ISSUE)
    carrier.misbehave("refuse", message=LOOK_UP)
    assert issue(served, customer.token, body).code == 101
    while_pending = issue(served, customer.token, other)
    carrier.misbehave("none")
    eventually(lambda: issue(served, customer.token, body).code, lambda code: code == 0)
    afterwards = issue(served, customer.token, other)
    for reply in (while_pending, afterwards):
        assert reply.code == 100
        assert "different: receiver_name, goods_name" in reply.msg
    assert len(numbers(carrier, body)) == 1

"""An Idempotency-Key of a waybill that waits for its carrier: it is taken from the hold on."""

import asyncio
from itertools import cycle
from typing import Any

import httpx
import pytest

from tests.support.fake_carrier import ISSUE, LOOK_UP, FakeCarrier
from tests.support.gateway import Gateway, Reply, reply_of
from tests.support.ledger import RUNTIME, Caller
from tests.support.remote import (
    PATIENT,
    LedgerState,
    age_pending,
    connected_carrier,
    eventually,
    kill_while_asking,
    ledger_of,
)
from tests.support.stores import Store
from tests.support.waybills import PRICE, issue, new_customer, request, without_charge
from tollway.carriers.waybills import cancel_waybill
from tollway.operations.waybills.operation import WAYBILLS

CREDITS = 10_000
# So long that requests which are let through are with the carrier at the same time.
AT_ONCE_MS = 300


@pytest.fixture
def customer(remote_store: Store) -> Caller:
    return new_customer(remote_store, credits_=CREDITS)


def ask(gateway: Gateway, caller: Caller, body: dict[str, Any], key: str = "k") -> Reply:
    return issue(gateway, caller.token, body, **{"Idempotency-Key": key})


def fire(gateways: list[Gateway], caller: Caller, bodies: list[dict[str, Any]]) -> list[Reply]:
    """All at once and with one key, alternating between the gateways."""

    async def run() -> list[Reply]:
        headers = {"Authorization": f"Bearer {caller.token}", "Idempotency-Key": "k"}
        async with httpx.AsyncClient(headers=headers, timeout=60) as client:
            replies = await asyncio.gather(
                *(
                    client.post(f"{gateway.base_url}{WAYBILLS.path}", json=body)
                    for gateway, body in zip(cycle(gateways), bodies, strict=False)
                )
            )
        return [reply_of(reply) for reply in replies]

    return asyncio.run(run())


def assert_reused(reply: Reply) -> None:
    assert (reply.code, reply.data) == (100, {})
    assert "Idempotency-Key was used for another request" in reply.msg


def settled(store: Store, caller: Caller) -> LedgerState:
    return eventually(lambda: ledger_of(store, caller), lambda ledger: ledger.held == 0)


def assert_only_one_of_different_ones_is_issued(
    store: Store, carrier: FakeCarrier, gateways: list[Gateway]
) -> None:
    customer = new_customer(store, credits_=CREDITS)
    wp_code = connected_carrier(store, carrier, **PATIENT)
    carrier.misbehave("delay", message=ISSUE, delay_ms=AT_ONCE_MS)
    before = carrier.received(ISSUE)
    replies = fire(gateways, customer, [request(wp_code) for _ in range(8)])
    issued = [reply for reply in replies if reply.code == 0]
    assert len(issued) == 1
    for reply in replies:
        if reply is not issued[0]:
            assert_reused(reply)
    assert carrier.received(ISSUE) == before + 1
    ledger = ledger_of(store, customer)
    assert (ledger.available, ledger.posted) == (CREDITS - PRICE, PRICE)
    assert ledger.kinds == ["top_up", "hold", "release", "charge"]


def test_of_different_requests_at_once_with_one_key_one_is_issued_and_paid(
    served: Gateway, remote_store: Store, carrier: FakeCarrier
) -> None:
    assert_only_one_of_different_ones_is_issued(remote_store, carrier, [served])


@pytest.mark.postgresql
def test_so_it_is_when_they_come_to_different_nodes(own_store: Store, carrier: FakeCarrier) -> None:
    nodes = [Gateway(own_store) for _ in range(2)]
    try:
        for _ in range(3):
            assert_only_one_of_different_ones_is_issued(own_store, carrier, nodes)
    finally:
        assert [node.stop() for node in nodes] == [0, 0]


# Whatever is reserved is gone again within its own statement.
_NEVER_RESERVED = {
    "sqlite": [
        "CREATE TRIGGER forget AFTER INSERT ON idempotency_key WHEN length(NEW.sealed) = 0 BEGIN "
        "DELETE FROM idempotency_key WHERE account_id = NEW.account_id AND key = NEW.key; END"
    ],
    "postgresql": [
        "CREATE FUNCTION forget() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN DELETE FROM "
        "idempotency_key WHERE account_id = NEW.account_id AND key = NEW.key; RETURN NULL; END $$",
        "CREATE TRIGGER forget AFTER INSERT ON idempotency_key FOR EACH ROW "
        "WHEN (length(NEW.sealed) = 0) EXECUTE FUNCTION forget()",
    ],
}


def test_without_the_reservation_several_would_be_issued_and_paid(
    own_store: Store, carrier: FakeCarrier, engine: str
) -> None:
    gateway = Gateway(own_store)
    for statement in _NEVER_RESERVED[engine]:
        own_store.run(statement)
    with pytest.raises(AssertionError, match=r"== 1"):
        assert_only_one_of_different_ones_is_issued(own_store, carrier, [gateway])
    assert gateway.stop() == 0
    ((paid,),) = own_store.run("SELECT count(*) FROM waybill WHERE state = 'issued'")
    assert paid > 1


def test_equal_requests_at_once_with_one_key_are_one_number_one_charge_and_one_answer(
    served: Gateway, remote_store: Store, carrier: FakeCarrier, customer: Caller, wp_code: str
) -> None:
    carrier.misbehave("delay", message=ISSUE, delay_ms=AT_ONCE_MS)
    before = carrier.received(ISSUE)
    body = request(wp_code)
    replies = fire([served], customer, [body] * 32)
    assert {reply.code for reply in replies} == {0}
    (paid,) = [reply for reply in replies if "x-replay-of" not in reply.headers]
    assert paid.data["withholding_money"] == PRICE
    repeated = without_charge(paid.data)
    assert all(reply.data == repeated for reply in replies if reply is not paid)
    again = [reply.headers["x-replay-of"] for reply in replies if reply is not paid]
    assert set(again) == {paid.headers["x-request-id"]}
    assert carrier.received(ISSUE) == before + 1
    assert ledger_of(remote_store, customer).posted == PRICE


def test_while_the_carrier_is_silent_the_key_is_taken_for_others_and_101_for_the_same(
    served: Gateway, remote_store: Store, carrier: FakeCarrier, customer: Caller, hasty: str
) -> None:
    carrier.misbehave("stall_after_commit", message=ISSUE, times=1)
    carrier.misbehave("stall_before_commit", message=LOOK_UP)
    body, before = request(hasty), carrier.received(ISSUE)
    first = ask(served, customer, body)
    assert first.code == 101
    assert_reused(ask(served, customer, request(hasty)))
    assert_reused(ask(served, customer, {**body, "receiver_name": "another"}))
    assert ask(served, customer, body).code == 101
    assert carrier.received(ISSUE) == before + 1
    assert ledger_of(remote_store, customer).kinds == ["top_up", "hold"]
    carrier.misbehave("none")
    assert settled(remote_store, customer).posted == PRICE
    # Issued late, and paid: the key is still that of the one request, and has its answer now.
    assert_reused(ask(served, customer, request(hasty)))
    for _ in range(2):
        again = ask(served, customer, body)
        assert (again.code, again.data["code"]) == (0, 1)
        assert again.headers["x-replay-of"] == first.headers["x-request-id"]
    assert_reused(ask(served, customer, request(hasty)))
    assert ledger_of(remote_store, customer).posted == PRICE


def test_after_a_refusal_of_the_carrier_the_key_is_free(
    served: Gateway, remote_store: Store, carrier: FakeCarrier, customer: Caller, wp_code: str
) -> None:
    carrier.misbehave("refuse", message=ISSUE, reason="月结账号已冻结", times=1)
    assert ask(served, customer, request(wp_code)).data["code"] == 0
    body = request(wp_code)
    first, second = (ask(served, customer, body) for _ in range(2))
    assert second.data == without_charge(first.data)
    assert second.headers["x-replay-of"] == first.headers["x-request-id"]
    assert ledger_of(remote_store, customer).posted == PRICE


def test_a_carrier_that_is_not_there_leaves_the_key_free(
    served: Gateway, remote_store: Store, carrier: FakeCarrier, customer: Caller, wp_code: str
) -> None:
    unreachable = connected_carrier(remote_store, carrier, url="http://127.0.0.1:9", **PATIENT)
    assert ask(served, customer, request(unreachable)).code == 101
    assert ask(served, customer, request(wp_code)).data["code"] == 1


def test_what_is_given_up_leaves_the_key_free(
    served: Gateway, remote_store: Store, carrier: FakeCarrier, customer: Caller, wp_code: str
) -> None:
    carrier.misbehave("cut_before_commit", message=ISSUE, times=1)
    assert ask(served, customer, request(wp_code)).code == 101
    assert_reused(ask(served, customer, request(wp_code)))
    age_pending(remote_store)
    assert settled(remote_store, customer).posted == 0
    assert ask(served, customer, request(wp_code)).data["code"] == 1


def test_what_was_issued_late_and_cancelled_since_is_answered_again_and_not_charged(
    served: Gateway, remote_store: Store, carrier: FakeCarrier, customer: Caller, wp_code: str
) -> None:
    carrier.misbehave("cut_after_commit", message=ISSUE, times=1)
    carrier.misbehave("refuse", message=LOOK_UP)
    body, before = request(wp_code), carrier.received(ISSUE)
    first = ask(served, customer, body)
    assert first.code == 101
    carrier.misbehave("none")
    age_pending(remote_store)
    assert settled(remote_store, customer).posted == PRICE
    number = carrier.issued()[-1]
    remote_store.do(lambda database: cancel_waybill(database, number, wp_code, RUNTIME))
    # As if the first answer had come in time: then it would be stored under the key.
    for _ in range(2):
        again = ask(served, customer, body)
        assert (again.code, again.data["waybillCode"]) == (0, number)
        assert again.data["withholding_money"] == 0
        assert again.headers["x-replay-of"] == first.headers["x-request-id"]
    assert carrier.received(ISSUE) == before + 1
    assert ledger_of(remote_store, customer).posted == PRICE
    # Without the key, or with another one, the order can have another waybill.
    assert ask(served, customer, body, "another").data["waybillCode"] != number
    assert ledger_of(remote_store, customer).posted == 2 * PRICE


def test_a_call_that_waits_for_another_and_one_with_the_same_key_do_not_both_have_it(
    served: Gateway, remote_store: Store, carrier: FakeCarrier, customer: Caller, wp_code: str
) -> None:
    """The first has no key. The second waits for it, and the third comes with the second's key:
    almost always the second finds it taken in the end."""
    carrier.misbehave("delay", message=ISSUE, delay_ms=3 * AT_ONCE_MS, times=1)
    body = request(wp_code)
    headers = {"Authorization": f"Bearer {customer.token}"}
    keyed = {**headers, "Idempotency-Key": "k"}
    address = f"{served.base_url}{WAYBILLS.path}"
    before = carrier.received(ISSUE)

    def wait_for_the_carrier() -> None:
        eventually(lambda: carrier.received(ISSUE), lambda received: received > before)

    async def run() -> list[Reply]:
        async with httpx.AsyncClient(timeout=60) as client:
            first = asyncio.create_task(client.post(address, json=body, headers=headers))
            await asyncio.to_thread(wait_for_the_carrier)
            second = asyncio.create_task(client.post(address, json=body, headers=keyed))
            third = await client.post(address, json=request(wp_code), headers=keyed)
            return [reply_of(reply) for reply in (await first, await second, third)]

    first, second, third = asyncio.run(run())
    assert first.code == 0
    done, refused = (third, second) if third.code == 0 else (second, third)
    assert done.code == 0
    assert_reused(refused)
    assert ledger_of(remote_store, customer).posted == (PRICE if done is second else 2 * PRICE)


@pytest.mark.parametrize("fault", ["stall_after_commit", "stall_before_commit"])
def test_after_a_kill_between_the_two_commits_the_key_ends_as_its_hold_does(
    own_store: Store, carrier: FakeCarrier, fault: str
) -> None:
    customer = new_customer(own_store, credits_=CREDITS)
    wp_code = connected_carrier(own_store, carrier, **PATIENT)
    body = request(wp_code)
    carrier.misbehave(fault, message=ISSUE, times=1)
    carrier.misbehave("refuse", message=LOOK_UP)
    kill_while_asking(Gateway(own_store), carrier, customer, body, **{"Idempotency-Key": "k"})
    gateway = Gateway(own_store, reconcile_interval_s=1)
    assert_reused(ask(gateway, customer, request(wp_code)))
    carrier.misbehave("none")
    age_pending(own_store)
    ledger = settled(own_store, customer)
    other = ask(gateway, customer, request(wp_code))
    if fault == "stall_after_commit":
        assert ledger.posted == PRICE
        assert_reused(other)
        assert ask(gateway, customer, body).data["code"] == 1
    else:
        assert ledger.posted == 0
        assert other.data["code"] == 1
        assert_reused(ask(gateway, customer, body))
    assert ledger_of(own_store, customer).posted == PRICE
    assert gateway.stop() == 0

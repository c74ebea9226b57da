"""A repetition with the same Idempotency-Key, asked of each operation through real HTTP."""

import asyncio
from collections.abc import Iterator
from datetime import date
from itertools import count
from typing import Any

import httpx
import pytest

from tests.support.all_operations import all_operations_caller, ask, good_request
from tests.support.gateway import Gateway, Reply
from tests.support.ledger import Caller, amount_left
from tests.support.remote import eventually
from tests.support.stores import Store
from tests.support.waybills import without_charge
from tollway.contract.operation import Operation
from tollway.ledger.idempotency import KEPT_MS, sweep_kept
from tollway.ledger.runtime import Runtime
from tollway.operations.catalogue import OPERATIONS
from tollway.operations.coupon_claims.operation import COUPON_CLAIMS
from tollway.operations.waybills.operation import WAYBILLS

each_operation = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)
_orders = count(1)


@pytest.fixture(scope="module")
def served(world: Store) -> Iterator[Gateway]:
    with Gateway(world) as gateway:
        yield gateway


def wanted(operation: Operation, today: date) -> dict[str, Any]:
    """A good request; of waybills, one for an order of its own."""
    sent = good_request(operation, today)
    if "order_sn" in sent:
        sent["order_sn"] = f"KEYED{next(_orders):08d}"
    return sent


def asked(
    served: Gateway, operation: Operation, caller: Caller, sent: dict[str, Any], key: str
) -> Reply:
    return ask(served, operation, caller.token, sent, {"Idempotency-Key": key})


@each_operation
def test_a_repetition_gets_the_same_answer_and_pays_nothing(
    served: Gateway, world: Store, today: date, operation: Operation
) -> None:
    price = operation.default_price
    # Exactly enough for one call: the repetition must not be asked for money it does not owe.
    caller = all_operations_caller(world, credits_=price, calls=1)
    sent = wanted(operation, today)
    first, second = (asked(served, operation, caller, sent, "order-1") for _ in range(2))
    assert (first.code, second.code) == (0, 0)
    assert second.data == without_charge(first.data)
    assert second.headers["x-replay-of"] == first.headers["x-request-id"]
    assert amount_left(world, caller, operation.balance_unit) == 0


@each_operation
def test_another_request_with_the_same_key_is_100_and_pays_nothing(
    served: Gateway, world: Store, today: date, operation: Operation
) -> None:
    caller = all_operations_caller(world)
    first = wanted(operation, today)
    assert asked(served, operation, caller, first, "k").code == 0
    before = amount_left(world, caller, operation.balance_unit)
    other = changed_request(operation, first)
    reply = asked(served, operation, caller, other, "k")
    assert (reply.code, reply.data) == (100, {})
    assert "Idempotency-Key was used for another request" in reply.msg
    assert amount_left(world, caller, operation.balance_unit) == before


@pytest.mark.parametrize("key", ["read-again", ""], ids=["keyed", "without key"])
@pytest.mark.parametrize(
    "operation", [each for each in OPERATIONS if each.consent], ids=lambda each: each.name
)
def test_the_owner_sees_every_repetition_and_what_it_repeats(
    served: Gateway, world: Store, today: date, operation: Operation, key: str
) -> None:
    caller = all_operations_caller(world)
    sent = wanted(operation, today)
    headers = {"Idempotency-Key": key} if key else {}
    replies = [ask(served, operation, caller.token, sent, headers) for _ in range(3)]
    assert [reply.code for reply in replies] == [0, 0, 0]
    if key:
        assert asked(served, operation, caller, changed_request(operation, sent), key).code == 100
    first, *again = (reply.headers["x-request-id"] for reply in replies)
    # A waybill is the same one for the same order, also without a key.
    is_repeated = bool(key) or operation is WAYBILLS
    rows = world.run(
        "SELECT request_id, replay_of FROM consent_use u JOIN consent c ON c.id = u.consent_id"
        f" WHERE c.account_id = '{caller.account_id}' ORDER BY request_id"
    )
    assert rows == [(first, None), *((each, first if is_repeated else None) for each in again)]


def changed_request(operation: Operation, sent: dict[str, Any]) -> dict[str, Any]:
    """The same request with one thing changed that would succeed by itself."""
    name, value = {
        "product_analysis": ("product_id", "another"),
        "coupon_claims": ("page", "2"),
        "promotion_material": ("page_size", 3),
        "waybills": ("order_sn", "ANOTHER-ORDER"),
        "orders": ("page", "1"),
    }[operation.name]
    return {**sent, name: value}


def test_one_key_of_two_operations_is_two_requests(
    served: Gateway, world: Store, today: date
) -> None:
    caller = all_operations_caller(world)
    first, second = OPERATIONS[:2]
    assert asked(served, first, caller, wanted(first, today), "k").code == 0
    assert asked(served, second, caller, wanted(second, today), "k").code == 100


def test_accounts_do_not_share_keys(served: Gateway, world: Store, today: date) -> None:
    sent = wanted(COUPON_CLAIMS, today)
    for caller in (all_operations_caller(world), all_operations_caller(world)):
        reply = asked(served, COUPON_CLAIMS, caller, sent, "k")
        assert (reply.code, "x-replay-of" in reply.headers) == (0, False)


def test_a_failure_is_not_kept(served: Gateway, world: Store, today: date) -> None:
    caller = all_operations_caller(world)
    good = wanted(COUPON_CLAIMS, today)
    assert asked(served, COUPON_CLAIMS, caller, {**good, "limit": "x"}, "k").code == 100
    assert asked(served, COUPON_CLAIMS, caller, good, "k").code == 0


@pytest.mark.parametrize("key", ["", "x" * 256, "tab\there"])
def test_a_key_that_is_none_is_100(served: Gateway, world: Store, today: date, key: str) -> None:
    reply = asked(
        served, COUPON_CLAIMS, all_operations_caller(world), wanted(COUPON_CLAIMS, today), key
    )
    assert reply.code == 100
    assert "Idempotency-Key is not valid: send it once" in reply.msg


def test_the_longest_key_is_one(served: Gateway, world: Store, today: date) -> None:
    caller, sent = all_operations_caller(world), wanted(COUPON_CLAIMS, today)
    replies = [asked(served, COUPON_CLAIMS, caller, sent, "~" * 255) for _ in range(2)]
    assert "x-replay-of" in replies[1].headers


def test_without_credits_a_new_key_is_204(served: Gateway, world: Store, today: date) -> None:
    caller = all_operations_caller(world, credits_=0)
    assert asked(served, COUPON_CLAIMS, caller, wanted(COUPON_CLAIMS, today), "k").code == 204


def test_the_sandbox_knows_keys_too(served: Gateway, world: Store, today: date) -> None:
    tester = all_operations_caller(world, kind="test")
    sent = wanted(COUPON_CLAIMS, today)
    replies = [asked(served, COUPON_CLAIMS, tester, sent, "k") for _ in range(2)]
    assert [reply.code for reply in replies] == [0, 0]
    assert replies[1].headers["x-replay-of"] == replies[0].headers["x-request-id"]


def test_64_at_once_with_one_key_are_one_charge_and_one_answer(
    served: Gateway, world: Store, today: date
) -> None:
    caller = all_operations_caller(world, rate_limit=1000)
    body = wanted(COUPON_CLAIMS, today)
    headers = {"Authorization": f"Bearer {caller.token}", "Idempotency-Key": "the-one"}

    async def fire() -> list[httpx.Response]:
        async with httpx.AsyncClient(
            base_url=served.base_url, headers=headers, timeout=30
        ) as client:
            return await asyncio.gather(
                *(client.post(COUPON_CLAIMS.path, data=body) for _ in range(64))
            )

    replies = asyncio.run(fire())
    answers = [reply.json() for reply in replies]
    assert {answer["code"] for answer in answers} == {0}
    data = [answer["data"] for answer in answers]
    assert sum(each["withholding_money"] > 0 for each in data) == 1
    assert all(without_charge(each) == without_charge(data[0]) for each in data)
    # One request was charged; the answers of all others name it.
    payers = [each for each in replies if "x-replay-of" not in each.headers]
    assert len(payers) == 1
    named = {each.headers["x-replay-of"] for each in replies if each is not payers[0]}
    assert named == {payers[0].headers["x-request-id"]}
    price = COUPON_CLAIMS.default_price
    assert amount_left(world, caller, COUPON_CLAIMS.balance_unit) == 1000 - price


def test_a_repetition_names_the_call_that_paid_also_if_that_one_had_no_key(
    served: Gateway, world: Store, today: date
) -> None:
    caller, sent = all_operations_caller(world), wanted(WAYBILLS, today)
    paid = ask(served, WAYBILLS, caller.token, sent)
    again = [asked(served, WAYBILLS, caller, sent, "later") for _ in range(2)]
    named = {each.headers["x-replay-of"] for each in again}
    assert named == {paid.headers["x-request-id"]}


def test_after_a_day_a_key_is_new_again(served: Gateway, world: Store, today: date) -> None:
    caller, sent = all_operations_caller(world), wanted(COUPON_CLAIMS, today)
    assert asked(served, COUPON_CLAIMS, caller, sent, "k").code == 0
    now_ms = Runtime().at_ms()
    of_caller = f"WHERE account_id = '{caller.account_id}'"

    def swept(age_ms: int) -> list[tuple[int]]:
        world.run(f"UPDATE idempotency_key SET at_ms = {now_ms - age_ms} {of_caller}")
        world.do(lambda database: sweep_kept(database, now_ms))
        return world.run(f"SELECT count(*) FROM idempotency_key {of_caller}")

    assert swept(KEPT_MS // 2) == [(1,)]
    # The gateway sweeps now and then: a row that it is just dropping is locked, and skipped here.
    eventually(lambda: swept(KEPT_MS + 60_000), lambda kept: kept == [(0,)])
    again = asked(served, COUPON_CLAIMS, caller, sent, "k")
    assert (again.code, "x-replay-of" in again.headers) == (0, False)

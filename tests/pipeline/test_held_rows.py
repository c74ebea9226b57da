"""Rows that one transaction has locked delay only the calls of their own account."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tests.support.functions import change_function
from tests.support.gateway import Gateway, Reply
from tests.support.ledger import Caller, calls_left, credits_left, new_caller
from tests.support.load import assert_ledger_adds_up
from tests.support.postgresql import left_open
from tests.support.remote import eventually
from tests.support.stores import Store
from tests.support.waybills import PRICE, issue, new_carrier, new_customer, request

pytestmark = pytest.mark.postgresql
KEY = {"Idempotency-Key": "the same"}
OTHERS, ROUNDS = 4, 5
# How another transaction can be in the way of an account's calls, each of which carries the key.
HOLDS = {
    "its balance is locked": "SELECT FROM balance WHERE account_id = '{0}' FOR UPDATE",
    "its count of calls is locked": "SELECT FROM admission WHERE account_id = '{0}' FOR UPDATE",
    "its count of calls is being made": (
        "DELETE FROM admission WHERE account_id = '{0}'; COMMIT; BEGIN; "
        "INSERT INTO admission VALUES ('{0}', 'product_analysis', '{{}}', '{{}}')"
    ),
    "its key is being taken": (
        "INSERT INTO idempotency_key (account_id, key, request_id, at_ms, fingerprint, sealed) "
        "VALUES ('{0}', 'the same', 'another', 9000000000000, '', '')"
    ),
}
WAITS_FOR_A_LOCK = """
SELECT FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'tollway' AND wait_event_type = 'Lock'"""


@pytest.fixture
def served(own_store: Store) -> Iterator[Gateway]:
    # On a busy machine what waits here might otherwise time out before the others are served.
    with Gateway(own_store, call_timeout_s=120) as gateway:
        yield gateway


class Calls:
    """Calls that are made side by side."""

    def __init__(self, gateway: Gateway, query: dict[str, str]) -> None:
        self._gateway = gateway
        self._query = query
        self._threads = ThreadPoolExecutor(32)

    def start(self, caller: Caller, headers: dict[str, str] | None = None) -> "Future[Reply]":
        return self._threads.submit(
            self._gateway.get, token=caller.token, query=self._query, headers=headers
        )

    def close(self) -> None:
        self._threads.shutdown()


@pytest.fixture
def calls(served: Gateway, question: dict[str, str]) -> Iterator[Calls]:
    made = Calls(served, question)
    yield made
    made.close()


def wait_for_a_lock(store: Store) -> None:
    eventually(lambda: store.run(WAITS_FOR_A_LOCK), bool)


@pytest.mark.parametrize("hold", HOLDS.values(), ids=HOLDS.keys())
def test_others_are_served_meanwhile_and_its_own_calls_afterwards(
    own_store: Store, calls: Calls, hold: str
) -> None:
    held, *others = (new_caller(own_store, rate_limit=1000) for _ in range(1 + OTHERS))
    for caller in (held, *others):
        assert calls.start(caller).result().code == 0
    # A key that is being taken is not seen before it is met: what else has a key in that batch
    # waits with it.
    kinds = [False] if "idempotency_key" in hold else [False, True]
    with left_open(own_store.url, hold.format(held.account_id)):
        waiting = [calls.start(held, KEY)]
        wait_for_a_lock(own_store)
        for nth in range(ROUNDS):
            # Side by side with what cannot be had.
            waiting.append(calls.start(held, KEY))
            key = {"Idempotency-Key": f"k{nth}"}
            free = [calls.start(each, key if has else None) for each in others for has in kinds]
            assert {each.result().code for each in free} == {0}
        assert not any(each.done() for each in waiting)
    replies = [each.result() for each in waiting]
    assert {reply.code for reply in replies} == {0}
    assert len({str(reply.data) for reply in replies}) == 1
    assert calls_left(own_store, held) == 100 - 1 - 1
    assert {calls_left(own_store, other) for other in others} == {100 - 1 - len(kinds) * ROUNDS}
    assert_ledger_adds_up(own_store, [])


def test_waybills_of_others_are_issued_meanwhile_and_its_own_afterwards(
    own_store: Store, served: Gateway
) -> None:
    held, *others = (new_customer(own_store) for _ in range(1 + OTHERS))
    carrier = new_carrier(own_store, 100)

    def start(caller: Caller) -> "Future[Reply]":
        return threads.submit(issue, served, caller.token, request(carrier))

    with ThreadPoolExecutor(32) as threads:
        with left_open(own_store.url, HOLDS["its balance is locked"].format(held.account_id)):
            waiting = [start(held)]
            wait_for_a_lock(own_store)
            for _ in range(ROUNDS):
                waiting.append(start(held))
                free = [start(each) for each in others]
                assert {each.result().code for each in free} == {0}
            assert not any(each.done() for each in waiting)
        assert {each.result().code for each in waiting} == {0}
    assert {credits_left(own_store, other) for other in others} == {10_000 - ROUNDS * PRICE}
    assert credits_left(own_store, held) == 10_000 - (1 + ROUNDS) * PRICE
    assert_ledger_adds_up(own_store, [])


def test_a_gateway_that_waits_for_all_locks_would_be_seen(own_store: Store, calls: Calls) -> None:
    held, other = new_caller(own_store), new_caller(own_store)
    change_function(own_store, "tollway_charge", ("IF waits THEN", "IF true THEN"))
    with left_open(own_store.url, HOLDS["its balance is locked"].format(held.account_id)):
        waiting = calls.start(held)
        wait_for_a_lock(own_store)
        free = calls.start(other)
        with pytest.raises(TimeoutError):
            free.result(timeout=1)
    assert waiting.result().code == free.result().code == 0


def assert_served(gateway: Gateway, caller: Caller, question: dict[str, str]) -> None:
    """On a busy machine a second may be too short for a call that nothing holds up."""
    eventually(lambda: gateway.get(token=caller.token, query=question).code, lambda code: code == 0)


def test_a_call_that_waits_too_long_is_not_charged(
    own_store: Store, question: dict[str, str]
) -> None:
    gateway = Gateway(own_store, call_timeout_s=1)
    held, other = new_caller(own_store), new_caller(own_store)
    with left_open(own_store.url, HOLDS["its balance is locked"].format(held.account_id)):
        assert gateway.get(token=held.token, query=question).code == 101
        assert_served(gateway, other, question)
    assert_served(gateway, held, question)
    assert (calls_left(own_store, held), calls_left(own_store, other)) == (99, 99)
    assert gateway.stop() == 0

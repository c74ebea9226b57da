"""What a call costs at the shared database, counted on the wire: one round trip pays it."""

from collections import Counter
from collections.abc import Iterator
from itertools import count

import pytest

from tests.support.gateway import Gateway
from tests.support.ledger import calls_left, new_caller
from tests.support.remote import eventually
from tests.support.stores import Store
from tests.support.wire import Wire

pytestmark = pytest.mark.postgresql
CALLS = 5
SETTLE = "tollway_charge("


@pytest.fixture
def wire(own_store: Store) -> Iterator[Wire]:
    made = Wire(own_store.url)
    yield made
    made.close()


@pytest.fixture
def served(own_store: Store, wire: Wire) -> Iterator[Gateway]:
    direct, own_store.url = own_store.url, wire.url
    gateway = Gateway(own_store)
    own_store.url = direct
    yield gateway
    assert gateway.stop() == 0


def settlements(trips: Counter[str]) -> int:
    return sum(times for text, times in trips.items() if SETTLE in text)


def is_of_a_call(text: str) -> bool:
    """Not what every node does now and then by itself."""
    of_nodes = ("tollway_listens", "LISTEN", "version", "refused_call", "call_timing")
    return SETTLE in text or not any(each in text for each in of_nodes)


def warm(gateway: Gateway, token: str, query: dict[str, str]) -> None:
    """Every statement is prepared on every connection that the next calls may get."""
    for _ in range(2):
        assert gateway.get(token=token, query=query).code == 0


# In both, something in the background may read meanwhile, or take a call's connection, and the call
# then prepares its statement on another one: it is tried again until a round was left in peace.


def test_a_settled_call_costs_one_round_trip(
    own_store: Store, served: Gateway, wire: Wire, question: dict[str, str]
) -> None:
    caller = new_caller(own_store, calls=10_000, rate_limit=1000)
    warm(served, caller.token, question)
    rounds = count(1)

    def call() -> tuple[int, list[int], list[str]]:
        wire.trips.clear()
        settled = []
        for _ in range(CALLS):
            assert served.get(token=caller.token, query=question).code == 0
            settled.append(settlements(wire.trips))
        return next(rounds), settled, [text for text in wire.trips.elements() if is_of_a_call(text)]

    # This answer is kept ready, so nothing is read for it: what is left is the charge alone.
    made, _, _ = eventually(
        call, lambda seen: seen[1] == [*range(1, CALLS + 1)] and len(seen[2]) == CALLS
    )
    assert calls_left(own_store, caller) == 10_000 - 2 - made * CALLS


def test_so_does_one_whose_answer_is_kept(
    own_store: Store, served: Gateway, wire: Wire, question: dict[str, str]
) -> None:
    caller = new_caller(own_store, calls=10_000, rate_limit=1000)
    keys = count(1)

    def call() -> tuple[int, list[str]]:
        key = next(keys)
        headers = {"Idempotency-Key": f"k{key}"}
        wire.trips.clear()
        assert served.get(token=caller.token, query=question, headers=headers).code == 0
        texts = [text for text in wire.trips.elements() if is_of_a_call(text)]
        return key, [text for text in texts if not is_looking_for_a_key(text)]

    def is_the_charge_alone(seen: tuple[int, list[str]]) -> bool:
        return [SETTLE in text for text in seen[1]] == [True]

    call()
    call()
    made, _ = eventually(call, is_the_charge_alone)
    assert own_store.run("SELECT count(*) FROM idempotency_key") == [(made,)]


def is_looking_for_a_key(text: str) -> bool:
    return "SELECT idempotency_key" in text or "balance.amount" in text


def test_the_wire_sees_every_statement(own_store: Store, wire: Wire) -> None:
    through = Store(own_store.path, wire.url)
    wire.trips.clear()
    through.run("SELECT 42")
    assert sum(times for text, times in wire.trips.items() if "SELECT 42" in text) >= 1

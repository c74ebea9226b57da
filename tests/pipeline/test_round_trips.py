"""What a call costs at the shared database, counted on the wire: one round trip pays it."""

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.support.gateway import Gateway
from tests.support.ledger import calls_left, new_caller
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
    return sum(count for text, count in trips.items() if SETTLE in text)


def is_of_a_call(text: str) -> bool:
    """Not what every node does now and then by itself."""
    of_nodes = ("tollway_listens", "LISTEN", "version", "refused_call")
    return not any(each in text for each in of_nodes)


def warm(gateway: Gateway, token: str, query: dict[str, str]) -> None:
    """Every statement is prepared on every connection that the next calls may get."""
    for _ in range(2):
        assert gateway.get(token=token, query=query).code == 0


def test_a_settled_call_costs_one_round_trip(
    own_store: Store, served: Gateway, wire: Wire, question: dict[str, str]
) -> None:
    caller = new_caller(own_store, rate_limit=1000)
    warm(served, caller.token, question)
    wire.trips.clear()
    for number in range(1, CALLS + 1):
        assert served.get(token=caller.token, query=question).code == 0
        assert settlements(wire.trips) == number
    # This answer is kept ready, so nothing is read for it: what is left is the charge alone.
    of_calls = [text for text in wire.trips.elements() if is_of_a_call(text)]
    assert len(of_calls) == CALLS, wire.trips
    assert calls_left(own_store, caller) == 100 - 2 - CALLS


def test_so_does_one_whose_answer_is_kept(
    own_store: Store, served: Gateway, wire: Wire, question: dict[str, str]
) -> None:
    caller = new_caller(own_store, rate_limit=1000)

    def call(key: str) -> None:
        headers = {"Idempotency-Key": key}
        assert served.get(token=caller.token, query=question, headers=headers).code == 0

    call("first")
    call("second")
    wire.trips.clear()
    call("third")
    writes = [
        text for text in wire.trips if is_of_a_call(text) and "SELECT idempotency_key" not in text
    ]
    assert settlements(wire.trips) == 1
    assert [text for text in writes if "balance.amount" not in text] == [
        text for text in wire.trips if SETTLE in text
    ]
    assert own_store.run("SELECT count(*) FROM idempotency_key") == [(3,)]


def test_the_wire_sees_every_statement(own_store: Store, wire: Wire) -> None:
    through = Store(own_store.path, wire.url)
    wire.trips.clear()
    through.run("SELECT 42")
    assert sum(count for text, count in wire.trips.items() if "SELECT 42" in text) >= 1

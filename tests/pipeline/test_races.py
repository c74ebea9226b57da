"""What must hold when many call at once."""

import asyncio
import time

from tests.support.gateway import Gateway
from tests.support.ledger import calls_left, new_caller
from tests.support.load import fire
from tests.support.rates import at_once
from tests.support.stores import Store


def test_64_clients_on_500_calls_get_exactly_500_successes(
    gateway: Gateway, store: Store, question: dict[str, str]
) -> None:
    caller = new_caller(store, calls=500, rate_limit=100_000)
    codes = asyncio.run(fire(gateway, caller.token, question, clients=64, calls_each=10))
    assert codes == {0: 500, 204: 140}
    assert calls_left(store, caller) == 0


def test_30_at_once_get_exactly_10(
    gateway: Gateway, store: Store, question: dict[str, str]
) -> None:
    caller, codes = at_once(
        lambda: new_caller(store, calls=100),
        lambda caller: asyncio.run(fire(gateway, caller.token, question, clients=30, calls_each=1)),
    )
    assert codes == {0: 10, 202: 20}
    assert calls_left(store, caller) == 90


def test_paced_at_9_9_a_second_none_is_refused(
    gateway: Gateway, store: Store, question: dict[str, str]
) -> None:
    caller = new_caller(store, calls=100)
    for _ in range(40):
        assert gateway.get(token=caller.token, query=question).code == 0
        # From the answer on: a call may have been counted at any moment until then.
        time.sleep(1 / 9.9)
    assert calls_left(store, caller) == 60

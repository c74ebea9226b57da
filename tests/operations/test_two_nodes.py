"""Two gateways on one database: one waybill for one order, and every charge in the ledger once."""

from concurrent.futures import ThreadPoolExecutor
from itertools import cycle

import pytest

from tests.support.gateway import Gateway
from tests.support.ledger import calls_left, new_caller
from tests.support.load import assert_ledger_adds_up
from tests.support.stores import Store
from tests.support.waybills import issue, new_carrier, new_customer, request

pytestmark = pytest.mark.postgresql


def test_equal_requests_to_two_nodes_are_one_waybill(own_store: Store) -> None:
    customer, wp_code = new_customer(own_store), new_carrier(own_store, 50)
    nodes = [Gateway(own_store) for _ in range(2)]
    try:
        with ThreadPoolExecutor(8) as pool:
            for number in range(5):
                wanted = request(wp_code, order_sn=f"order-{number:02}")
                calls = [
                    pool.submit(issue, node, customer.token, wanted)
                    for node, _ in zip(cycle(nodes), range(8), strict=False)
                ]
                replies = [call.result() for call in calls]
                assert {reply.code for reply in replies} == {0}
                assert len({reply.data["waybillCode"] for reply in replies}) == 1
                paid = [reply for reply in replies if "x-replay-of" not in reply.headers]
                assert len(paid) == 1
    finally:
        assert [node.stop() for node in nodes] == [0, 0]
    assert own_store.run("SELECT count(*) FROM waybill") == [(5,)]
    assert own_store.run("SELECT sum(is_taken) FROM waybill_number") == [(5,)]


def test_a_balance_is_spent_once_by_both(own_store: Store, question: dict[str, str]) -> None:
    caller = new_caller(own_store, calls=30, rate_limit=100_000)
    nodes = [Gateway(own_store) for _ in range(2)]
    try:
        with ThreadPoolExecutor(8) as pool:
            calls = [
                pool.submit(node.get, token=caller.token, query=question)
                for node, _ in zip(cycle(nodes), range(60), strict=False)
            ]
            replies = [call.result() for call in calls]
    finally:
        assert [node.stop() for node in nodes] == [0, 0]
    paid = [reply.headers["x-request-id"] for reply in replies if reply.code == 0]
    assert {reply.code for reply in replies} == {0, 204}
    assert len(paid) == 30 and calls_left(own_store, caller) == 0
    assert_ledger_adds_up(own_store, paid)

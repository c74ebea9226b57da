"""Keys belong to all nodes: no node whose clock is wrong ends them before their day is over."""

from datetime import date

import pytest

from tests.support.all_operations import all_operations_caller, ask, good_request, small_world
from tests.support.gateway import Gateway
from tests.support.ledger import credits_left
from tests.support.stores import Store
from tollway.operations.coupon_claims.operation import COUPON_CLAIMS
from tollway.operations.waybills.operation import WAYBILLS

pytestmark = pytest.mark.postgresql

DAY_S = 24 * 3600


def test_a_node_that_is_a_day_ahead_sweeps_no_key_and_charges_none_again(
    own_store: Store, today: date
) -> None:
    small_world(own_store, today)
    caller, sent = all_operations_caller(own_store), good_request(COUPON_CLAIMS, today)
    right = Gateway(own_store)
    ahead = Gateway(own_store, clock_ahead_s=DAY_S + 3600)
    key = {"Idempotency-Key": "k"}
    paid = ask(right, COUPON_CLAIMS, caller.token, sent, key)
    again = [ask(ahead, COUPON_CLAIMS, caller.token, sent, key)]
    left = credits_left(own_store, caller)
    # A node sweeps before it stops.
    assert ahead.stop() == 0
    again.append(ask(right, COUPON_CLAIMS, caller.token, sent, key))
    assert {each.headers.get("x-replay-of") for each in again} == {paid.headers["x-request-id"]}
    assert credits_left(own_store, caller) == left
    assert right.stop() == 0


@pytest.mark.parametrize("clocks", [(-DAY_S - 3600, 0), (0, DAY_S + 3600)], ids=str)
def test_a_key_of_a_waybill_is_taken_on_all_nodes_for_a_day(
    own_store: Store, today: date, clocks: tuple[int, int]
) -> None:
    small_world(own_store, today)
    caller, key = all_operations_caller(own_store), {"Idempotency-Key": "k"}
    nodes = [Gateway(own_store, clock_ahead_s=each) for each in clocks]
    # Each for an order of its own.
    replies = [
        ask(node, WAYBILLS, caller.token, good_request(WAYBILLS, today), key) for node in nodes
    ]
    assert [reply.code for reply in replies] == [0, 100]
    assert "Idempotency-Key was used for another request" in replies[1].msg
    assert [node.stop() for node in nodes] == [0, 0]

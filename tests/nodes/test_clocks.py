"""Nodes whose clocks are wrong: what one of them writes and another compares goes by one clock."""

import json
import time
from typing import Any

import pytest

from tests.support import forks
from tests.support.fake_carrier import ISSUE, LOOK_UP, FakeCarrier
from tests.support.gateway import Gateway
from tests.support.other_clock import program
from tests.support.remote import (
    PATIENT,
    age_pending,
    connected_carrier,
    eventually,
    ledger_of,
    left_pending,
)
from tests.support.stores import Store
from tests.support.waybills import PRICE, issue, new_customer, request

HOUR_S = 3600
SETTLE_AFTER_S = HOUR_S
# Not felt on a busy machine, and yet short enough to be waited for.
DEADLINE_MS = 4000


def tollway(store: Store, *arguments: str, clock_ahead_s: int = 0) -> str:
    return forks.run(*program(clock_ahead_s), *arguments, env=store.settings).stdout


def reconciled(store: Store, *, clock_ahead_s: int = 0) -> dict[str, Any]:
    """What `tollway reconcile` finds out about the one waybill that is pending."""
    (found,) = json.loads(tollway(store, "reconcile", "--json", clock_ahead_s=clock_ahead_s))
    return dict(found)


def test_a_node_that_is_ahead_gives_up_nothing_before_its_time(
    own_store: Store, carrier: FakeCarrier
) -> None:
    fault = "cut_before_commit"
    customer, _ = left_pending(own_store, carrier, fault, settle_after_s=SETTLE_AFTER_S)
    found = reconciled(own_store, clock_ahead_s=2 * HOUR_S)
    # The machine of an embedded database has no other clock; so it is seen that this one is wrong.
    is_early = own_store.is_shared
    assert found["outcome"] == ("too early to tell" if is_early else "given up")
    assert ledger_of(own_store, customer).held == (PRICE if is_early else 0)


@pytest.mark.postgresql
@pytest.mark.parametrize("clock_ahead_s", [-2 * HOUR_S, 2 * HOUR_S], ids=["behind", "ahead"])
def test_what_a_node_with_a_wrong_clock_asked_is_as_old_as_it_is(
    own_store: Store, carrier: FakeCarrier, clock_ahead_s: int
) -> None:
    link = {"clock_ahead_s": clock_ahead_s, "settle_after_s": SETTLE_AFTER_S}
    # Which also means that such a node asks at all, and takes its message for new.
    customer, _ = left_pending(own_store, carrier, "cut_before_commit", **link)
    found = reconciled(own_store)
    assert (found["outcome"], found["is_overdue"]) == ("too early to tell", False)
    assert -1 <= found["age_s"] < SETTLE_AFTER_S
    assert "overdue" not in tollway(own_store, "hold", "list")
    assert "overdue" not in tollway(own_store, "hold", "list", clock_ahead_s=2 * HOUR_S)
    assert ledger_of(own_store, customer).held == PRICE


def test_a_clock_that_was_set_back_since_does_not_keep_the_carrier_from_being_asked(
    own_store: Store, carrier: FakeCarrier
) -> None:
    left_pending(own_store, carrier, "cut_after_commit", clock_ahead_s=2 * HOUR_S)
    assert reconciled(own_store)["outcome"] == "issued"


@pytest.mark.postgresql
def test_on_a_node_that_is_behind_no_call_waits_longer_than_a_deadline(
    own_store: Store, carrier: FakeCarrier
) -> None:
    customer, body = left_pending(own_store, carrier, "cut_after_commit", deadline_ms=DEADLINE_MS)
    # The node looks for itself when it starts, which must not settle it yet.
    before = carrier.received(LOOK_UP)
    carrier.misbehave("refuse", message=LOOK_UP)
    behind = Gateway(own_store, clock_ahead_s=-2 * HOUR_S, reconcile_interval_s=3600)
    eventually(lambda: carrier.received(LOOK_UP), lambda received: received > before)
    carrier.misbehave("none")
    # Otherwise it is the client that gives up.
    reply = eventually(lambda: issue(behind, customer.token, body), lambda reply: reply.code == 0)
    assert [reply.data["waybillCode"]] == carrier.issued()
    assert ledger_of(own_store, customer).posted == PRICE
    assert behind.stop() == 0


@pytest.mark.postgresql
@pytest.mark.parametrize("faults", [[], ["refuse"]], ids=["issued", "refused"])
def test_what_a_node_that_is_ahead_ends_is_entered_by_the_common_clock(
    own_store: Store, carrier: FakeCarrier, faults: list[str]
) -> None:
    customer = new_customer(own_store)
    body = request(connected_carrier(own_store, carrier, **PATIENT))
    ahead = Gateway(own_store, clock_ahead_s=2 * HOUR_S, reconcile_interval_s=3600)
    for fault in faults:
        carrier.misbehave(fault, message=ISSUE)
    issue(ahead, customer.token, body)
    assert ledger_of(own_store, customer).kinds[-1] == ("release" if faults else "charge")
    assert ahead.stop() == 0
    assert_nothing_is_entered_for_later(own_store)


@pytest.mark.postgresql
@pytest.mark.parametrize(
    ("fault", "outcome"), [("cut_after_commit", "issued"), ("cut_before_commit", "given up")]
)
def test_so_is_what_is_settled_where_the_clock_is_ahead(
    own_store: Store, carrier: FakeCarrier, fault: str, outcome: str
) -> None:
    left_pending(own_store, carrier, fault, settle_after_s=SETTLE_AFTER_S)
    age_pending(own_store)
    assert reconciled(own_store, clock_ahead_s=2 * HOUR_S)["outcome"] == outcome
    assert_nothing_is_entered_for_later(own_store)


def assert_nothing_is_entered_for_later(store: Store) -> None:
    now_ms = int(time.time() * 1000)
    ((entered_ms, settled_ms, issued_s),) = store.run(
        "SELECT (SELECT max(at_ms) FROM entry), (SELECT max(settled_at_ms) FROM hold), "
        "(SELECT max(issued_at_s) FROM waybill)"
    )
    assert max(entered_ms, settled_ms, (issued_s or 0) * 1000) <= now_ms

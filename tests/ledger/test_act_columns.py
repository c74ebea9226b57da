"""What acts on a shared database lock, count and pay, and in how many round trips."""

from collections.abc import Sequence

import pytest

from tests.ledger.function_server import Server, charge, key, types_of
from tollway.ledger.charge_postgresql import post_acts
from tollway.ledger.charges import (
    ActResult,
    Charge,
    GrantKey,
    JointAct,
    NoCapacityError,
    OverLimitError,
    ShortageError,
)
from tollway.ledger.token_limits import DayCap
from tollway.store.database import Transaction

pytestmark = pytest.mark.postgresql
CAP = DayCap(None, 10, 0)


class Alone:
    """An act; which charges it was done for."""

    def __init__(self) -> None:
        self.done: list[Charge] = []

    async def __call__(self, _: Transaction, charge: Charge) -> ActResult:
        self.done.append(charge)
        return ActResult(b"alone", is_paid=True)

    @property
    def requests(self) -> list[str]:
        return [charge.request_id for charge in self.done]


async def _together(_: Transaction, charges: Sequence[Charge]) -> list[ActResult | None]:
    """Does all but those that are asked to be left out."""
    return [
        None if joint.asked == "left out" else ActResult(b"together", is_paid=True)
        for charge in charges
        for joint in [charge.act]
        if isinstance(joint, JointAct)
    ]


def joint(alone: Alone | None = None, asked: str = "") -> JointAct:
    return JointAct(alone or Alone(), _together, asked)


def test_acts_lock_balances_and_windows_and_then_the_days_of_tokens_with_caps() -> None:
    server = Server()
    charges = [
        # An act may end a hold, which changes the balance, also if it is free itself.
        charge("r1", 0, "b", act=Alone(), token_id="tok_3"),
        charge("r2", 0, "a", act=Alone(), operation="waybills", limit=9),
        charge("r3", 0, "c", cap=CAP, token_id="tok_2"),
        charge("r4", 0, "c", cap=CAP, token_id="tok_1"),
    ]
    server.post(post_acts, charges)
    assert server.locked == {
        "balance_accounts": ["a", "b"],
        "balance_units": ["credits", "credits"],
        "window_accounts": ["a"],
        "window_operations": ["waybills"],
    }
    locked, *others = server.statements
    assert locked == "tollway_lock" and others[:2] == ["day of tok_1", "day of tok_2"]
    assert "day of tok_3" not in others


def test_acts_that_are_done_alone_are_done_in_the_order_of_accounts_and_keys() -> None:
    server, act = Server(), Alone()
    charges = [
        charge("r1", account="b", act=act),
        charge("r2", account="a", act=act, idempotency_key=key("K2")),
        charge("r3", account="a", act=act, idempotency_key=key("K1")),
        charge("r4", account="a", act=act),
    ]
    results = server.post(post_acts, charges)
    # One without a key comes before those with one.
    assert act.requests == ["r4", "r3", "r2", "r1"]
    assert results == dict.fromkeys(range(4), ActResult(b"alone", is_paid=True))
    # At the moment of the lock, and with no other question to the server.
    assert {each.at_ms for each in act.done} == {1001}
    assert server.statements == ["tollway_lock"]


def test_what_is_left_to_be_done_alone_is_done_later_than_what_was_done_together() -> None:
    server, act = Server(), Alone()
    charges = [charge("r1", act=joint(act, "left out")), charge("r2", act=joint(act))]
    results = server.post(post_acts, charges)
    assert results == {1: ActResult(b"together", True), 0: ActResult(b"alone", True)}
    assert server.statements == ["tollway_lock", "tollway_charge", "clock"]
    assert [each.at_ms for each in act.done] == [server.now_ms]


def test_if_all_are_done_together_they_take_two_round_trips() -> None:
    server = Server()
    grant = GrantKey("shop", "s1", "con_1")
    server.post(
        post_acts, [charge("r1", 3, act=joint()), charge("r2", 4, act=joint(), grant=grant)]
    )
    assert server.statements == ["tollway_lock", "tollway_charge"]
    (given,) = server.calls
    assert (given["amounts"], given["owner_ids"]) == ([3, 4], [None, "s1"])


def test_if_none_is_done_together_none_is_paid_together() -> None:
    server, act = Server(), Alone()
    server.post(post_acts, [charge("r1", act=joint(act, "left out"))])
    assert server.statements == ["tollway_lock"]
    assert act.requests == ["r1"]


def test_one_that_cannot_be_paid_with_its_group_is_refused_and_the_others_are_done() -> None:
    server = Server([(2, "short", 1, None, None, None)])
    results = server.post(post_acts, [charge(f"r{nth}", 3, act=joint()) for nth in range(3)])
    assert types_of(results) == {0: ActResult, 1: ShortageError, 2: ActResult}
    assert server.requests == [["r0", "r1", "r2"], ["r0", "r2"]]


def test_of_acts_that_are_done_alone_only_the_first_16_are_done() -> None:
    server, act = Server(), Alone()
    # The order of the keys is that of the first 16, and not of all.
    charges = [charge(f"r{nth:02}", account=f"{18 - nth:02}", act=act) for nth in range(18)]
    results = server.post(post_acts, charges)
    assert act.requests == [f"r{nth:02}" for nth in reversed(range(16))]
    assert types_of(results) == {
        nth: ActResult if nth < 16 else NoCapacityError for nth in range(18)
    }


def test_an_act_that_is_done_alone_is_first_counted_and_then_done_as_it_is() -> None:
    server, act = Server(), Alone()
    limited = charge(
        "r1",
        amount=0,
        act=act,
        limit=3,
        grant=GrantKey("shop", "s1", "con_1"),
        idempotency_key=key("k1"),
    )
    results = server.post(post_acts, [limited])
    assert results == {0: ActResult(b"alone", is_paid=True)}
    (given,) = server.calls
    # Only the window is changed: the rest is done by the transaction.
    assert (given["of_window"], given["limits"], given["of_balance"]) == ([1], [3], [0])
    assert (given["amounts"], given["balance_accounts"]) == ([0], [])
    assert given["owner_ids"] is given["keys"] is None
    (done,) = act.done
    assert (done.act, done.grant, done.idempotency_key) == (
        act,
        limited.grant,
        limited.idempotency_key,
    )


def test_the_price_of_an_act_is_not_taken_when_it_is_counted() -> None:
    server, act = Server([(1, "throttled", 250_000, None, None, None)]), Alone()
    results = server.post(post_acts, [charge("r1", 5, act=act, limit=3)])
    assert types_of(results) == {0: OverLimitError}
    assert (server.calls[0]["amounts"], act.done) == ([0], [])


def test_what_acts_ask_for_waits_for_locks() -> None:
    server = Server()
    server.post(post_acts, [charge("r1", act=Alone(), limit=1), charge("r2", act=joint())])
    # Those that are done together are paid; then one that is done alone is counted.
    assert server.requests == [["r2"], ["r1"]]
    assert [given["waits"] for given in server.calls] == [True, True]

"""The receipt of a call whose outcome another system decides: held, then charged or given back."""

from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

import pytest

from tests.support.gateway import Gateway
from tests.support.ledger import RUNTIME, Caller, new_caller
from tests.support.receipts import ask_receipt
from tests.support.stores import Store
from tollway.ledger.charges import Charge, GrantKey
from tollway.ledger.entries import top_up
from tollway.ledger.holds import Hold, capture, release, reserve
from tollway.ledger.refused_calls import RefusedCall, RefusedCallLog
from tollway.store.database import Database, Transaction
from tollway.telemetry.metrics import Metrics

_numbers = count(1)
AT_MS, LATER_MS, DEADLINE_MS = 1_000, 5_000, 61_000
GRANT = GrantKey("shop", "7001", "con_1")


@pytest.fixture
def payer(store: Store) -> Caller:
    return new_caller(store, credits_=100)


def hold_for(store: Store, payer: Caller) -> Charge:
    """Holds 10 of 100 credits, as an operation that asks a carrier does."""
    charge = Charge(
        payer.account_id,
        "credits",
        10,
        "waybills",
        f"slow{next(_numbers)}",
        payer.token_id,
        AT_MS,
        grant=GRANT,
    )
    write(store, lambda tx: reserve(tx, charge, f"hold of {charge.request_id}", DEADLINE_MS))
    return charge


def write(store: Store, work: Callable[[Transaction], Awaitable[Hold]]) -> None:
    store.do(lambda database: database.write(work))


def answer_timed_out(store: Store, charge: Charge) -> None:
    """Records that the call was answered with 101, as the pipeline does."""

    async def work(database: Database) -> None:
        notes = RefusedCallLog(database, Metrics())
        notes.add(
            RefusedCall(
                charge.account_id, charge.request_id, AT_MS, "waybills", 101, "TIMED_OUT", None
            )
        )
        await notes.finish()

    store.do(work)


def receipt_for(gateway: Gateway, payer: Caller, charge: Charge) -> dict[str, Any]:
    return ask_receipt(gateway, payer.token, charge.request_id).data


def test_while_it_is_open_the_receipt_says_held(
    gateway: Gateway, store: Store, payer: Caller
) -> None:
    charge = hold_for(store, payer)
    before = receipt_for(gateway, payer, charge)
    assert (before["outcome"], before["code"], before["reason"]) == ("held", None, None)
    answer_timed_out(store, charge)
    receipt = receipt_for(gateway, payer, charge)
    assert (receipt["outcome"], receipt["code"]) == ("held", 101)
    assert (receipt["amount"], receipt["unit"], receipt["at_ms"]) == (10, "credits", AT_MS)
    assert (receipt["balance_before"], receipt["balance_after"]) == (100, 90)
    assert receipt["token_id"] == payer.token_id
    assert receipt["hold"] == {
        "id": f"hold of {charge.request_id}",
        "state": "held",
        "amount": 10,
        "deadline_at_ms": DEADLINE_MS,
        "settled_at_ms": None,
    }
    consent = {"owner_kind": "shop", "owner_id": "7001", "consent_id": "con_1"}
    assert receipt["consent"] == consent


def test_when_it_is_captured_the_receipt_says_charged(
    gateway: Gateway, store: Store, payer: Caller
) -> None:
    charge = hold_for(store, payer)
    answer_timed_out(store, charge)
    store.do(lambda database: top_up(database, RUNTIME, payer.account_id, "credits", 5))
    hold_id = f"hold of {charge.request_id}"
    write(store, lambda tx: capture(tx, payer.account_id, hold_id, LATER_MS))
    receipt = receipt_for(gateway, payer, charge)
    assert (receipt["outcome"], receipt["code"]) == ("charged", 101)
    assert (receipt["reason"], receipt["at_ms"]) == ("TIMED_OUT", AT_MS)
    assert (receipt["amount"], receipt["balance_before"], receipt["balance_after"]) == (10, 105, 95)
    assert (receipt["hold"]["state"], receipt["hold"]["settled_at_ms"]) == ("captured", LATER_MS)
    assert receipt["consent"]["consent_id"] == "con_1"


def test_captured_while_the_caller_waited_it_was_answered_with_0(
    gateway: Gateway, store: Store, payer: Caller
) -> None:
    charge = hold_for(store, payer)
    hold_id = f"hold of {charge.request_id}"
    write(store, lambda tx: capture(tx, payer.account_id, hold_id, LATER_MS))
    receipt = receipt_for(gateway, payer, charge)
    assert (receipt["outcome"], receipt["code"], receipt["reason"]) == ("charged", 0, "SUCCESS")


def test_when_it_is_released_the_receipt_says_that_nothing_was_charged(
    gateway: Gateway, store: Store, payer: Caller
) -> None:
    charge = hold_for(store, payer)
    answer_timed_out(store, charge)
    hold_id = f"hold of {charge.request_id}"
    write(store, lambda tx: release(tx, payer.account_id, hold_id, LATER_MS))
    receipt = receipt_for(gateway, payer, charge)
    assert (receipt["outcome"], receipt["code"], receipt["amount"]) == ("not_charged", 101, 0)
    assert (receipt["unit"], receipt["balance_after"]) == (None, None)
    assert (receipt["hold"]["state"], receipt["hold"]["settled_at_ms"]) == ("released", LATER_MS)


def test_a_hold_of_another_account_is_unknown(
    gateway: Gateway, store: Store, payer: Caller, caller: Caller
) -> None:
    charge = hold_for(store, payer)
    assert ask_receipt(gateway, caller.token, charge.request_id).code == 404

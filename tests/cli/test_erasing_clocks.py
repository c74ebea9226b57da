"""Erasing receivers after a clock was ahead: what it had dated is erased too."""

import time
from dataclasses import replace
from datetime import date
from itertools import count
from types import SimpleNamespace

import pytest

from tests.cli.conftest import Command
from tests.cli.test_erasing import ERASE, ORDERS, WAYBILLS, left_in, reject, until_erased
from tests.support.all_operations import all_operations_caller, ask, good_request, small_world
from tests.support.gateway import Gateway
from tests.support.ledger import RUNTIME
from tests.support.orders import sealer_of
from tests.support.stores import Store
from tollway.consent.erasures import ask_erasure, open_erasures
from tollway.demo.owners import SHOP
from tollway.gateway import receiver_erasure
from tollway.gateway.receiver_erasure import erase
from tollway.operations.orders.storage import last_change_of


@pytest.mark.parametrize("ahead_s", [1, 3600], ids=["a little", "an hour"])
def test_what_was_stored_while_a_clock_was_ahead_is_erased_too(
    ledger_store: Store, tollway: Command, today: date, ahead_s: int
) -> None:
    store = ledger_store
    small_world(store, today)
    caller = all_operations_caller(store)
    sent = [
        (each, good_request(each, today), {"Idempotency-Key": each.name})
        for each in (ORDERS, WAYBILLS)
    ]
    ahead = Gateway(store, clock_ahead_s=ahead_s)
    for operation, wanted, key in sent:
        assert ask(ahead, operation, caller.token, wanted, key).code == 0
    assert ahead.stop() == 0
    reject(store, f'{{"owner_id": "{SHOP.id}"}}', at_s=int(time.time()) + ahead_s)
    store.run("CREATE TABLE copy AS SELECT sealed FROM idempotency_key WHERE key = 'orders'")

    erased = tollway(*ERASE).json
    assert (erased["waybills"], erased["answers"], erased["rejected"]) == (1, 2, 1)
    assert (erased["waiting"], left_in(store, "waybill")) == (0, 0)
    gateway = Gateway(store)

    def assert_erased() -> None:
        for operation, wanted, key in sent:
            again = ask(gateway, operation, caller.token, wanted, key)
            assert again.headers["x-tollway-reason"] == "ANSWER_ERASED"

    assert_erased()
    if not store.is_shared:
        # As if that call had waited for its commit until now.
        sealed = "(SELECT sealed FROM copy)"
        store.run(f"UPDATE idempotency_key SET sealed = {sealed} WHERE key = 'orders'")
        assert_erased()
    assert gateway.stop() == 0


@pytest.mark.sqlite
def test_a_waybill_that_is_issued_while_rows_are_read_is_not_taken_for_one_dated_ahead(
    ledger_store: Store, monkeypatch: pytest.MonkeyPatch, today: date
) -> None:
    store = ledger_store
    small_world(store, today)
    caller = all_operations_caller(store)
    store.do(lambda database: ask_erasure(database, RUNTIME, SHOP.id, last_change_of))
    # As if it had been asked for long ago, and the rest were done.
    store.run("UPDATE receiver_erasure SET asked_at_s = asked_at_s - 3600, waiting = 1")
    (asked,) = store.do(open_erasures)
    gateway = Gateway(store)
    until_erased(store)
    issued = ask(gateway, WAYBILLS, caller.token, good_request(WAYBILLS, today))
    assert (issued.code, gateway.stop()) == (0, 0)

    # It began before that, and each step takes 10 s.
    running = count(0, 10)
    clock = SimpleNamespace(monotonic=lambda: next(running))
    monkeypatch.setattr(receiver_erasure, "time", clock)
    began = replace(RUNTIME, now_s=lambda: time.time() - 15)
    store.do(lambda database: erase(database, sealer_of(store), began, asked, read_lag_s=0))
    assert left_in(store, "waybill") == 1


def test_an_erasure_while_the_clock_was_ahead_takes_no_answer_of_later_calls(
    ledger_store: Store, tollway: Command, today: date
) -> None:
    store = ledger_store
    small_world(store, today)
    caller, sent = all_operations_caller(store), good_request(ORDERS, today)
    assert tollway(*ERASE).json["finished_at_s"]
    store.run("UPDATE receiver_erasure SET read_before_ms = read_before_ms + 30000000000")
    gateway = Gateway(store)
    both = [ask(gateway, ORDERS, caller.token, sent, {"Idempotency-Key": "late"}) for _ in "ab"]
    assert [each.code for each in both] == [0, 0] and both[1].headers["x-replay-of"]
    assert gateway.stop() == 0

"""Regular work goes on whatever a part of it does: nothing that fails, or has no end, keeps the
rest from being done, and nothing is lost."""

from typing import Any
from unittest.mock import Mock

import pytest
from msgspec.structs import replace
from sqlalchemy import bindparam, select

from tests.support.counted_writes import CountedWrites
from tests.support.in_process import in_gateway
from tests.support.ledger import CREDITS, RUNTIME, new_caller
from tests.support.stores import Store
from tollway.carriers.reconciling import Reconciler
from tollway.consent.erasures import Erasure
from tollway.demo.sandbox import Sandbox
from tollway.gateway import retention, upkeep
from tollway.gateway.gateway import Gateway
from tollway.gateway.retention import Retention
from tollway.ledger import usage
from tollway.ledger.entries import top_up
from tollway.ledger.runtime import Runtime
from tollway.ledger.tokens import list_tokens
from tollway.ledger.usage import roll_up
from tollway.operations.orders.storage import RETAINED_ORDERS
from tollway.operations.subject import Removal
from tollway.settings import Settings
from tollway.store import attempts
from tollway.store.database import Database, StoreUnavailableError, Transaction
from tollway.store.query import Query
from tollway.store.schema.ledger import usage_cursor
from tollway.store.serving_nodes import Presence
from tollway.webhooks.delivery import Deliverer

_REACHED = Query(select(usage_cursor.c.number).where(usage_cursor.c.unit == bindparam("of_unit")))


def test_when_tokens_were_used_is_stored_by_the_next_run_if_one_fails(
    own_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = new_caller(own_store), new_caller(own_store)

    async def work(gateway: Gateway) -> None:
        upkeep = gateway.upkeep
        upkeep._authenticate.put_back_used({first.token_id: 1000, second.token_id: 1000})
        with monkeypatch.context() as patch:
            patch.setattr(upkeep, "_database", CountedWrites(upkeep._database, fails_from=1))
            await upkeep.tidy()
        # One of them is used again before the next run.
        upkeep._authenticate._used_at_s[second.token_id] = 2000
        await upkeep.tidy()

    in_gateway(own_store, monkeypatch, work)

    def used_at_s(account_id: str) -> int | None:
        (token,) = own_store.do(lambda database: list_tokens(database, account_id))
        return token.last_used_at_s

    assert [used_at_s(each.account_id) for each in (first, second)] == [1000, 2000]


# The short steps of the regular work, and what each of them calls.
STEPS: dict[str, tuple[object, str]] = {
    "presence": (Presence, "refresh"),
    "token_use": (upkeep, "record_use"),
    "kept_answers": (upkeep, "sweep_kept"),
    "sandbox": (Sandbox, "sweep"),
    "tokens": (upkeep, "sweep_client_tokens"),
    "webhooks": (upkeep, "sweep_deliveries"),
    "sessions": (upkeep, "sweep_sessions"),
    "sign_in_attempts": (upkeep, "sweep_attempts"),
}


def test_an_outage_of_the_database_has_a_line_when_it_begins_some_meanwhile_and_one_at_its_end(
    own_store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    passed_s, is_away = 0, True

    async def deliver_due(*_: object) -> None:
        if is_away:
            raise StoreUnavailableError("connection refused")

    async def work(gateway: Gateway) -> None:
        nonlocal passed_s, is_away
        monkeypatch.setattr(Deliverer, "deliver_due", deliver_due)
        monkeypatch.setattr(upkeep, "watch", deliver_due)
        monkeypatch.setattr(attempts, "time", Mock(monotonic=lambda: passed_s))
        caplog.clear()
        for passed_s in range(70):  # noqa: B007 - what the clock says
            await gateway.upkeep.deliver_webhooks()
            await gateway.upkeep.watch_accounts()
        is_away = False
        await gateway.upkeep.deliver_webhooks()
        await gateway.upkeep.watch_accounts()
        await gateway.upkeep.deliver_webhooks()

    in_gateway(own_store, monkeypatch, work)
    both = "delivering webhooks, watching accounts"
    assert caplog.messages == [
        "delivering webhooks failed and will be tried again: connection refused",
        f"still failing after 30 s, and tried 60 times since the last line ({both}): connection "
        "refused",
        f"still failing after 60 s, and tried 60 times since the last line ({both}): connection "
        "refused",
        "delivering webhooks succeeds again, 69 s after the first failure",
    ]


@pytest.mark.parametrize("error", [StoreUnavailableError("cut off"), LookupError("a bug")])
def test_a_step_that_fails_keeps_no_other_from_being_done(
    own_store: Store, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    async def fail(*_: object) -> None:
        raise error

    async def work(gateway: Gateway) -> None:
        done = gateway.upkeep._gauges.upkeep_succeeded_s
        for step, (owner, name) in STEPS.items():
            done.clear()
            with monkeypatch.context() as patch:
                patch.setattr(owner, name, fail)
                await gateway.upkeep.tidy()
            # It never succeeded: an alert needs a time for it all the same.
            assert done.pop(step) == gateway.upkeep._began_s < min(done.values())
            assert set(done) == set(STEPS) - {step}

    in_gateway(own_store, monkeypatch, work)


# The other steps: what does each of them, and what that calls.
LONG_STEPS: dict[str, tuple[str, object, str]] = {
    "months": ("tend", upkeep, "make_months_ahead"),
    "retention": ("drop_old", Retention, "apply"),
    "usage": ("roll_up", upkeep, "roll_up"),
    "measuring": ("measure", upkeep, "clock_offset_s"),
    "erasing": ("erase_receivers", upkeep, "open_erasures"),
    "deliveries": ("deliver_webhooks", Deliverer, "deliver_due"),
    "watching": ("watch_accounts", upkeep, "watch"),
    "reconciliation": ("reconcile", Reconciler, "settle_all"),
}


@pytest.mark.parametrize("step", LONG_STEPS)
def test_an_alert_finds_every_step_that_fails_from_the_start_and_none_that_has_nothing_to_do(
    own_store: Store, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    method, owner, name = LONG_STEPS[step]

    async def fail(*_: object) -> None:
        raise LookupError("a bug")

    async def work(gateway: Gateway) -> None:
        done = gateway.upkeep._gauges.upkeep_succeeded_s
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, fail)
            await getattr(gateway.upkeep, method)()
        assert done[step] == gateway.upkeep._began_s
        for _ in range(2):
            before_s = done[step]
            await getattr(gateway.upkeep, method)()
            assert done[step] > before_s

    in_gateway(own_store, monkeypatch, work)


def test_usage_is_added_up_to_what_was_there_and_not_without_end(
    own_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (upkeep, usage):
        monkeypatch.setattr(module, "ENTRIES_AT_ONCE", 2)
    caller, before, runs = new_caller(own_store), 5, 9

    async def work(gateway: Gateway) -> None:
        left = runs

        async def add_one(database: Database) -> None:
            await top_up(database, RUNTIME, caller.account_id, CREDITS, 1)

        async def roll_up_under_load(database: Database, *others: Any) -> int:
            nonlocal left
            assert left, "it never ends"
            left -= 1
            passed = await roll_up(database, *others)
            await add_one(database)
            return passed

        for _ in range(before):
            await add_one(gateway.upkeep._database)
        monkeypatch.setattr(upkeep, "roll_up", roll_up_under_load)
        await gateway.upkeep.roll_up()
        ran = runs - left
        assert left > 0
        reached = await gateway.upkeep._database.fetch_one(_REACHED, of_unit=CREDITS)
        assert reached is not None and before <= reached[0] < before + ran

    in_gateway(own_store, monkeypatch, work)


def test_an_erasure_that_fails_is_no_success_while_it_waits_to_be_tried_again(
    own_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise LookupError("a bug")

    async def one(_: Database) -> list[Erasure]:
        return [Erasure("shop", 1, "owner", 0)]

    async def work(gateway: Gateway) -> None:
        done = gateway.upkeep._gauges.upkeep_succeeded_s
        monkeypatch.setattr(upkeep, "open_erasures", one)
        monkeypatch.setattr(gateway.upkeep, "_erase", fail)
        for _ in range(2):
            await gateway.upkeep.erase_receivers()
            assert done["erasing"] == gateway.upkeep._began_s

    in_gateway(own_store, monkeypatch, work)


class _Removals:
    """Three that each have more to remove than a run may."""

    def __init__(self) -> None:
        self.runs: list[list[int]] = []
        self.fails = False

    async def __call__(self, _: Database, _before_ms: int) -> list[Removal]:
        self.runs.append([])
        return [lambda tx, most, n=number: self._remove(n, tx, most) for number in range(3)]

    async def _remove(self, number: int, _: Transaction, most: int) -> int:
        self.runs[-1].append(number)
        if self.fails and number == 0:
            raise StoreUnavailableError("cut off by the test")
        return 0 if self.fails else most


@pytest.fixture
def removals() -> _Removals:
    return _Removals()


def _apply(store: Store, removals: _Removals, times: int) -> None:
    async def work(database: Database) -> None:
        applied = Retention(database, Settings())
        applied._kept = [(replace(RETAINED_ORDERS, removals=removals), 30)]
        for _ in range(times):
            await applied.apply(Runtime().at_ms())

    store.do(work)


def test_no_run_of_retention_begins_with_the_same_shop_as_the_last_one(
    own_store: Store, removals: _Removals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "_PIECES_MAX", 1)
    _apply(own_store, removals, 3)
    # Pieces are smaller on a slow machine, and one run may have several of the same.
    assert {run[0] for run in removals.runs} == {0, 1, 2}


def test_a_removal_that_fails_keeps_no_other_from_being_done(
    own_store: Store, removals: _Removals
) -> None:
    removals.fails = True
    with pytest.raises(StoreUnavailableError):
        _apply(own_store, removals, 1)
    assert sorted(removals.runs[0]) == [0, 1, 2]

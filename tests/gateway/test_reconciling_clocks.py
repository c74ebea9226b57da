"""What waits for its carrier while a clock is wrong: it is given up neither too early nor never."""

import asyncio

import pytest

from tests.gateway.test_jumping_clock import Clocks
from tests.support.fake_carrier import LOOK_UP, FakeCarrier
from tests.support.in_process import in_gateway
from tests.support.ledger import RUNTIME
from tests.support.remote import age_pending, left_pending
from tests.support.stores import Store
from tests.support.waybills import PRICE
from tollway.carriers import CarrierError
from tollway.carriers.reconciling import Outcome
from tollway.gateway.gateway import Gateway

HOUR_S = 3600
SETTLE_AFTER_S = 60


async def held(store: Store) -> int:
    (row,) = await asyncio.to_thread(store.run, "SELECT sum(held) FROM balance")
    return int(row[0])


@pytest.mark.sqlite
@pytest.mark.parametrize("ahead_s", [(HOUR_S,), (-HOUR_S, 0)], ids=["ahead", "behind meanwhile"])
def test_a_clock_that_jumps_gives_up_nothing_before_its_time(
    own_store: Store,
    carrier: FakeCarrier,
    monkeypatch: pytest.MonkeyPatch,
    ahead_s: tuple[int, ...],
) -> None:
    left_pending(own_store, carrier, "cut_before_commit", settle_after_s=SETTLE_AFTER_S)
    clocks = Clocks(monkeypatch)

    async def work(gateway: Gateway) -> None:
        # Its message may still arrive, although the carrier does not know of it yet.
        for clocks.ahead_s in ahead_s:
            await gateway.upkeep.reconcile()
        assert await held(own_store) == PRICE
        clocks.passed_s = SETTLE_AFTER_S + 1
        await gateway.upkeep.reconcile()
        assert await held(own_store) == 0

    in_gateway(own_store, monkeypatch, work)


def test_what_was_asked_for_while_the_clock_was_ahead_does_not_wait_until_that_time_comes(
    own_store: Store, carrier: FakeCarrier, monkeypatch: pytest.MonkeyPatch
) -> None:
    left_pending(own_store, carrier, "cut_before_commit", settle_after_s=SETTLE_AFTER_S)
    age_pending(own_store, -2 * HOUR_S)
    clocks = Clocks(monkeypatch)

    async def work(gateway: Gateway) -> None:
        for clocks.passed_s in (0, SETTLE_AFTER_S - 1):
            await gateway.upkeep.reconcile()
            # For all that is known it was asked for a moment ago.
            assert await held(own_store) == PRICE
        clocks.passed_s = SETTLE_AFTER_S
        await gateway.upkeep.reconcile()
        assert await held(own_store) == 0

    in_gateway(own_store, monkeypatch, work)


def test_if_its_carrier_cannot_say_it_is_overdue_and_the_operator_can_decide(
    own_store: Store, carrier: FakeCarrier, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = {"settle_after_s": SETTLE_AFTER_S}
    _, body = left_pending(own_store, carrier, "cut_before_commit", **link)
    age_pending(own_store, -2 * HOUR_S)
    carrier.misbehave("refuse", message=LOOK_UP)
    clocks = Clocks(monkeypatch)

    async def work(gateway: Gateway) -> None:
        reconciler, gauges = gateway.upkeep._reconciler, gateway._metrics.gauges.database
        await gateway.upkeep.reconcile()
        assert gauges.waybills_overdue == 0
        with pytest.raises(CarrierError):
            await reconciler.decide(body["order_sn"], None, None, RUNTIME)
        clocks.passed_s = SETTLE_AFTER_S
        await gateway.upkeep.reconcile()
        clocks.passed_s += 1
        await gateway.upkeep.reconcile()
        assert await held(own_store) == PRICE
        if not own_store.is_shared:
            # The clock of a server does not pass with those of this test.
            assert gauges.waybills_overdue == 1
        decided = await reconciler.decide(body["order_sn"], None, None, RUNTIME)
        assert decided.outcome is Outcome.GIVEN_UP
        assert await held(own_store) == 0

    in_gateway(own_store, monkeypatch, work)

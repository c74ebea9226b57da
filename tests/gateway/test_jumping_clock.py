"""The clock of the machine jumps ahead, and back again some time later: nothing was dropped before
its time meanwhile."""

import time
from datetime import date
from types import SimpleNamespace

import pytest

from tests.pipeline.test_together import analysis, codes_of
from tests.support.in_process import in_gateway
from tests.support.ledger import new_caller
from tests.support.stores import Store
from tollway.gateway import upkeep
from tollway.gateway.gateway import Gateway
from tollway.ledger import runtime
from tollway.ledger.idempotency import KEPT_MS
from tollway.ledger.runtime import CautiousClock, Runtime
from tollway.pipeline import http

DAY_S = 86_400
YEAR_S = 365 * DAY_S


class Clocks:
    """That of the machine, which may be wrong, and one that only runs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, ahead_s: float = 0) -> None:
        self.ahead_s, self.passed_s = ahead_s, 0.0
        self._began_s = time.time()
        monkeypatch.setattr(Runtime.__init__, "__defaults__", (self.now_s, *_others()))
        monkeypatch.setattr(time, "clock_gettime", lambda _: self.passed_s)
        monkeypatch.setattr(http, "time", self.now_s)
        monkeypatch.setattr(runtime, "_cautious_clock", CautiousClock())

    def now_s(self) -> float:
        return self._began_s + self.passed_s + self.ahead_s


def _others() -> tuple[object, ...]:
    _, *others = Runtime.__init__.__defaults__ or ()
    return tuple(others)


def _keep_answer(store: Store, account_id: str, at_ms: int) -> None:
    store.run(
        "INSERT INTO idempotency_key (account_id, key, request_id, at_ms, fingerprint, sealed) "
        f"VALUES ('{account_id}', 'key {at_ms}', 'r', {at_ms}, '', '')"
    )


def _kept(store: Store) -> int:
    ((count,),) = store.run("SELECT count(*) FROM idempotency_key")
    return int(count)


@pytest.mark.sqlite
def test_what_is_kept_for_a_time_outlasts_a_clock_that_is_ahead_for_an_hour(
    own_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    account_id = new_caller(own_store).account_id
    clocks = Clocks(monkeypatch)
    now_ms = int(clocks.now_s() * 1000)

    async def work(gateway: Gateway) -> None:
        _keep_answer(own_store, account_id, now_ms)
        _keep_answer(own_store, account_id, now_ms - KEPT_MS)
        await gateway.upkeep.tidy()
        assert _kept(own_store) == 1
        clocks.ahead_s = YEAR_S
        for _ in range(60):
            clocks.passed_s += 60
            await gateway.upkeep.tidy()
        assert _kept(own_store) == 1
        clocks.ahead_s = 0
        clocks.passed_s = KEPT_MS / 1000 + 1
        await gateway.upkeep.tidy()
        assert _kept(own_store) == 0

    in_gateway(own_store, monkeypatch, work)


@pytest.mark.sqlite
def test_a_clock_that_was_behind_is_believed_again_at_once(
    own_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    account_id = new_caller(own_store).account_id
    clocks = Clocks(monkeypatch)
    now_ms = int(clocks.now_s() * 1000)

    async def work(gateway: Gateway) -> None:
        _keep_answer(own_store, account_id, now_ms - KEPT_MS)
        clocks.ahead_s = -YEAR_S
        await gateway.upkeep.tidy()
        assert _kept(own_store) == 1
        clocks.ahead_s = 0
        await gateway.upkeep.tidy()
        assert _kept(own_store) == 0

    in_gateway(own_store, monkeypatch, work)


@pytest.mark.sqlite
@pytest.mark.parametrize(
    "ahead_s", [(0, 2 * DAY_S, 0), (-2 * DAY_S, 0)], ids=["ahead meanwhile", "behind at first"]
)
def test_a_repetition_after_the_clock_was_wrong_by_days_is_not_charged(
    own_store: Store, monkeypatch: pytest.MonkeyPatch, today: date, ahead_s: tuple[int, ...]
) -> None:
    payer = new_caller(own_store)
    clocks = Clocks(monkeypatch)
    request = analysis(payer.token, today, (b"idempotency-key", b"a-key-of-this-test"))

    def charges() -> int:
        ((count,),) = own_store.run("SELECT count(*) FROM entry WHERE kind = 'charge'")
        return int(count)

    async def work(gateway: Gateway) -> None:
        await gateway.start()
        for clocks.ahead_s in ahead_s:
            await gateway.upkeep.tidy()
            assert await codes_of(gateway, [request]) == [0]
        assert charges() == 1
        # A day later it has expired, swept or not.
        clocks.passed_s = DAY_S + 1
        assert await codes_of(gateway, [request]) == [0]
        assert charges() == 2

    in_gateway(own_store, monkeypatch, work)


@pytest.mark.sqlite
@pytest.mark.parametrize("is_started_so", [True, False])
def test_what_is_kept_while_the_clock_is_years_ahead_stays_a_day_and_goes_in_two(
    own_store: Store, monkeypatch: pytest.MonkeyPatch, today: date, *, is_started_so: bool
) -> None:
    payer = new_caller(own_store)
    clocks = Clocks(monkeypatch, 10 * YEAR_S if is_started_so else 0)

    async def work(gateway: Gateway) -> None:
        await gateway.start()
        for clocks.ahead_s, key in (10 * YEAR_S, b"while it is ahead"), (0, b"once it is right"):
            await gateway.upkeep.tidy()
            request = analysis(payer.token, today, (b"idempotency-key", key))
            assert await codes_of(gateway, [request]) == [0]
        clocks.passed_s = DAY_S - 1
        await gateway.upkeep.tidy()
        assert _kept(own_store) == 2
        clocks.passed_s = 2 * DAY_S + 1
        await gateway.upkeep.tidy()
        assert _kept(own_store) == 0

    in_gateway(own_store, monkeypatch, work)


@pytest.mark.sqlite
def test_a_gateway_that_started_before_its_clock_was_set_says_each_hour_that_it_deletes_late(
    own_store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clocks = Clocks(monkeypatch, -YEAR_S)
    running = SimpleNamespace(time=time.time, monotonic=lambda: clocks.passed_s)
    monkeypatch.setattr(upkeep, "time", running)

    async def work(gateway: Gateway) -> None:
        said = []
        for ahead_s, passed_s in ((-YEAR_S, 0), (0, 60), (0, 60), (0, 3600), (1 - YEAR_S, 3600)):
            clocks.ahead_s = ahead_s
            clocks.passed_s += passed_s
            caplog.clear()
            await gateway.upkeep.tidy()
            said.append([each.getMessage() for each in caplog.records])
        late = (
            "what is old is deleted 364 days late, because the clock was set ahead: "
            "once it is right, restart the gateway"
        )
        assert said == [[], [late], [], [late], []]

    in_gateway(own_store, monkeypatch, work)

"""The clock of the machine jumps ahead, and back again some time later: nothing was dropped before
its time meanwhile."""

import time

import pytest

from tests.support.in_process import in_gateway
from tests.support.ledger import new_caller
from tests.support.stores import Store
from tollway.gateway.gateway import Gateway
from tollway.ledger.idempotency import KEPT_MS
from tollway.ledger.runtime import Runtime

YEAR_S = 365 * 86_400


class Clocks:
    """That of the machine, which may be wrong, and one that only runs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ahead_s = self.passed_s = 0.0
        self._began_s = time.time()
        monkeypatch.setattr(Runtime.__init__, "__defaults__", (self.now_s, *_others()))
        monkeypatch.setattr(time, "clock_gettime", lambda _: self.passed_s)

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

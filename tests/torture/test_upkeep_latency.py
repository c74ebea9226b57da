"""Paid calls beside upkeep that has millions of rows to drop: their p99 is at most twice as long.

`ROWS=… make torture` chooses how many; ten million take some minutes to make, and a few GiB. Phases
with and without upkeep alternate, so that a busy machine makes both slower.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.support.stores import Store
from tollway.gateway.retention import Retention
from tollway.ledger.accounts import open_account
from tollway.ledger.charges import Charge
from tollway.ledger.charging import ChargeBatcher
from tollway.ledger.entries import top_up
from tollway.ledger.idempotency import KEPT_MS, sweep_kept
from tollway.ledger.runtime import Runtime
from tollway.settings import Settings
from tollway.store.database import Database
from tollway.telemetry.metrics import Metrics

pytestmark = pytest.mark.torture

ROWS = int(os.environ.get("ROWS") or 10_000_000)
PHASES, PHASE_S = 4, 8.0
CALLERS, PAUSE_S = 8, 0.005
_DAY_MS = 86_400_000
_CHUNK = 1_000_000


def _fill(store: Store) -> None:
    """Half of the rows are answers whose keys have expired, half are calls without a charge that
    are older than their receipts are kept. A server keeps calls until their month is over."""
    now_ms = Runtime().at_ms()
    for first in range(0, ROWS // 2, _CHUNK):
        last = min(first + _CHUNK, ROWS // 2) - 1
        numbers = (
            f"generate_series({first}, {last}) AS n(i)"
            if store.is_shared
            else f"(WITH RECURSIVE n(i) AS (VALUES({first}) UNION ALL SELECT i + 1 FROM n "
            f"WHERE i < {last}) SELECT i FROM n)"
        )
        blob = "'\\x00'::bytea" if store.is_shared else "zeroblob(200)"
        store.run(
            "INSERT INTO idempotency_key (account_id, key, request_id, at_ms, fingerprint, sealed) "
            f"SELECT 'acc_old', 'k' || i, 'r' || i, {now_ms - KEPT_MS - _DAY_MS} + i % 1000, "
            f"{blob}, {blob} FROM {numbers}"
        )
        store.run(
            "INSERT INTO refused_call "
            "(account_id, request_id, at_ms, operation, code, reason, is_test) "
            f"SELECT 'acc_old', 'r' || i, {now_ms - 40 * _DAY_MS} + i % 1000, 'orders', 100, 'x', "
            f"0 FROM {numbers}"
        )


async def _calls(batcher: ChargeBatcher, account_id: str, phase: str) -> list[float]:
    """How long each of the calls of a phase waited for its charge."""
    ends_at_s = time.monotonic() + PHASE_S
    took_s: list[float] = []

    async def one(caller: int) -> None:
        number = 0
        while time.monotonic() < ends_at_s:
            number += 1
            request_id = f"{phase}.{caller}.{number}"
            charge = Charge(account_id, "credits", 1, "orders", request_id, "tok_x", number)
            began_s = time.perf_counter()
            await batcher.settle(charge)
            took_s.append(time.perf_counter() - began_s)
            await asyncio.sleep(PAUSE_S)

    await asyncio.gather(*map(one, range(CALLERS)))
    return took_s


async def _over_and_over(work: Callable[[], Awaitable[object]]) -> None:
    while True:
        await work()
        # When nothing is left to drop, it must not ask without a pause.
        await asyncio.sleep(PAUSE_S)


def _p99_ms(took_s: list[float]) -> float:
    return sorted(took_s)[len(took_s) * 99 // 100] * 1000


def test_upkeep_at_most_doubles_the_p99_of_paid_calls(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store(tmp_path / "tollway.db")
    _fill(store)

    async def work(database: Database) -> tuple[list[float], list[float]]:
        account = await open_account(database, Runtime(), "caller")
        await top_up(database, Runtime(), account.id, "credits", 10**9)
        batcher = ChargeBatcher(database, Metrics(), 10, lambda *_: None)
        retention = Retention(database, Settings(receipt_days=1))
        alone: list[float] = []
        beside: list[float] = []
        for phase in range(PHASES):
            alone += await _calls(batcher, account.id, f"alone {phase}")
            upkeep = [
                asyncio.create_task(_over_and_over(step))
                for step in (
                    lambda: sweep_kept(database, Runtime().at_ms()),
                    lambda: retention.apply(Runtime().at_ms()),
                )
            ]
            beside += await _calls(batcher, account.id, f"beside {phase}")
            for task in upkeep:
                assert not task.done(), "upkeep failed"
                task.cancel()
            await asyncio.gather(*upkeep, return_exceptions=True)
        return alone, beside

    alone, beside = store.do(work)
    ((keys,),) = store.run("SELECT count(*) FROM idempotency_key")
    ((refused,),) = store.run("SELECT count(*) FROM refused_call")
    alone_ms, beside_ms = _p99_ms(alone), _p99_ms(beside)
    dropped = f"{ROWS // 2 - int(keys):,} answers and {ROWS // 2 - int(refused):,} calls dropped"
    with capsys.disabled():
        print(  # noqa: T201
            f"\np99 alone {alone_ms:.1f} ms, beside upkeep {beside_ms:.1f} ms; {dropped} of "
            f"{ROWS // 2:,} each"
        )
    assert max(keys, refused) < ROWS // 2
    assert beside_ms <= 2 * alone_ms

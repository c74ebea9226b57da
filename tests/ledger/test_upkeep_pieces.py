"""Regular work on the ledger goes in small commits, in a fixed lock order, and loses nothing."""

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.counted_writes import CountedWrites
from tests.support.stores import Store
from tollway.ledger.accounts import open_account
from tollway.ledger.idempotency import KEPT_MS, sweep_kept
from tollway.ledger.runtime import Runtime
from tollway.ledger.tokens import record_use
from tollway.store.database import Database, StoreUnavailableError

OLD = 1300
TOKENS = 1300


def _blob(store: Store, number: int) -> str:
    return f"'\\x{number:08x}'" if store.is_shared else f"x'{number:08x}'"


def _new_tokens(store: Store, name: str) -> list[str]:
    account = store.do(lambda database: open_account(database, Runtime(), name)).id
    ids = [f"{account}-{nth}" for nth in range(TOKENS)]
    base = random.getrandbits(20) << 11
    rows = ", ".join(
        f"({_blob(store, base + nth)}, '{each}', '{account}', 'live', '', '', 1)"
        for nth, each in enumerate(ids)
    )
    store.run(
        f"INSERT INTO token (hash, id, account_id, kind, label, start, issued_at_s) VALUES {rows}"
    )
    return ids


def _used(store: Store, ids: list[str]) -> dict[str, Any]:
    account = ids[0].rpartition("-")[0]
    rows = store.run(f"SELECT id, last_used_at_s FROM token WHERE account_id = '{account}'")
    return dict(rows)


def test_kept_answers_are_swept_in_pieces_the_oldest_first(
    own_store: Store, new_name: Callable[[], str]
) -> None:
    # No gateway serves it, whose own upkeep would sweep some of them first.
    store = own_store
    now_ms, account = Runtime().at_ms(), f"swept {new_name()}"
    rows = ", ".join(
        f"('{account}', 'k{nth}', 'r{nth}', {now_ms - KEPT_MS - nth * 1000}, "
        f"{_blob(store, nth)}, {_blob(store, nth)})"
        for nth in range(OLD)
    )
    store.run(
        "INSERT INTO idempotency_key (account_id, key, request_id, at_ms, fingerprint, sealed) "
        f"VALUES {rows}"
    )

    async def sweep(database: Database) -> int:
        counted = CountedWrites(database)
        assert await sweep_kept(counted, now_ms) == OLD
        return counted.writes

    # More of them where the machine is slow.
    assert store.do(sweep) >= 3


def test_workers_that_store_the_same_tokens_never_deadlock(
    store: Store, new_name: Callable[[], str]
) -> None:
    ids = _new_tokens(store, new_name())

    async def work(database: Database) -> None:
        async def worker(number: int) -> None:
            shuffled = random.sample(ids, len(ids))
            used = dict.fromkeys(shuffled, 1000 + number)
            await record_use(database, used)
            assert not used

        await asyncio.gather(*map(worker, range(4)))

    store.do(work)
    assert set(_used(store, ids).values()) <= {1000, 1001, 1002, 1003}


def test_times_that_could_not_be_stored_are_left_for_the_next_run(
    store: Store, new_name: Callable[[], str]
) -> None:
    ids = _new_tokens(store, new_name())
    used = dict.fromkeys(ids, 7)

    async def work(database: Database) -> None:
        with pytest.raises(StoreUnavailableError):
            await record_use(CountedWrites(database, fails_from=2), used)

    store.do(work)
    stored = {each for each, at_s in _used(store, ids).items() if at_s == 7}
    assert len(stored) == 500
    assert stored.isdisjoint(used) and stored | set(used) == set(ids)
    store.do(lambda database: record_use(database, used))
    assert set(_used(store, ids).values()) == {7}

"""Regular work on the ledger goes in small commits, in a fixed lock order, and loses nothing."""

import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import pytest

from tests.support.counted_writes import CountedWrites
from tests.support.stores import Store
from tollway.ledger.accounts import open_account
from tollway.ledger.idempotency import KEPT_MS, sweep_kept
from tollway.ledger.runtime import Runtime
from tollway.ledger.tokens import record_use
from tollway.store.database import Database, StoreUnavailableError, Transaction
from tollway.store.query import Query
from tollway.store.small_commits import PIECE

T = TypeVar("T")
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

    async def sweep_a_piece(database: Database) -> None:
        with pytest.raises(StoreUnavailableError):
            await sweep_kept(CountedWrites(database, fails_from=2), now_ms)

    store.do(sweep_a_piece)
    left = {key for (key,) in store.run("SELECT key FROM idempotency_key")}
    assert left == {f"k{nth}" for nth in range(OLD - PIECE)}
    assert store.do(lambda database: sweep_kept(database, now_ms)) == OLD - PIECE


class _SeenRows:
    """A transaction that notes the tokens of its statements."""

    def __init__(self, inner: Transaction, seen: list[list[str]]) -> None:
        self._inner = inner
        self._seen = seen

    async def execute_many(self, query: Query, rows: Sequence[Any]) -> int:
        self._seen.append([row["wanted"] for row in rows])
        return await self._inner.execute_many(query, rows)


class _SeenWrites:
    def __init__(self, inner: Database) -> None:
        self._inner = inner
        self.seen: list[list[str]] = []

    async def write(self, work: Callable[[Any], Awaitable[T]]) -> T:
        return await self._inner.write(lambda tx: work(_SeenRows(tx, self.seen)))


def test_tokens_are_stored_in_one_order_and_in_pieces(
    store: Store, new_name: Callable[[], str]
) -> None:
    """Two workers that lock the same rows in two orders would wait for each other."""
    ids = _new_tokens(store, new_name())
    used = dict.fromkeys(random.sample(ids, len(ids)), 5)

    async def work(database: Database) -> list[list[str]]:
        writes = _SeenWrites(database)
        await record_use(writes, used)
        return writes.seen

    pieces = store.do(work)
    assert [each for piece in pieces for each in piece] == sorted(ids)
    assert max(map(len, pieces)) <= PIECE
    assert not used


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

"""An account that stays locked keeps its own calls waiting, and those of no other."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest
from msgspec.structs import replace
from sqlalchemy import text

from tests.support.ledger import CREDITS, Caller, new_caller
from tests.support.stores import Store
from tollway.ledger.charge_queue import PendingCharge
from tollway.ledger.charges import ActResult, BusyError, Charge
from tollway.ledger.charging import ChargeBatcher
from tollway.ledger.locked_accounts import post_busy, post_unless_stuck
from tollway.store.database import Database, StoreUnavailableError, Transaction
from tollway.store.query import Query
from tollway.telemetry.metrics import Metrics

pytestmark = pytest.mark.postgresql
# Less than a call waits in all; far more than it takes to find out that an account stays locked.
PATIENCE_S, CALL_TIMEOUT_S = 8, 30
LOCK = "SELECT FROM balance WHERE account_id = $1 FOR UPDATE"
LOCK_TIMEOUT = Query(lambda: text("SELECT current_setting('lock_timeout')"))
WAITS = (
    "SELECT FROM pg_locks JOIN pg_stat_activity USING (pid) "
    "WHERE NOT granted AND datname = current_database()"
)


@pytest.fixture
def callers(own_store: Store) -> list[Caller]:
    """In the order in which their balances are locked."""
    made = [new_caller(own_store, credits_=100) for _ in range(2)]
    return sorted(made, key=lambda each: each.account_id)


@asynccontextmanager
async def locked(
    store: Store, *callers: Caller
) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    connection = await asyncpg.connect(store.url)
    try:
        async with connection.transaction():
            for each in callers:
                await connection.execute(LOCK, each.account_id)
            yield connection
    finally:
        await connection.close()


def charge(of: Caller, request_id: str) -> Charge:
    return Charge(of.account_id, CREDITS, 1, "orders", request_id, of.token_id, 0, limit=100)


async def done(pending: PendingCharge) -> None:
    async with asyncio.timeout(PATIENCE_S):
        await pending


def test_who_was_locked_for_a_moment_does_not_wait_for_who_stays_locked(
    own_store: Store, callers: list[Caller]
) -> None:
    moment, stays = callers

    async def work(database: Database) -> None:
        batcher = ChargeBatcher(database, Metrics(), CALL_TIMEOUT_S, lambda *_: None)
        async with locked(own_store, stays) as connection:
            async with locked(own_store, moment):
                waiting = [batcher.settle(charge(each, "busy")) for each in (stays, moment)]
                while not await connection.fetch(WAITS):
                    pass
            await done(waiting[1])
            # While the queue waits for the other one, the locks of this one are free.
            while not await connection.fetch(WAITS):
                pass
            await done(batcher.settle(charge(moment, "later")))
            assert not waiting[0].done()
        await done(waiting[0])

    own_store.do(work)


class FailsInWaiting:
    """A database that is cut off once a statement waits for locks."""

    def __init__(self, inner: Database) -> None:
        self._inner = inner

    async def write_statement(self, query: Query, **values: object) -> object:
        if values["waits"]:
            raise StoreUnavailableError("cut off")
        return await self._inner.write_statement(query, **values)


def test_what_was_posted_without_waiting_stays_so_if_waiting_fails(
    own_store: Store, callers: list[Caller]
) -> None:
    free, stays = callers

    async def work(database: Database) -> None:
        charges = [charge(each, "busy") for each in (stays, free, stays)]
        async with locked(own_store, stays):
            cut_off: Any = FailsInWaiting(database)
            results = await post_busy(cut_off, charges)
            assert {place: type(each) for place, each in results.items()} == {
                0: StoreUnavailableError,
                2: StoreUnavailableError,
            }
            again = await post_busy(database, charges[:1])
            assert isinstance(again[0], BusyError)
        assert await post_busy(database, charges[:1]) == {}

    own_store.do(work)


async def act(transaction: Transaction, _: Charge) -> ActResult:
    """Returns how long it would wait for a lock of its own."""
    ((found,),) = await transaction.fetch_all(LOCK_TIMEOUT)
    return ActResult(found.encode(), is_paid=True)


def test_acts_of_others_are_posted_and_those_of_a_stuck_account_are_not_tried(
    own_store: Store, callers: list[Caller]
) -> None:
    free, stays = callers

    async def work(database: Database) -> None:
        acts = [replace(charge(each, "act"), act=act) for each in (stays, free, stays)]
        ((usual,),) = await database.fetch_all(LOCK_TIMEOUT)
        done = ActResult(usual.encode(), is_paid=True)
        async with locked(own_store, stays):
            results = await post_unless_stuck(database, lambda: acts, ())
            assert results.pop(1) == done
            assert {place: type(each) for place, each in results.items()} == {
                0: BusyError,
                2: BusyError,
            }
            plain = replace(acts[0], act=None)
            results = await post_busy(database, [*acts, plain])
            assert results.pop(1) == done
            assert {type(each) for each in results.values()} == {BusyError}
        results = await post_unless_stuck(database, lambda: acts, {stays.account_id})
        assert (type(results[0]), results[1]) == (BusyError, done)
        assert await post_busy(database, [*acts, plain]) == dict.fromkeys(range(3), done)

    own_store.do(work)

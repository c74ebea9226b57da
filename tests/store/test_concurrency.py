"""Bounded slots: which task gets one, in which order, and when the wait ends. And shared reads."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import column, func, literal, select

from tests.support.stores import Store
from tollway.store.concurrency import BoundedSlots, NextFlights, TurnSlots
from tollway.store.database import StoreBusyError, StoreUnavailableError
from tollway.store.query import Query
from tollway.store.sqlite.database import SqliteDatabase
from tollway.telemetry.metrics import Metrics

_numbers = select(literal(1).label("n")).cte("numbers", recursive=True)
_numbers = _numbers.union_all(
    select(column("n") + 1).select_from(_numbers).where(column("n") < 2e6)
)
# Takes many times as long as any wait for it here.
LONG = Query(select(func.count()).select_from(_numbers))


def run_in_order(*callers: str | None) -> list[str | None]:
    """Who had the only place, one after the other, when all asked for it in this order."""

    async def work() -> list[str | None]:
        places, had = BoundedSlots(1, "full"), []

        async def take(caller: str | None) -> None:
            async with places.taken(None, by=caller):
                had.append(caller)
                await asyncio.sleep(0)

        await asyncio.gather(*map(take, callers))
        return had

    return asyncio.run(work())


def test_a_user_that_asks_most_often_delays_no_other() -> None:
    assert run_in_order("a", "a", "a", "b", "c")[:3] == ["a", "b", "c"]
    assert run_in_order(None, None, "b") == [None, None, "b"], "only those with a name"


async def test_no_slot_in_time_fails_and_leaves_nothing_behind() -> None:
    places = BoundedSlots(2, "full")
    async with places.taken(None, by="a"), places.taken(None, by="b"):
        for who in ("a", "b", "c", None):
            with pytest.raises(StoreBusyError, match="full"):
                async with places.taken(0.01, by=who):
                    raise AssertionError("there was no place")
    async with places.taken(0, by="a"), places.taken(0, by="b"):
        pass


def test_users_of_slots_take_turns() -> None:
    async def work() -> list[str]:
        slots, had = TurnSlots(1, "full"), []

        async def use(user: str) -> None:
            await slots.take(None, user)
            had.append(user)
            await asyncio.sleep(0)
            slots.leave()

        await asyncio.gather(*map(use, "aaaabbc"))
        return had

    # One is had at once; from then on all wait.
    assert asyncio.run(work()) == list("aabcaba")


async def test_a_slot_that_is_not_waited_for_any_more_is_given_to_the_next() -> None:
    slots = TurnSlots(1, "full")
    await slots.take(None, "a")
    with pytest.raises(StoreBusyError, match="full"):
        await slots.take(0.01, "b")
    first, second = (asyncio.create_task(slots.take(None, each)) for each in "bc")
    await asyncio.sleep(0)
    # It goes before the slot is given to it, and does not know of it yet.
    first.cancel()
    slots.leave()
    await second
    third, fourth = (asyncio.create_task(slots.take(None, each)) for each in "bc")
    await asyncio.sleep(0)
    # It goes when the slot has been given to it.
    slots.leave()
    third.cancel()
    await fourth
    slots.leave()
    await slots.take(0, "a")
    results = await asyncio.gather(first, third, return_exceptions=True)
    assert [type(each) for each in results] == [asyncio.CancelledError] * 2


@pytest.mark.sqlite
async def test_a_long_read_of_a_file_is_not_waited_for_without_an_end(own_store: Store) -> None:
    database = SqliteDatabase(str(own_store.path), 0.05, Metrics())
    first = asyncio.ensure_future(database.fetch_long(LONG, "a"))
    await asyncio.sleep(0)
    with pytest.raises(StoreBusyError, match="takes its time"):
        await database.fetch_long(LONG, "b")
    assert await first == [(2_000_000,)]
    await database.close()


@pytest.mark.sqlite
async def test_a_long_read_ends_with_its_caller_and_with_the_database(own_store: Store) -> None:
    database = SqliteDatabase(str(own_store.path), 5.0, Metrics())
    before = threading.active_count()
    for _ in range(4):
        reading = asyncio.ensure_future(database.fetch_long(LONG))
        await asyncio.wait((reading,), timeout=0.02)
        reading.cancel()
    await asyncio.wait((reading,))
    # They did not come to wait for each other in threads.
    assert threading.active_count() <= before + 2
    reading = asyncio.ensure_future(database.fetch_long(LONG))
    await asyncio.wait((reading,), timeout=0.02)
    await database.close()
    with pytest.raises(StoreUnavailableError):
        await reading


@pytest.mark.sqlite
async def test_a_long_read_that_has_not_begun_may_be_cancelled_after_the_database_closed(
    own_store: Store,
) -> None:
    """All threads of the pool are busy while the gateway stops."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    database = SqliteDatabase(str(own_store.path), 5.0, Metrics())
    await database.fetch_long(Query(select(literal(1))))
    is_free = threading.Event()
    busy = asyncio.ensure_future(asyncio.to_thread(is_free.wait))
    await asyncio.sleep(0)
    reading = asyncio.ensure_future(database.fetch_long(LONG))
    await asyncio.sleep(0)
    await database.close()
    reading.cancel()
    await asyncio.wait((reading,), timeout=0.05)
    is_free.set()
    with pytest.raises(asyncio.CancelledError):
        await reading
    await busy


def test_tasks_share_the_next_attempt_and_never_one_that_began_before_they_asked() -> None:
    async def work() -> None:
        stored, attempts, begun, go_on = 0, 0, asyncio.Event(), asyncio.Event()

        async def read(_key: str) -> int:
            nonlocal attempts
            attempts += 1
            seen = stored
            begun.set()
            await go_on.wait()
            return seen

        flights = NextFlights(read)
        early = [asyncio.create_task(flights("a")) for _ in range(3)]
        await begun.wait()
        stored = 1
        late = [asyncio.create_task(flights("a")) for _ in range(3)]
        # A task that is cancelled takes nothing from the others.
        late[0].cancel()
        await asyncio.sleep(0)
        go_on.set()
        assert await asyncio.gather(*early) == [0, 0, 0]
        assert await asyncio.gather(*late[1:]) == [1, 1]
        assert attempts == 2

    asyncio.run(work())


def test_an_attempt_that_hangs_does_not_hold_up_the_next() -> None:
    async def work() -> None:
        hangs, begun = asyncio.Event(), asyncio.Event()
        tries = 0

        async def read(_: str) -> int:
            nonlocal tries
            tries += 1
            mine = tries
            if mine == 1:
                begun.set()
                await hangs.wait()
            return mine

        flights = NextFlights(read, patience_s=0)
        first = asyncio.create_task(flights("a"))
        await begun.wait()
        assert await flights("a") == 2
        assert await flights("a") == 3
        hangs.set()
        assert await first == 1
        assert await flights("a") == 4

    asyncio.run(work())


async def test_the_error_of_an_attempt_is_that_of_all_who_share_it_and_of_no_later_one() -> None:
    tries: list[str] = []

    async def read(key: str) -> int:
        tries.append(key)
        if len(tries) == 1:
            raise StoreBusyError("busy")
        return 7

    flights = NextFlights(read)
    found = await asyncio.gather(flights("a"), flights("a"), return_exceptions=True)
    assert [type(each) for each in found] == [StoreBusyError] * 2
    assert await asyncio.gather(flights("a"), flights("b")) == [7, 7]
    assert tries == ["a", "a", "b"]

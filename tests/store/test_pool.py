"""The connections to PostgreSQL: used again, never more than allowed, and not without a bound."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import asyncpg
import pytest

from tests.support.in_loop import InLoop
from tests.support.postgresql import new_database, run_on
from tollway.store.database import StoreBusyError, StoreUnavailableError
from tollway.store.postgresql.errors import ServerFullError
from tollway.store.postgresql.hosts import Connection
from tollway.store.postgresql.pool import Pool

pytestmark = pytest.mark.postgresql

SIZE = 2
PATIENT_S = 30.0
HASTY_S = 0.05


class Clock:
    """Stands still until it is set."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class OwnPool:
    """A pool on a real server, and how many connections it has made."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.made = 0
        self.problem: Exception | None = None
        self.clock = Clock()
        self.pool = Pool(self._connect, SIZE, PATIENT_S, self.clock)

    async def _connect(self) -> Connection:
        if self.problem is not None:
            raise self.problem
        self.made += 1
        return await asyncpg.connect(self._url)

    def hurry(self) -> None:
        """From now on no task waits for long; connecting in so short a time might take too long."""
        self.pool._patience_s = HASTY_S

    async def pid(self) -> int:
        """The server's process behind the connection that is used next."""
        async with self.pool.session() as session:
            return session.get_server_pid()

    @asynccontextmanager
    async def all_in_use(self) -> AsyncIterator[list[Connection]]:
        async with self.pool.session() as first, self.pool.session() as second:
            yield [first, second]


@pytest.fixture(scope="module")
def url(engine: str) -> str:
    return new_database(is_migrated=False)


@pytest.fixture
def own(url: str) -> InLoop[OwnPool]:
    async def run(test: Callable[[OwnPool], Awaitable[None]]) -> None:
        own = OwnPool(url)
        try:
            await test(own)
        finally:
            await own.pool.close()

    return InLoop(lambda test: asyncio.run(run(test)))


async def test_a_connection_is_used_again(own: OwnPool) -> None:
    assert len({await own.pid() for _ in range(5)}) == 1
    async with own.all_in_use() as (first, second):
        assert first is not second
    await own.pid()
    assert own.made == SIZE


async def test_a_task_that_wants_one_more_has_it_when_one_comes_back(own: OwnPool) -> None:
    async with own.all_in_use():
        waiting = [asyncio.ensure_future(own.pid()) for _ in range(20)]
        # A cancelled task does not lose the slot of another.
        await asyncio.sleep(0)
        waiting.pop(0).cancel()
    assert len(set(await asyncio.gather(*waiting))) <= SIZE
    assert own.made == SIZE


async def test_but_not_without_an_end(own: OwnPool) -> None:
    async with own.all_in_use():
        own.hurry()
        with pytest.raises(StoreBusyError, match="in use"):
            await own.pid()
    assert await own.pid()


async def test_a_connection_that_cannot_be_made_takes_no_place(own: OwnPool) -> None:
    own.problem = StoreUnavailableError("no host")
    for _ in range(SIZE + 1):
        with pytest.raises(StoreUnavailableError, match="no host"):
            await own.pid()
    own.problem = None
    async with own.all_in_use():
        assert own.made == SIZE


async def test_while_the_server_has_no_more_one_of_its_own_is_waited_for(own: OwnPool) -> None:
    async with own.pool.session() as session:
        own.problem = ServerFullError("too many connections")
        mine = session.get_server_pid()
        waiting = [asyncio.ensure_future(own.pid()) for _ in range(5 * SIZE)]
        waiting.pop(1).cancel()
        await asyncio.sleep(0.01)
        waiting.pop(0).cancel()
        await asyncio.sleep(0.01)
        assert not any(each.done() for each in waiting)
    assert set(await asyncio.gather(*waiting)) == {mine}
    # None at all: then there is nothing to wait for.
    own.pool.renew()
    with pytest.raises(ServerFullError):
        await own.pid()
    own.problem = None
    async with own.all_in_use():
        own.hurry()
        own.problem = ServerFullError("too many connections")
        with pytest.raises(StoreBusyError, match="in use"):
            await own.pid()
    assert own.made == 1 + SIZE


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_one_that_came_back_just_before_a_renewal_is_not_used_again(
    own: OwnPool, is_cancelled: bool
) -> None:
    async with own.pool.session() as before:
        own.problem, used = ServerFullError("too many connections"), before.get_server_pid()
        waiting = asyncio.create_task(own.pid())
        while not own.pool._for_next:  # noqa: ASYNC110 - it can only be polled
            await asyncio.sleep(0)
    # It has been given to the task, which has not run since.
    own.problem = None
    own.pool.renew()
    if is_cancelled:
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    pid = await own.pid() if is_cancelled else await waiting
    assert pid != used and before.is_closed()


async def test_one_that_the_server_has_again_is_made_while_the_own_ones_are_in_use(
    own: OwnPool,
) -> None:
    async with own.pool.session():
        own.problem = ServerFullError("too many connections")
        waiting = asyncio.ensure_future(own.pid())
        await asyncio.sleep(0.01)
        own.problem = None
        assert await waiting
    assert own.made == SIZE


async def test_one_that_was_lost_is_not_used_again(own: OwnPool, url: str) -> None:
    async with own.pool.session() as session:
        lost = session.get_server_pid()
        session.terminate()
    assert await own.pid() != lost
    # Lost while it was idle.
    lost = await own.pid()
    await asyncio.to_thread(run_on, url, f"SELECT pg_terminate_backend({lost}, 10000)")
    async with asyncio.timeout(PATIENT_S):
        while await own.pid() == lost:  # noqa: ASYNC110 - it can only be polled
            await asyncio.sleep(0)


async def test_one_with_an_open_transaction_is_not_used_again(own: OwnPool) -> None:
    async with own.pool.session() as session:
        await session.execute("BEGIN")
        left = session.get_server_pid()
    assert await own.pid() != left


@pytest.mark.parametrize("is_renewed", [True, False])
async def test_after_a_renewal_all_are_new(own: OwnPool, is_renewed: bool) -> None:
    free = await own.pid()
    async with own.pool.session() as session:
        used = session.get_server_pid()
        if is_renewed:
            own.pool.renew()
        assert await session.fetchval("SELECT 1") == 1, "what is in use goes on"
    async with own.all_in_use() as now:
        kept = {free, used} & {each.get_server_pid() for each in now}
    assert bool(kept) is not is_renewed


@pytest.mark.parametrize(("later_s", "made"), [(299, 2), (301, 3)])
async def test_idle_connections_are_closed_after_five_minutes(
    own: OwnPool, later_s: float, made: int
) -> None:
    async with own.all_in_use():
        pass
    own.clock.now_s = later_s
    await own.pid()
    async with own.all_in_use():
        pass
    assert own.made == made


@pytest.mark.parametrize(("later_s", "made"), [(3599, 1), (3601, 2)])
async def test_none_lives_longer_than_an_hour(own: OwnPool, later_s: float, made: int) -> None:
    await own.pid()
    own.clock.now_s = later_s
    await own.pid()
    await own.pid()
    assert own.made == made


@pytest.mark.parametrize("is_hurried", [True, False])
async def test_closing_waits_for_what_is_in_use_but_not_without_an_end(
    own: OwnPool, is_hurried: bool
) -> None:
    async with own.pool.session() as session:
        if is_hurried:
            own.hurry()
        closing = asyncio.ensure_future(own.pool.close())
        await asyncio.sleep(0)
        with pytest.raises(StoreUnavailableError, match="closed"):
            await own.pid()
        if is_hurried:
            await closing
            assert session.is_closed()
        else:
            assert await session.fetchval("SELECT 1") == 1
    await closing
    assert session.is_closed()

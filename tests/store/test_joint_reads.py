"""Reads that share a statement: each gets what it would get alone, and no older rows."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count

import asyncpg
import pytest
from sqlalchemy import Integer, String, bindparam, cast, func, select

from tests.store.on_postgresql import DEADLINE_S, add, opened
from tests.support.in_loop import InLoop
from tests.support.postgresql import run_on, waiting
from tests.support.remote import eventually
from tests.support.stores import Store
from tollway.operations.product_analysis.schema import product, product_day_parts
from tollway.store.database import Row, StoreBusyError, StoreUnavailableError
from tollway.store.postgresql import joint_reads
from tollway.store.postgresql.database import PostgresqlDatabase
from tollway.store.postgresql.errors import StatementCancelledError
from tollway.store.postgresql.joint_reads import JointReads
from tollway.store.query import JointQuery

pytestmark = pytest.mark.postgresql

TITLE = JointQuery(select(product.c.title).where(product.c.product_id == bindparam("its")))
# A number that its column cannot hold is an error of the driver.
ON_DAY = JointQuery(
    select(product_day_parts.c.day).where(product_day_parts.c.day == bindparam("its"))
)
LOCK = "LOCK TABLE product IN ACCESS EXCLUSIVE MODE"
END = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tollway'"
TOGETHER_S = 7.0
# Takes as many seconds as are asked for, and may then skip its row.
SLEEP = JointQuery(
    select(cast(func.pg_sleep(bindparam("its", type_=Integer)), String)).offset(bindparam("skip"))
)
Served = tuple["Server", JointReads]


class Server:
    """Answers each read with the number of its statement, once it is let go."""

    def __init__(self) -> None:
        self.statements: list[list[object]] = []
        self.numbers = count(1)
        self.cancelled = 0
        self.sent = asyncio.Semaphore(0)
        self.let_go = asyncio.Semaphore(0)
        self.error: Exception | None = None

    async def send(
        self, text: str, arguments: tuple[object, ...], within_s: float | None = None
    ) -> list[Row]:
        is_joint = text == TITLE.together_postgresql
        assert within_s == (TOGETHER_S if is_joint else None)
        asked = list(arguments[0]) if is_joint else [arguments[0]]
        self.statements.append(asked)
        number = next(self.numbers)
        self.sent.release()
        try:
            await self.let_go.acquire()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.error is not None and is_joint:
            raise self.error
        rows = [(f"{its} of {number}",) for its in asked]
        # In any order.
        return [(n, *row) for n, row in reversed([*enumerate(rows, 1)])] if is_joint else rows


@pytest.fixture
def served() -> InLoop[Served]:
    async def run(test: Callable[[Served], Awaitable[None]]) -> None:
        server = Server()
        async with asyncio.timeout(DEADLINE_S):
            await test((server, JointReads(server.send, TOGETHER_S)))

    return InLoop(lambda test: asyncio.run(run(test)))


def read(reads: JointReads, its: str) -> asyncio.Task[list[Row]]:
    return asyncio.create_task(reads.read(TITLE, {"its": its}))


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is sent because a read has waited long enough."""
    monkeypatch.setattr(joint_reads, "_PATIENCE_S", 1000.0)


@pytest.mark.usefixtures("endless")
async def test_reads_of_a_moment_are_one_statement_and_each_gets_its_rows(served: Served) -> None:
    server, reads = served
    server.let_go.release()
    got = await asyncio.gather(*(read(reads, its) for its in "abc"))
    assert server.statements == [["a", "b", "c"]]
    assert got == [[("a of 1",)], [("b of 1",)], [("c of 1",)]]


@pytest.mark.usefixtures("endless")
async def test_a_read_that_comes_alone_is_sent_without_waiting_time_and_again(
    served: Served,
) -> None:
    server, reads = served
    for number in (1, 2, 3):
        server.let_go.release()
        assert await reads.read(TITLE, {"its": "a"}) == [(f"a of {number}",)]


@pytest.mark.usefixtures("endless")
async def test_a_read_is_not_given_the_rows_of_a_statement_that_had_begun(served: Served) -> None:
    server, reads = served
    first = read(reads, "a")
    await server.sent.acquire()
    same, other = read(reads, "a"), read(reads, "b")
    await asyncio.sleep(0)
    server.let_go.release()
    assert await first == [("a of 1",)]
    await server.sent.acquire()
    server.let_go.release()
    assert (await same, await other) == ([("a of 2",)], [("b of 2",)])
    assert server.statements == [["a"], ["a", "b"]]


async def test_a_statement_that_hangs_holds_no_other_read_up(served: Served) -> None:
    server, reads = served
    hanging = [read(reads, "a")]
    for _ in range(3):
        await server.sent.acquire()
        hanging.append(read(reads, "b"))
    await server.sent.acquire()
    for _ in hanging:
        server.let_go.release()
    await asyncio.gather(*hanging)


@pytest.mark.usefixtures("endless")
async def test_no_statement_has_more_than_so_many_reads(served: Served) -> None:
    (server, reads), most = served, joint_reads._TOGETHER_MAX
    asked = [read(reads, str(n)) for n in range(2 * most + 1)]
    for _ in range(3):
        server.let_go.release()
    await asyncio.gather(*asked)
    assert sorted(map(len, server.statements)) == [1, most, most]


@pytest.mark.usefixtures("endless")
@pytest.mark.parametrize(
    "error",
    [ValueError("a number that is too large"), StatementCancelledError("it takes too long")],
)
async def test_a_failure_that_may_be_of_one_read_is_tried_alone_and_an_outage_is_not(
    served: Served, error: Exception
) -> None:
    server, reads = served
    for _ in range(4):
        server.let_go.release()
    server.error = error
    assert await asyncio.gather(read(reads, "a"), read(reads, "b")) == [
        [("a of 2",)],
        [("b of 3",)],
    ]
    server.error = StoreUnavailableError("away")
    failed = await asyncio.gather(read(reads, "a"), read(reads, "b"), return_exceptions=True)
    assert [(type(each), str(each)) for each in failed] == [(StoreUnavailableError, "away")] * 2
    # Each call adds to the trace of its own.
    assert failed[0] is not failed[1]
    assert list(map(len, server.statements)) == [2, 1, 1, 2]


@pytest.mark.usefixtures("endless")
async def test_a_caller_that_goes_away_leaves_the_others_alone(served: Served) -> None:
    server, reads = served
    gone, stays = read(reads, "a"), read(reads, "b")
    await server.sent.acquire()
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    unsent = read(reads, "c")
    await asyncio.sleep(0)
    unsent.cancel()
    server.let_go.release()
    assert await stays == [("b of 1",)]
    server.let_go.release()
    assert await read(reads, "d") == [("d of 2",)]
    assert server.statements == [["a", "b"], ["d"]]


@pytest.mark.usefixtures("endless")
async def test_a_statement_without_callers_is_ended(served: Served) -> None:
    server, reads = served
    both = read(reads, "a"), read(reads, "b")
    await server.sent.acquire()
    waits = read(reads, "c")
    await asyncio.sleep(0)
    for each in both:
        each.cancel()
    # Those that wait for its end are sent at once.
    await server.sent.acquire()
    server.let_go.release()
    assert await waits == [("c of 2",)]
    assert server.cancelled == 1


def on_postgresql(
    store: Store, work: Callable[[PostgresqlDatabase], Awaitable[None]], timeout_s: float = 30
) -> None:
    async def run() -> None:
        database = opened(store.url, timeout_s)
        async with asyncio.timeout(DEADLINE_S):
            await work(database)
            await database.close()

    asyncio.run(run())


def test_a_value_that_no_column_holds_fails_its_own_read_alone(store: Store) -> None:
    async def work(database: PostgresqlDatabase) -> None:
        with pytest.raises(asyncpg.DataError):
            await database.fetch_all(ON_DAY, its=1 << 40)
        asked = (database.fetch_all(ON_DAY, its=its) for its in (1 << 40, 20260101))
        bad, good = await asyncio.gather(*asked, return_exceptions=True)
        assert (type(bad), good) == (asyncpg.DataError, [])

    on_postgresql(store, work)


@asynccontextmanager
async def locked_table(store: Store) -> AsyncIterator[None]:
    """No other session can read products meanwhile."""
    connection = await asyncpg.connect(store.url)
    try:
        await connection.execute(f"BEGIN; {LOCK}")
        yield
    finally:
        await connection.close()


async def three_reads(database: PostgresqlDatabase) -> list[object]:
    asked = (database.fetch_all(TITLE, its=its) for its in "abc")
    return list(await asyncio.gather(*asked, return_exceptions=True))


def test_when_the_connection_is_lost_every_read_of_a_statement_fails(store: Store) -> None:
    async def work(database: PostgresqlDatabase) -> None:
        await database.write(add)
        assert await three_reads(database) == [[("t",)], [], []]
        async with locked_table(store):
            asked = asyncio.create_task(three_reads(database))
            await asyncio.to_thread(eventually, lambda: waiting(store.url), lambda n: n == 1)
            await asyncio.to_thread(run_on, store.url, END)
            failed = await asked
        assert [type(each) for each in failed] == [StoreUnavailableError] * 3
        assert await three_reads(database) == [[("t",)], [], []]

    on_postgresql(store, work)


def test_every_read_of_a_statement_that_takes_too_long_fails_in_time(store: Store) -> None:
    async def work(database: PostgresqlDatabase) -> None:
        async with locked_table(store):
            failed = await three_reads(database)
        assert all(isinstance(each, StoreBusyError) for each in failed), failed

    on_postgresql(store, work, timeout_s=0.5)


async def beside_a_slow_one(database: PostgresqlDatabase, skip: int) -> None:
    """A read is answered, though one that does not end was asked for at the same moment."""
    slow = asyncio.create_task(database.fetch_all(SLEEP, its=1000, skip=skip))
    assert await database.fetch_all(SLEEP, its=0, skip=0) == [("",)]
    assert not slow.done()
    slow.cancel()
    await asyncio.gather(slow, return_exceptions=True)


def test_a_read_of_a_statement_that_takes_too_long_is_answered_alone(store: Store) -> None:
    on_postgresql(store, lambda database: beside_a_slow_one(database, 0), timeout_s=4)


def test_a_read_that_skips_many_rows_keeps_no_other_waiting(store: Store) -> None:
    on_postgresql(store, lambda database: beside_a_slow_one(database, 1000), timeout_s=1000)

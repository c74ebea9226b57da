"""The shared engine: what comes in the way of a transaction, and what is left in doubt."""

import asyncio
import gc
from contextlib import suppress

import asyncpg
import pytest
from sqlalchemy import bindparam, func, select

from tests.store.on_postgresql import add, opened
from tests.support.any_rows import ADD, COUNT, stored
from tests.support.pair import Pair
from tests.support.postgresql import new_database, run_on
from tests.support.stores import Store
from tollway.operations.product_analysis.schema import product
from tollway.store.database import CommitUnknownError, StoreBusyError, StoreError, Transaction
from tollway.store.migrate import migrate, newest_revision
from tollway.store.postgresql.database import PostgresqlDatabase
from tollway.store.query import Query
from tollway.telemetry.metrics import Metrics

pytestmark = pytest.mark.postgresql

SLEEP = Query(select(func.pg_sleep(30)))
CANCEL = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
LIMITS = ("statement_timeout", "idle_in_transaction_session_timeout", "transaction_timeout")
KNOWN = "SELECT 1 FROM pg_settings WHERE name = '{}'"
PAST_THE_LIMIT = Query(select(func.pg_sleep(0.6)))
NAMES = Query(select(product.c.product_id).order_by(product.c.product_id))


def test_two_that_do_the_same_at_once_are_done_one_after_the_other(store: Store) -> None:
    async def work(database: PostgresqlDatabase) -> None:
        met = asyncio.Barrier(2)
        runs = 0

        async def add_if_none(transaction: Transaction) -> bool:
            nonlocal runs
            runs += 1
            (found,) = await transaction.fetch_one(COUNT) or (0,)
            if runs <= 2:
                await met.wait()
            if found:
                return False
            await add(transaction)
            return True

        done = await asyncio.gather(*(database.write(add_if_none) for _ in range(2)))
        assert sorted(done) == [False, True]
        assert (await stored(database), runs) == (1, 3)

    store.do(work)


def test_two_that_wait_for_each_other_both_get_done(store: Store) -> None:
    store.do(lambda database: database.write(lambda tx: add(tx, "x")))
    store.do(lambda database: database.write(lambda tx: add(tx, "y")))
    touch = Query(
        product.update().where(product.c.product_id == bindparam("its")).values(title="changed")
    )

    async def work(database: PostgresqlDatabase) -> None:
        met, runs = asyncio.Barrier(2), 0

        async def both(transaction: Transaction, names: tuple[str, str]) -> None:
            nonlocal runs
            runs += 1
            await transaction.execute(touch, its=names[0])
            if runs <= 2:
                await met.wait()
            await transaction.execute(touch, its=names[1])

        await asyncio.gather(
            database.write(lambda tx: both(tx, ("x", "y"))),
            database.write(lambda tx: both(tx, ("y", "x"))),
        )
        # The server ended one of the two, or both in turn: a row that is let go may be taken again
        # by the one that was ended before the other, which waits for it, wakes up.
        assert runs >= 3

    store.do(work)


def test_text_is_in_the_order_of_its_bytes(store: Store) -> None:
    names = ["B", "a", "Z", "ä", "b", "_", "中", "0"]

    async def work(database: PostgresqlDatabase) -> None:
        for name in names:
            await database.write(lambda tx, name=name: add(tx, name))  # type: ignore[misc]
        found = [row[0] for row in await database.fetch_all(NAMES)]
        assert found == sorted(names, key=str.encode)

    store.do(work)
    columns = store.run(
        "SELECT DISTINCT collation_name FROM information_schema.columns "
        "WHERE table_schema = 'public' AND data_type = 'character varying' "
        "AND table_name <> 'alembic_version'"
    )
    assert columns == [("C",)]


def test_nodes_that_start_together_migrate_once() -> None:
    url = new_database(is_migrated=False)

    async def work() -> None:
        nodes = [opened(url) for _ in range(4)]
        found = await asyncio.gather(*map(migrate, nodes))
        newest = newest_revision()
        assert sorted(before or "" for before, _ in found) == ["", newest, newest, newest]
        await asyncio.gather(*(node.close() for node in nodes))

    asyncio.run(work())


def test_a_connection_lost_during_a_commit_leaves_a_doubt(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lose(transaction: asyncpg.transaction.Transaction) -> None:
        raise asyncpg.ConnectionDoesNotExistError("connection was closed")

    async def work(database: PostgresqlDatabase) -> None:
        with monkeypatch.context() as broken:
            broken.setattr(asyncpg.transaction.Transaction, "commit", lose)
            with pytest.raises(CommitUnknownError):
                await database.write(add)
        await database.write(lambda tx: add(tx, "b"))

    store.do(work)


async def test_without_a_free_connection_a_read_fails_as_busy(store: Store) -> None:
    database = PostgresqlDatabase(store.url, 2, Metrics(), connections=1)
    assert await stored(database) == 0
    # From now on no read has to connect, only to find the connection free.
    database._patience_s = 0.1
    slow = asyncio.ensure_future(database.fetch_one(SLEEP))
    await asyncio.sleep(0)
    with pytest.raises(StoreBusyError, match="in use"):
        await stored(database)
    with pytest.raises(StoreBusyError, match="statement timeout"):
        await slow
    assert await stored(database) == 0
    await database.close()


async def test_a_failure_that_is_passed_over_commits_nothing(store: Store) -> None:
    """The server undoes everything then, and answers the commit as if it had been asked to."""
    database = opened(store.url)

    async def pass_over(transaction: Transaction) -> None:
        await add(transaction)
        with suppress(StoreError):
            await add(transaction)

    with pytest.raises(StoreError, match="a failed statement was ignored"):
        await database.write(pass_over)
    assert await stored(database) == 0

    async def mind(transaction: Transaction) -> None:
        await add(transaction)
        with suppress(StoreError):
            async with transaction.savepoint():
                await add(transaction)

    await database.write(mind)
    assert await stored(database) == 1
    await database.close()


def test_any_other_warning_of_the_server_is_no_doubt(store: Store) -> None:
    """Such as that its transaction ids run out: calls go on, and its operator reads its log."""
    run_on(
        store.url,
        """CREATE FUNCTION warn() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN RAISE WARNING ''look here''; RETURN NULL; END'""",
    )
    run_on(
        store.url,
        """CREATE CONSTRAINT TRIGGER warning AFTER INSERT ON product DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION warn()""",
    )

    async def work() -> None:
        database = opened(store.url)
        # Both ways to commit; the trigger fires with the commit itself.
        await database.write(add)
        await database.write_statement(ADD, product_id="b")
        assert await stored(database) == 2
        await database.close()

    asyncio.run(work())


def test_a_commit_that_did_not_wait_for_the_standby_leaves_a_doubt() -> None:
    """It is on the primary alone then, and a failover would lose it."""
    pair = Pair(is_synchronous=True)

    async def work() -> None:
        impatient, patient = opened(pair.primary.url, 1), opened(pair.primary.url)
        await migrate(patient)
        await patient.write(add)
        with pair.standby.held():
            with pytest.raises(CommitUnknownError):
                await impatient.write(lambda tx: add(tx, "b"))
            waiting = asyncio.create_task(patient.write(lambda tx: add(tx, "c")))
            while not waiting.done():
                await asyncio.to_thread(run_on, pair.primary.url, CANCEL)
            with pytest.raises(CommitUnknownError, match="synchronous replication"):
                await waiting
            assert await stored(patient) == 3, "the server itself holds both for committed"
        await patient.write(lambda tx: add(tx, "d"))
        await asyncio.gather(impatient.close(), patient.close())

    try:
        asyncio.run(work())
    finally:
        pair.remove()


@pytest.mark.parametrize("call_timeout_s", [None, 30])
def test_no_limit_of_the_servers_own_ends_a_transaction(call_timeout_s: float | None) -> None:
    url = new_database()
    # Not every server has all of them.
    limits = [limit for limit in LIMITS if run_on(url, KNOWN.format(limit))]
    assert len(limits) > 1
    name = url.rpartition("/")[2]
    run_on(url, *(f"ALTER DATABASE {name} SET {limit} = '300ms'" for limit in limits), "SELECT")

    async def work() -> None:
        database = opened(url, call_timeout_s)

        async def take_time(transaction: Transaction) -> None:
            await add(transaction)
            await transaction.fetch_all(PAST_THE_LIMIT)
            await asyncio.sleep(0.6)  # As work does that reads a file.
            await add(transaction, "b")

        await database.write(take_time)
        assert await stored(database) == 2
        await database.close()

    asyncio.run(work())


@pytest.mark.parametrize(
    ("error", "logged"), [(StoreBusyError("busy"), 0), (ZeroDivisionError("a fault"), 1)]
)
def test_a_write_that_fails_after_its_caller_went_is_logged_unless_the_store_was_busy(
    store: Store, caplog: pytest.LogCaptureFixture, error: Exception, logged: int
) -> None:
    async def work(database: PostgresqlDatabase) -> list[object]:
        unseen: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, found: unseen.append(found))
        begun, may_end = asyncio.Event(), asyncio.Event()

        async def fail(_: Transaction) -> None:
            begun.set()
            await may_end.wait()
            raise error

        caller = asyncio.create_task(database.write(fail))
        await begun.wait()
        (write,) = database._writes
        caller.cancel()
        await asyncio.wait([caller])
        may_end.set()
        await asyncio.wait([write])
        del write
        gc.collect()
        return unseen

    assert store.do(work) == []
    assert len([record for record in caplog.records if record.exc_info]) == logged

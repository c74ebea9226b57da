"""The writer: each piece of work is a transaction, and one that fails harms no other."""

import asyncio
import gc
import threading
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path
from time import monotonic

import apsw
import pytest

from tests.faults.disk import FaultyDisk
from tests.power.disk import Step, Sync
from tests.support.any_rows import ADD, stored
from tests.support.stores import Store
from tollway.store.database import (
    StoreBusyError,
    StoreUnavailableError,
    Transaction,
)
from tollway.store.open import OpenDatabase, open_database
from tollway.store.postgresql.errors import ConflictError
from tollway.store.small_commits import PieceBudget
from tollway.store.sqlite import write_ahead_log
from tollway.store.sqlite.connection import Connection
from tollway.store.sqlite.database import SqliteDatabase
from tollway.store.sqlite.files import WriteLock
from tollway.telemetry.metrics import Metrics

DEADLINE_S = 30


def adds(*names: str, then: Exception | None = None) -> Callable[[Transaction], Awaitable[int]]:
    async def work(transaction: Transaction) -> int:
        for name in names:
            await transaction.execute(ADD, product_id=name)
        if then is not None:
            raise then
        return len(names)

    return work


async def test_work_that_raises_is_rolled_back_and_the_next_works(database: OpenDatabase) -> None:
    with pytest.raises(LookupError, match="no"):
        await database.write(adds("a", "b", then=LookupError("no")))
    assert await stored(database) == 0
    assert await database.write(adds("a")) == 1
    with pytest.raises((apsw.ConstraintError, ConflictError)):
        await database.write(adds("b", "a"))
    assert await stored(database) == 1


@pytest.mark.sqlite
async def test_work_that_awaits_something_foreign_fails_clearly_and_leaves_nothing(
    database: OpenDatabase,
) -> None:
    async def foreign(transaction: Transaction) -> None:
        await transaction.execute(ADD, product_id="a")
        try:
            await asyncio.sleep(0)
        finally:
            ended.append("foreign")

    ended: list[str] = []
    with pytest.raises(RuntimeError, match="must not wait") as raised:
        await database.write(foreign)
    assert raised.value and ended == ["foreign"]
    assert await stored(database) == 0
    assert await database.write(adds("a")) == 1


async def test_a_part_that_raises_is_undone_alone(database: OpenDatabase) -> None:
    async def parts(transaction: Transaction) -> None:
        await transaction.execute(ADD, product_id="before")
        with pytest.raises(LookupError):
            async with transaction.savepoint():
                await adds("inside", then=LookupError())(transaction)
        async with transaction.savepoint():
            await transaction.execute(ADD, product_id="after")

    await database.write(parts)
    assert await stored(database) == 2


async def test_a_first_part_that_raises_is_undone_and_the_work_goes_on(
    database: OpenDatabase,
) -> None:
    async def parts(transaction: Transaction) -> None:
        with pytest.raises(LookupError):
            async with transaction.first_part():
                await adds("inside", then=LookupError())(transaction)
        await transaction.execute(ADD, product_id="after")

    async def fails(transaction: Transaction) -> None:
        await parts(transaction)
        raise LookupError

    with pytest.raises(LookupError):
        await database.write(fails)
    assert await stored(database) == 0
    await database.write(parts)
    assert await stored(database) == 1


@pytest.mark.sqlite
def test_a_failure_whose_caller_no_longer_waits_is_not_reported(store: Store) -> None:
    reported: list[dict[str, object]] = []
    begun, go_on = threading.Event(), threading.Event()

    async def work(database: OpenDatabase) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, found: reported.append(found))

        async def fails(_: Transaction) -> None:
            begun.set()
            assert go_on.wait(DEADLINE_S)
            raise LookupError

        waiting = asyncio.ensure_future(database.write(fails))
        await asyncio.to_thread(begun.wait, DEADLINE_S)
        waiting.cancel()
        await asyncio.wait([waiting])
        go_on.set()
        del waiting
        await database.write(adds("next"))
        gc.collect()

    store.do(work)
    assert reported == []


async def test_what_others_write_at_once_is_done_one_after_the_other(
    database: OpenDatabase,
) -> None:
    await asyncio.gather(*(database.write(adds(f"n{number}")) for number in range(100)))
    assert await stored(database) == 100


def test_a_writer_that_waits_too_long_for_another_says_so(store: Store) -> None:
    async def work() -> None:
        database = open_database(store.url, Metrics(), call_timeout_s=1)
        with ExitStack() as hold:
            await asyncio.to_thread(hold.enter_context, store.held())
            with pytest.raises(StoreBusyError):
                await database.write(adds("a"))
            # By one who has the time to wait, and would in vain.
            read = await asyncio.to_thread(store.do, stored)
            assert read == 0, "reading must not wait for a writer"
            await asyncio.to_thread(hold.close)
        await database.close()

    asyncio.run(work())
    store.do(lambda database: database.write(adds("a")))
    assert store.do(stored) == 1


@pytest.mark.sqlite
async def test_work_behind_one_that_waits_does_not_wait_for_each_in_turn(store: Store) -> None:
    database = open_database(store.url, Metrics(), call_timeout_s=1)
    with ExitStack() as hold:
        await asyncio.to_thread(hold.enter_context, store.held())
        began_s = monotonic()
        writes = [database.write(adds(f"n{number}")) for number in range(6)]
        failed = await asyncio.gather(*writes, return_exceptions=True)
        assert [type(each) for each in failed] == [StoreBusyError] * 6
        # Of one that is begun late, the time begins again.
        assert monotonic() - began_s < 4
        await asyncio.to_thread(hold.close)
    assert await database.write(adds("a")) == 1
    assert await stored(database) == 1
    await database.close()


@pytest.mark.sqlite
async def test_work_does_not_wait_without_an_end_for_another_worker(
    store: Store, tmp_path: Path
) -> None:
    database = open_database(store.url, Metrics(), call_timeout_s=1, write_lock=WriteLock(tmp_path))
    other = WriteLock(tmp_path)
    async with asyncio.timeout(DEADLINE_S):
        with other, pytest.raises(StoreBusyError):
            await database.write(adds("given up"))
        assert await database.write(adds("a")) == 1
    assert await stored(database) == 1
    other.close()
    await database.close()


def test_work_that_was_handed_in_is_finished_before_closing(store: Store) -> None:
    async def work(database: OpenDatabase) -> None:
        writes = [asyncio.ensure_future(database.write(adds(f"n{n}"))) for n in range(20)]
        await asyncio.sleep(0)
        await database.close()
        assert await asyncio.gather(*writes) == [1] * 20
        with pytest.raises(StoreUnavailableError, match="closed"):
            await database.write(adds("late"))

    async def run() -> None:
        await work(open_database(store.url, Metrics()))

    asyncio.run(run())
    assert store.do(stored) == 20


async def test_a_caller_that_gives_up_does_not_undo_a_commit(database: OpenDatabase) -> None:
    write = asyncio.ensure_future(database.write(adds("a")))
    await asyncio.sleep(0)
    write.cancel()
    with pytest.raises(asyncio.CancelledError):
        await write
    await database.write(adds("b"))
    # On a connection of its own it may be done sooner than the first.
    async with asyncio.timeout(DEADLINE_S):
        while await stored(database) != 2:  # noqa: ASYNC110 - it can only be polled
            await asyncio.sleep(0.01)


def test_every_commit_is_measured(store: Store) -> None:
    metrics = Metrics()

    async def run() -> None:
        database = open_database(store.url, metrics)
        await database.write(adds("a"))
        await stored(database)
        await database.close()

    asyncio.run(run())
    text = metrics.render().decode()
    assert "tollway_database_write_seconds_count 1.0" in text
    assert "tollway_database_read_seconds_count 1.0" in text


@pytest.mark.sqlite
def test_a_piece_of_upkeep_waits_for_the_disk_as_a_charge_does(tmp_path: Path) -> None:
    journal: list[Step] = []
    store = Store(tmp_path / "tollway.db")
    disk = FaultyDisk(store.path, journal)

    async def work(database: OpenDatabase) -> None:
        # The first one begins the log, whose header is synced in any case.
        await database.write(adds("first"))
        await PieceBudget(1).spend(database, lambda tx, _: tx.execute(ADD, product_id="a"))
        assert isinstance(journal[-1].what, Sync)

    with disk.in_use():
        store.do(work)


@pytest.mark.sqlite
@pytest.mark.parametrize("is_read", [False, True])
def test_a_long_log_is_written_back_in_no_commit_and_once(
    own_store: Store, monkeypatch: pytest.MonkeyPatch, is_read: bool
) -> None:
    monkeypatch.setattr(write_ahead_log, "_BEGIN_FRAMES", 12)
    by: list[str] = []
    checkpoint = Connection.checkpoint

    def watched(connection: Connection, mode: int) -> None:
        by.append(threading.current_thread().name)
        checkpoint(connection, mode)

    monkeypatch.setattr(Connection, "checkpoint", watched)

    async def work(database: OpenDatabase) -> None:
        assert isinstance(database, SqliteDatabase)
        reader = apsw.Connection(str(own_store.path))
        if is_read:
            # Then nothing can be written back, and the log goes on.
            reader.execute("BEGIN; SELECT count(*) FROM product").fetchall()
        before = own_store.path.read_bytes()
        for number in range(20):
            await database.write(adds(f"p{number}"))
        await asyncio.to_thread(database._writer._write_back.wait)
        assert (own_store.path.read_bytes() == before) is is_read
        reader.close()

    count = own_store.do(stored)
    own_store.do(work)
    # A log that begins again, after all of it was written back, may become long again.
    assert by == ["tollway-log"] if is_read else set(by) == {"tollway-log"}
    assert own_store.do(stored) == count + 20


@pytest.mark.sqlite
@pytest.mark.parametrize(
    ("owner", "name", "error"),
    [
        (Connection, "checkpoint", StoreBusyError("another process writes it back")),
        (write_ahead_log.threading.Thread, "start", RuntimeError("can't start new thread")),
    ],
    ids=["busy", "no thread"],
)
async def test_a_log_that_cannot_be_written_back_harms_no_commit(
    own_database: OpenDatabase,
    monkeypatch: pytest.MonkeyPatch,
    owner: type,
    name: str,
    error: Exception,
) -> None:
    def refuse(*_: object) -> None:
        raise error

    before = await stored(own_database)
    await own_database.write(adds("first"))
    with monkeypatch.context() as refusing:
        refusing.setattr(owner, name, refuse)
        refusing.setattr(write_ahead_log, "_BEGIN_FRAMES", 1)
        for number in range(3):
            await own_database.write(adds(f"p{number}"))
    assert await stored(own_database) == before + 4


@pytest.mark.sqlite
def test_an_unexpected_error_beside_the_work_does_not_end_the_writer(
    own_store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        monkeypatch.undo()
        raise LookupError("unexpected")

    async def work() -> None:
        database = open_database(own_store.url, Metrics(), 2)
        try:
            monkeypatch.setattr(write_ahead_log.LogWriteBack, "after_commit", fail)
            assert await database.write(adds("a")) == 1
            # Without its thread, this would be given up after two seconds.
            assert await database.write(adds("b")) == 1
        finally:
            await database.close()

    asyncio.run(work())
    assert "unexpected" in caplog.text

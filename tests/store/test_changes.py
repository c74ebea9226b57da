"""Every commit of any process is seen at once, and nothing else is."""

import asyncio
import sys
from pathlib import Path

import apsw
import pytest

from tests.support.stores import Store
from tollway.store.cache_versions import Versions, directory_changed, figures_changed
from tollway.store.database import Transaction
from tollway.store.open import open_database
from tollway.store.sqlite.database import SqliteDatabase
from tollway.telemetry.metrics import Metrics

pytestmark = pytest.mark.sqlite

CHANGE = "UPDATE version SET directory = directory + 1"


async def test_a_commit_by_another_connection_is_another_mark(
    database: SqliteDatabase, store: Store
) -> None:
    other = apsw.Connection(str(store.path))
    for _ in range(50):
        before = database.change_mark()
        other.execute(CHANGE)
        assert database.change_mark() != before


async def test_a_commit_by_another_process_is_another_mark(
    database: SqliteDatabase, store: Store
) -> None:
    before = database.change_mark()
    program = "import apsw, sys; apsw.Connection(sys.argv[1]).execute(sys.argv[2])"
    command = [sys.executable, "-c", program, str(store.path), CHANGE]
    process = await asyncio.create_subprocess_exec(*command)
    assert await process.wait() == 0
    assert database.change_mark() != before


async def test_a_commit_of_ones_own_is_another_mark(database: SqliteDatabase) -> None:
    before = database.change_mark()
    await database.write(directory_changed)
    assert database.change_mark() != before


async def test_reading_rolling_back_and_committing_nothing_leave_the_mark(
    database: SqliteDatabase, store: Store
) -> None:
    other = apsw.Connection(str(store.path))
    other.execute(CHANGE)
    before = database.change_mark()
    other.execute("SELECT * FROM version").fetchall()
    other.execute("BEGIN; SELECT * FROM version; COMMIT").fetchall()
    other.execute(f"BEGIN IMMEDIATE; {CHANGE}; ROLLBACK").fetchall()
    other.execute("BEGIN IMMEDIATE; COMMIT")
    other.execute("UPDATE version SET directory = 0 WHERE id = 4711").fetchall()
    assert database.change_mark() == before


async def test_changes_are_seen_across_checkpoints_and_a_restarted_wal(
    database: SqliteDatabase, store: Store
) -> None:
    other = apsw.Connection(str(store.path))
    for mode in ("PASSIVE", "FULL", "RESTART", "TRUNCATE"):
        other.execute(CHANGE)
        other.execute(f"PRAGMA wal_checkpoint({mode})").fetchall()
        before = database.change_mark()
        other.execute(CHANGE)
        assert database.change_mark() != before


async def test_a_change_is_seen_after_all_other_connections_were_closed(
    database: SqliteDatabase, store: Store
) -> None:
    for _ in range(3):
        before = database.change_mark()
        second = open_database(store.url, Metrics())
        await second.write(directory_changed)
        await second.close()
        assert database.change_mark() != before


# Ends with 0 if it may lock the byte of the WAL index by which SQLite sees whether another process
# has the database open. A process that can lock it alone rebuilds the index, whatever others do.
WOULD_REBUILD_THE_INDEX = """
import fcntl, sys
with open(sys.argv[1] + "-shm", "r+b") as index:
    fcntl.lockf(index, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 128)
"""


async def _another_process_would_rebuild_the_index(path: Path) -> bool:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WOULD_REBUILD_THE_INDEX, str(path), stderr=asyncio.subprocess.PIPE
    )
    _, errors = await process.communicate()
    assert process.returncode == 0 or b"BlockingIOError" in errors
    return process.returncode == 0


async def test_watching_does_not_let_go_of_the_locks_of_sqlite(
    database: SqliteDatabase, store: Store
) -> None:
    assert database.change_mark()
    assert not await _another_process_would_rebuild_the_index(store.path)
    # The control: to open and close the file in this process lets go of them.
    await asyncio.to_thread(Path(f"{store.path}-shm").read_bytes)
    assert await _another_process_would_rebuild_the_index(store.path)


async def test_versions_are_fresh_until_something_is_committed(
    database: SqliteDatabase, store: Store
) -> None:
    versions = Versions(database)
    assert not versions.is_fresh()
    await versions.refresh()
    assert versions.is_fresh()
    directory, figures = versions.directory, versions.figures
    apsw.Connection(str(store.path)).execute(CHANGE)
    assert not versions.is_fresh()
    await versions.refresh()
    assert versions.is_fresh()
    assert (versions.directory, versions.figures) == (directory + 1, figures)


async def test_each_kind_of_change_moves_its_own_version_and_only_when_committed(
    database: SqliteDatabase,
) -> None:
    async def both_then_fail(transaction: Transaction) -> None:
        await directory_changed(transaction)
        await figures_changed(transaction)
        raise LookupError

    versions = Versions(database)
    await versions.refresh()
    began = versions.directory, versions.figures
    await database.write(figures_changed)
    with pytest.raises(LookupError):
        await database.write(both_then_fail)
    await versions.refresh()
    assert versions.directory == began[0]
    assert versions.figures != began[1]

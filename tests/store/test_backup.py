"""A copy of the database at one moment, while others commit without a pause."""

import os
import shutil
import threading
from contextlib import closing
from pathlib import Path
from time import monotonic

import apsw
import pytest

from tests.faults.disk import FULL, Fault, FaultyDisk
from tests.support.stores import Store
from tollway.store.database import StoreError
from tollway.store.sqlite.database import SqliteDatabase, back_up_file
from tollway.store.sqlite.files import put_in_place

pytestmark = pytest.mark.sqlite

# Two rows that every commit changes together, and enough pages that a copy takes several steps.
PREPARE = """
CREATE TABLE pair (id INTEGER PRIMARY KEY, value INTEGER NOT NULL);
INSERT INTO pair VALUES (1, 0), (2, 0);
CREATE TABLE ballast (id INTEGER PRIMARY KEY, content BLOB NOT NULL);
INSERT INTO ballast (content)
  WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4000)
  SELECT randomblob(4000) FROM n;
"""
COMMIT = "UPDATE pair SET value = value + 1; INSERT INTO ballast (content) VALUES (zeroblob(9000));"


class Busy:
    """Another connection that commits as fast as it can, until it is stopped."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._is_over = threading.Event()
        self._has_begun = threading.Event()
        self._thread = threading.Thread(target=self._commit)
        self.commits = 0

    def _commit(self) -> None:
        connection = apsw.Connection(str(self._path))
        connection.set_busy_timeout(10_000)
        # Not as durable as the gateway's own, so that it commits the more often.
        connection.execute("PRAGMA synchronous = OFF")
        while not self._is_over.is_set():
            connection.execute(f"BEGIN IMMEDIATE; {COMMIT} COMMIT")
            self.commits += 1
            self._has_begun.set()
        connection.close()

    def __enter__(self) -> "Busy":
        self._thread.start()
        assert self._has_begun.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store(tmp_path / "tollway.db")
    apsw.Connection(str(made.path)).execute(PREPARE).fetchall()
    return made


def test_a_copy_ends_and_is_whole_while_others_commit(store: Store, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    steps: list[tuple[int, int]] = []
    commits_during: list[int] = []

    async def work(_database: SqliteDatabase) -> None:
        with Busy(store.path) as busy:
            before = busy.commits

            def progress(pages: int, pages_total: int) -> None:
                steps.append((pages, pages_total))
                assert len(steps) < 100, "the copy began again"
                # A commit surely falls between this step and the next.
                reached, deadline_s = busy.commits, monotonic() + 30
                while busy.commits == reached:
                    assert monotonic() < deadline_s

            back_up_file(str(store.path), str(copy), progress)
            commits_during.append(busy.commits - before)

    store.do(work)
    assert commits_during[0] >= len(steps) > 1
    assert steps[-1][0] == steps[-1][1] and steps == sorted(steps)
    connection = apsw.Connection(str(copy))
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    first, second = [value for (value,) in connection.execute("SELECT value FROM pair")]
    (grown,) = connection.execute("SELECT count(*) - 4000 FROM ballast").fetchone()
    assert first == second == grown


def test_the_database_goes_on_being_read_and_written_after_a_copy(
    store: Store, tmp_path: Path
) -> None:
    async def work(_database: SqliteDatabase) -> None:
        back_up_file(str(store.path), str(tmp_path / "one.db"), lambda *_: None)
        apsw.Connection(str(store.path)).execute(f"BEGIN; {COMMIT} COMMIT")
        # A read transaction left open would still see the past.
        back_up_file(str(store.path), str(tmp_path / "two.db"), lambda *_: None)

    store.do(work)
    values = [
        apsw.Connection(str(tmp_path / name)).execute("SELECT value FROM pair").fetchall()
        for name in ("one.db", "two.db")
    ]
    assert values == [[(0,), (0,)], [(1,), (1,)]]


def test_a_database_whose_commits_cannot_be_kept_is_not_replaced(
    store: Store, tmp_path: Path
) -> None:
    path, new = tmp_path / "old.db", tmp_path / "new.db"
    new.touch()
    with closing(apsw.Connection(str(store.path))) as connection:
        connection.execute("PRAGMA journal_mode = WAL; UPDATE pair SET value = 7").fetchall()
        # As a process that was killed leaves them.
        shutil.copy(store.path, path)
        shutil.copy(f"{store.path}-wal", f"{path}-wal")
    disk = FaultyDisk(path)
    with (
        disk.in_use(),
        disk.failing(Fault(1, FULL, times=1000, name="xWrite")),
        pytest.raises(StoreError, match="nothing is replaced"),
    ):
        put_in_place(new, path, tmp_path / "aside.db")
    with closing(apsw.Connection(str(path))) as connection:
        assert connection.execute("SELECT value FROM pair").fetchall() == [(7,), (7,)]


def test_a_program_that_opens_a_database_while_it_is_replaced_writes_to_neither(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, new, aside = (tmp_path / name for name in ("old.db", "new.db", "aside.db"))
    for file in (path, new):
        with closing(apsw.Connection(str(file))) as made:
            made.execute("PRAGMA journal_mode = WAL; CREATE TABLE t (x)").fetchall()
    link, late = os.link, apsw.Connection(":memory:")

    def open_late(*names: Path) -> None:
        nonlocal late
        late = apsw.Connection(str(path))
        with pytest.raises(apsw.BusyError):
            late.execute("INSERT INTO t VALUES (1)")
        link(*names)

    monkeypatch.setattr("os.link", open_late)
    put_in_place(new, path, aside)
    with closing(late), pytest.raises(apsw.ReadOnlyError):
        late.execute("INSERT INTO t VALUES (1)")
    assert sorted(tmp_path.iterdir()) == [aside, path]

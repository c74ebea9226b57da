"""A database as files: integrity checks, replacing one by another, backup folders, and the locks of
the processes that serve it."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from glob import escape
from pathlib import Path
from tempfile import mkdtemp
from time import sleep
from typing import TextIO

import apsw

from tollway.store.database import StoreError, StoreUnavailableError
from tollway.store.sqlite.connection import our_errors
from tollway.store.sqlite.schema_check import added_parts, changed_parts

# Files that may lie beside a database; `-wal` has commits that are not yet in the database itself.
SIDE_FILES = ("-wal", "-shm")
_PROBLEMS_MAX = 10
_RULE_BROKEN = "CHECK constraint failed"
_BUSY_TIMEOUT_MS = 1000
_BACKUP_PREFIX = "tollway-backup-"
# A command that checks whether a file is served holds its lock for less than this.
_LOOKED_AT_S = 0.1
_LOOKED_AT_TRIES = 5


def problems_of(path: Path) -> list[str]:
    """What SQLite finds wrong with a file's structure; nothing when it is sound.

    A row that violates a CHECK constraint is no damage: the audit reports what is wrong with it.
    """
    try:
        with our_errors(), closing(apsw.Connection(str(path))) as connection:
            found = connection.execute(f"PRAGMA integrity_check({_PROBLEMS_MAX})").fetchall()
            added = added_parts(connection)
    except StoreUnavailableError as error:
        return [str(error)]
    texts = [str(text) for (text,) in found]
    damage = [text for text in texts if text != "ok" and not text.startswith(_RULE_BROKEN)]
    return damage + added


def changes_of(path: Path) -> list[str]:
    """How the schema of a sound file differs from the one that Tollway made."""
    with our_errors(), closing(apsw.Connection(str(path))) as connection:
        return changed_parts(connection)


def side_files_of(path: Path) -> list[Path]:
    """The files beside a database that hold something of it."""
    beside = [path.with_name(path.name + ending) for ending in SIDE_FILES]
    return [each for each in beside if each.exists()]


def put_in_place(new: Path, path: Path, aside: Path | None) -> None:
    """Gives a complete database its name; the one that has the name now is kept under another.

    If there was a database under the name before, there is a complete one at every moment.
    """
    if aside is None:
        # Not a rename, which would silently replace a file created there meanwhile.
        os.link(new, path)
        return
    commits, kept = path.with_name(f"{path.name}-wal"), aside.with_name(f"{aside.name}-wal")
    with ExitStack() as stack:
        try:
            if commits.exists():
                # Opening a ruined database may throw these commits away.
                shutil.copyfile(commits, kept)
            is_whole = stack.enter_context(_closed(path))
        except BaseException:
            kept.unlink(missing_ok=True)
            raise
        if is_whole:
            kept.unlink(missing_ok=True)
        # SQLite would take them for files of the new database.
        for file in side_files_of(path):
            file.unlink()
        if path.exists():
            os.link(path, aside)
        new.replace(path)


@contextmanager
def _closed(path: Path) -> Iterator[bool]:
    """Checkpoints all commits into the database file, and fails if another program has it open;
    yields whether they are in it now. Meanwhile no other program can write to it, and one that has
    opened it cannot afterwards either, because SQLite notices that the file was moved."""
    with ExitStack() as stack:
        yield path.exists() and _lock_whole(path, stack)


def _lock_whole(path: Path, stack: ExitStack) -> bool:
    try:
        with ExitStack() as opened:
            connection = opened.enter_context(closing(apsw.Connection(str(path))))
            connection.set_busy_timeout(_BUSY_TIMEOUT_MS)
            connection.execute("PRAGMA journal_mode = DELETE; BEGIN EXCLUSIVE").fetchall()
            stack.enter_context(opened.pop_all())
    except (apsw.FullError, apsw.IOError) as error:
        raise StoreError(
            f"The last commits of {path} cannot be written into it ({error}): nothing is replaced."
        ) from None
    except (apsw.BusyError, apsw.LockedError):
        raise StoreError(f"{path} is being used by another program: end that one first.") from None
    except (apsw.CorruptError, apsw.NotADBError):
        # A ruined database is a reason to restore. It is kept as it is, with its log.
        return False
    return True


def make_backup_folder(database: Path) -> Path:
    """A folder for a backup beside its database, where there is space and the same protection."""
    return Path(mkdtemp(prefix=f"{_BACKUP_PREFIX}{database.name}-", dir=database.parent))


def remove_abandoned_backups(database: Path) -> None:
    """Removes unfinished backups of killed processes. Only the process that serves may call it."""
    # Exactly the suffix that mkdtemp adds: another database may have a longer name.
    for folder in database.parent.glob(f"{_BACKUP_PREFIX}{escape(database.name)}-????????"):
        shutil.rmtree(folder, ignore_errors=True)


class ServingLock:
    """Held by a serving process for as long as it lives; the system drops it when it dies."""

    def __init__(self, database_path: str) -> None:
        self._path = _lock_of(database_path)
        is_new = not self._path.exists()
        self._file = self._locked(database_path)
        try:
            self._file.truncate(0)
            self._file.write(str(os.getpid()))
            self._file.flush()
        except OSError as error:
            with suppress(OSError):
                # Closing flushes again, and fails again.
                (self.remove if is_new else self.release)()
            # A failed write does not name its file.
            raise OSError(error.errno, error.strerror, str(self._path)) from None

    def _locked(self, database_path: str) -> TextIO:
        tries = 0
        while True:
            file = self._path.open("a+", encoding="ascii")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                tries += 1
                if tries < _LOOKED_AT_TRIES:
                    file.close()
                    sleep(_LOOKED_AT_S / _LOOKED_AT_TRIES)
                    continue
                file.seek(0)
                holder = file.read().strip() or "unknown"
                file.close()
                raise StoreError(
                    f"{database_path} is already being served by process {holder}: "
                    "stop that one first, or use another database."
                ) from None
            if _is_at(file, self._path):
                return file
            # Its holder removed the file meanwhile: a lock on it keeps no other process out.
            file.close()

    def release(self) -> None:
        self._file.close()

    def remove(self) -> None:
        """Like `release`, but also removes the file, if no database was made."""
        self._path.unlink(missing_ok=True)
        self._file.close()


def is_served(database_path: str) -> bool:
    """Whether a process serves a file now, or has exclusive use of it."""
    try:
        descriptor = os.open(_lock_of(database_path), os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _lock_of(database_path: str) -> Path:
    """Beside the target of a symlink, since the file may be served under either name."""
    return Path(f"{Path(database_path).resolve()}.lock")


def _is_at(file: TextIO, path: Path) -> bool:
    """Whether an open file is the one that has this name now."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


class WriteLock:
    """The fair lock by which the workers of one file write one after the other. Only the writer
    thread of each process uses it.

    SQLite's own lock is not fair: a process that waits for it sleeps, and polls now and then. So
    each worker takes this lock before it begins a transaction. It consists of two: the worker that
    writes holds `writing`, and the one that is next in line holds `next`. A worker that has just
    written must get `next` before `writing`, and so cannot overtake the one in line. The system
    drops the locks of a process that dies.
    """

    def __init__(self, folder: Path) -> None:
        # Each process opens them itself: an inherited descriptor would share the same lock.
        self._next, self._writing = (
            os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            for name in ("next.lock", "writing.lock")
        )

    def __enter__(self) -> None:
        fcntl.flock(self._next, fcntl.LOCK_EX)
        try:
            fcntl.flock(self._writing, fcntl.LOCK_EX)
        finally:
            fcntl.flock(self._next, fcntl.LOCK_UN)

    def __exit__(self, *_: object) -> None:
        fcntl.flock(self._writing, fcntl.LOCK_UN)

    def close(self) -> None:
        os.close(self._next)
        os.close(self._writing)

"""A disk on which any call can fail: reads, writes, syncs, truncations, locks, shared memory.

SQLite's own VFS does the work. When it opens a file of the database, some functions in the table of
that file are replaced by ones that may fail instead. The driver's classes for a VFS would not do:
they pass shared memory by, and raise what they should only return.
"""

import ctypes
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import apsw

from tests.faults.functions import FUNCTIONS, XOPEN, XSLEEP, File, Methods, Vfs
from tests.power.disk import Action, FailedSync, Step, Sync, Truncate, Write
from tollway.store.sqlite import connection

IOERR, FULL, NOMEM, BUSY, CORRUPT = "IOERR", "FULL", "NOMEM", "BUSY", "CORRUPT"
KINDS = (IOERR, FULL, NOMEM, BUSY, CORRUPT)
# How much of its work a failed write, sync or truncation has done nevertheless.
BEFORE, HALF, AFTER = "before", "half", "after"
# The input or output error of each call.
_IO_ERRORS = {
    "open": apsw.SQLITE_CANTOPEN,
    "xRead": apsw.SQLITE_IOERR_READ,
    "xWrite": apsw.SQLITE_IOERR_WRITE,
    "xTruncate": apsw.SQLITE_IOERR_TRUNCATE,
    "xSync": apsw.SQLITE_IOERR_FSYNC,
    "xFileSize": apsw.SQLITE_IOERR_FSTAT,
    "xLock": apsw.SQLITE_IOERR_LOCK,
    "xShmMap": apsw.SQLITE_IOERR_SHMMAP,
    "xShmLock": apsw.SQLITE_IOERR_SHMLOCK,
    "xFetch": apsw.SQLITE_IOERR_MMAP,
}
_CODES = {
    FULL: apsw.SQLITE_FULL,
    NOMEM: apsw.SQLITE_NOMEM,
    BUSY: apsw.SQLITE_BUSY,
    CORRUPT: apsw.SQLITE_CORRUPT,
}
CHANGES = {"xWrite", "xTruncate", "xSync"}
_SHM_UNLOCK = 1


class Fault(NamedTuple):
    """So many calls in a row fail, from the one with the number `at` on; the first is 1.

    With a name, the first is the next call of that function; if it is alone, calls of other
    functions do not count until it fails.
    """

    at: int
    kind: str
    how: str = BEFORE
    times: int = 1
    name: str = ""
    is_alone: bool = False

    def code(self, call: str) -> int:
        return _IO_ERRORS[call] if self.kind == IOERR else _CODES[self.kind]


class FaultyDisk:
    """The files that belong to one path. What is done to them is noted in a journal, if given."""

    def __init__(self, path: Path, journal: list[Step] | None = None) -> None:
        self._path = str(path).encode()
        self._journal = journal
        self._names: dict[int, str] = {}
        self._fault: Fault | None = None
        self._calls = 0
        self._lock = threading.Lock()
        # The calls that failed since a fault was last set, and all of them.
        self.failed: list[str] = []
        self.total: Counter[tuple[str, str]] = Counter()

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """What is opened meanwhile stays on this disk until it is closed."""
        vfs = _default_vfs()
        # By address: what a field gives is only a view of it, and follows its changes.
        opens, sleeps = (
            ctypes.cast(each, ctypes.c_void_p).value for each in (vfs.xOpen, vfs.xSleep)
        )
        assert opens and sleeps
        vfs.xOpen = _kept(XOPEN(_Opening(XOPEN(opens), self)))
        vfs.xSleep = _kept(XSLEEP(_Sleeping(XSLEEP(sleeps), self)))
        try:
            yield
        finally:
            vfs.xOpen, vfs.xSleep = XOPEN(opens), XSLEEP(sleeps)

    @contextmanager
    def failing(self, fault: Fault) -> Iterator[None]:
        self.fail(fault)
        try:
            yield
        finally:
            self.work()

    def fail(self, fault: Fault) -> None:
        self.failed, self._calls, self._fault = [], 0, fault

    def work(self) -> None:
        self._fault = None

    @property
    def is_failing(self) -> bool:
        return self._fault is not None

    def belongs(self, name: int | None) -> bool:
        return name is not None and ctypes.string_at(name).startswith(self._path)

    def opened(self, file: int, name: int) -> None:
        self._names[file] = Path(ctypes.string_at(name).decode()).name

    def done(self, call: str, file: int, *arguments: Any) -> None:
        """Notes what a call has done to a file."""
        if call == "xWrite":
            data, length, offset = arguments
            self._note(file, Write(offset, ctypes.string_at(data, length)))
        elif call == "xTruncate":
            self._note(file, Truncate(*arguments))
        else:
            self._note(file, Sync())

    def not_synced(self, file: int) -> None:
        self._note(file, FailedSync())

    def _note(self, file: int, action: Action) -> None:
        if self._journal is not None:
            self._journal.append(Step(self._names[file], action))

    def fault_of(self, call: str) -> Fault | None:
        """Counts a call; its fault if it is to fail."""
        fault = self._fault
        if fault is None:
            return None
        with self._lock:
            others_count = self._calls and not (fault.is_alone and self._calls < fault.at)
            if not others_count and fault.name not in ("", call):
                return None
            self._calls += 1
            if not fault.at <= self._calls < fault.at + fault.times:
                return None
            self.failed.append(call)
            self.total[call, fault.kind] += 1
            return fault


class _Sleeping:
    """SQLite tries again without waiting while it may be a fault that makes a file busy."""

    def __init__(self, sleeps: Callable[..., int], disk: FaultyDisk) -> None:
        self._sleeps = sleeps
        self._disk = disk

    def __call__(self, vfs: int, microseconds: int) -> int:
        return microseconds if self._disk.is_failing else self._sleeps(vfs, microseconds)


class _Opening:
    """Opens a file of the system, and puts other functions into its table."""

    def __init__(self, opens: Callable[..., int], disk: FaultyDisk) -> None:
        self._opens = opens
        self._disk = disk
        self._tables: dict[int, Methods] = {}

    def __call__(self, vfs: int, name: int | None, file: int, flags: int, out: Any) -> int:
        if not self._disk.belongs(name):
            return self._opens(vfs, name, file, flags, out)
        fault = self._disk.fault_of("open")
        if fault is not None:
            ctypes.cast(file, ctypes.POINTER(ctypes.c_void_p))[0] = None
            return fault.code("open")
        result = self._opens(vfs, name, file, flags, out)
        opened = ctypes.cast(file, ctypes.POINTER(File)).contents
        if result == apsw.SQLITE_OK and opened.methods:
            assert name is not None
            self._disk.opened(file, name)
            opened.methods = ctypes.pointer(self._table(opened.methods))
        return result

    def _table(self, usual: Any) -> Methods:
        address = ctypes.addressof(usual.contents)
        if address not in self._tables:
            # Bytes, not fields: functions that are not there stay so.
            table = _kept(Methods.from_buffer_copy(usual.contents))
            for call in _IO_ERRORS.keys() & FUNCTIONS.keys():
                pointer = ctypes.cast(getattr(usual.contents, call), ctypes.c_void_p).value
                if pointer is not None:
                    usually = FUNCTIONS[call](pointer)
                    setattr(table, call, _kept(FUNCTIONS[call](_Call(call, usually, self._disk))))
            self._tables[address] = table
        return self._tables[address]


class _Call:
    """One function of a file."""

    def __init__(self, name: str, function: Callable[..., int], disk: FaultyDisk) -> None:
        self._name = name
        self._function = function
        self._disk = disk

    def __call__(self, *arguments: Any) -> int:
        # SQLite does not look at the result of unlocking.
        unlocks = self._name == "xShmLock" and arguments[3] & _SHM_UNLOCK
        fault = None if unlocks else self._disk.fault_of(self._name)
        if fault is None:
            return self._do(*arguments)
        if self._name in CHANGES and fault.how == AFTER:
            self._do(*arguments)
        elif self._name == "xWrite" and fault.how == HALF:
            file, data, length, offset = arguments
            self._do(file, data, length // 2, offset)
        elif self._name == "xSync":
            self._disk.not_synced(arguments[0])
        return fault.code(self._name)

    def _do(self, *arguments: Any) -> int:
        result = self._function(*arguments)
        if self._name in CHANGES and result == apsw.SQLITE_OK:
            self._disk.done(self._name, *arguments)
        return result


@contextmanager
def checkpoints_every(pages: int) -> Iterator[None]:
    """Databases that are opened meanwhile have so short a log that faults meet checkpoints too."""
    usual, text = "wal_autocheckpoint = 16000", connection._PRAGMAS
    assert usual in text
    with patch.object(connection, "_PRAGMAS", text.replace(usual, f"wal_autocheckpoint = {pages}")):
        yield


# SQLite may call them for as long as the process lives.
_alive: list[object] = []


def _kept(each: Any) -> Any:
    _alive.append(each)
    return each


def _default_vfs() -> Vfs:
    found = ctypes.c_void_p()
    with closing(apsw.Connection("")) as opened:
        opened.file_control("main", apsw.SQLITE_FCNTL_VFS_POINTER, ctypes.addressof(found))
    return ctypes.cast(found, ctypes.POINTER(Vfs)).contents

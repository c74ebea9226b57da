"""A restore on a disk that is full, or gets full, changes nothing and says what it needs."""

import errno
from pathlib import Path
from shutil import disk_usage
from typing import NoReturn

import pytest

from tests.cli.conftest import Command, assert_refused, files
from tests.faults.disk import FULL, Fault, FaultyDisk

# A shared database is copied with its own tools.
pytestmark = pytest.mark.sqlite
INTO = ("--database", "sqlite:///again.db")


def test_a_disk_that_gets_full_leaves_no_part_of_a_database(
    tollway: Command, backup: Path, workplace: Path
) -> None:
    disk, restored = FaultyDisk(workplace / "again.db.restoring"), workplace / "again.db"
    # Within the commit, within its writing back after the last connection is closed, and never.
    for at, status in ((1, 1), (9, 1), (13, 1), (1000, 0)):
        with disk.in_use(), disk.failing(Fault(at, FULL, times=1000, name="xWrite")):
            answer = tollway("restore", "copy.db", *INTO)
        assert answer.status == status
        assert ("Nothing was changed." in answer.err) == (status != 0), answer.err
        assert (restored.exists(), bool(disk.failed)) == (status == 0, status != 0)
        # Nor anything else that would have belonged to it.
        assert bool(list(workplace.glob("again.db*"))) == (status == 0)
    assert list(workplace.glob("*.restoring*")) == []


def test_a_full_disk_is_named_with_what_is_needed(
    tollway: Command, backup: Path, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size, before = backup.stat().st_size, files(workplace)
    (workplace / "elsewhere").mkdir()
    full = (
        f"The disk of {workplace.resolve() / 'elsewhere'} is full: to restore copy.db takes "
        f"{size:,} bytes and a little more, "
    )
    others = "Free some space on it, or name a database on another disk. Nothing was changed."
    into = ("--database", "sqlite:///elsewhere/again.db")
    with monkeypatch.context() as patched:
        # Known before anything is copied.
        patched.setattr(
            "tollway.cli.restore.disk_usage", lambda _: disk_usage("/")._replace(free=7)
        )
        assert_refused(tollway("restore", "copy.db", *into), full, "7 are free.", others)
    with monkeypatch.context() as patched:
        # Filled by another program while it is copied.
        patched.setattr("tollway.cli.restore.chunks_of", _no_space)
        assert_refused(tollway("restore", "copy.db", *into), full, others)
    disk = FaultyDisk(workplace / "elsewhere/again.db.restoring")
    with disk.in_use(), disk.failing(Fault(1, FULL, times=1000, name="xWrite")):
        assert_refused(tollway("restore", "copy.db", *into), full, others)
    (workplace / "elsewhere").rmdir()
    assert files(workplace) == before


def _no_space(*_: object) -> NoReturn:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_disk_that_is_full_for_the_commits_beside_it_leaves_no_part_of_them(
    tollway: Command, backup: Path, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workplace / "ledger.db").write_bytes(b"ruined" * 1000)
    (workplace / "ledger.db-wal").write_bytes(b"its commits")
    before, nothing = files(workplace), "Nothing was changed."
    # They are copied too, so there must be space for both.
    needed = backup.stat().st_size + len(b"its commits")
    with monkeypatch.context() as patched:
        free = disk_usage("/")._replace(free=needed - 1)
        patched.setattr("tollway.cli.restore.disk_usage", lambda _: free)
        answer = tollway("restore", "copy.db", "--replace")
        assert_refused(answer, f"takes {needed:,} bytes", f"{needed - 1:,} are free", nothing)
    with monkeypatch.context() as patched:
        # Filled by another program meanwhile.
        patched.setattr("shutil.copyfile", _copy_a_part)
        assert_refused(tollway("restore", "copy.db", "--replace"), nothing)
    assert files(workplace) == before


def _copy_a_part(_: Path, target: Path) -> NoReturn:
    target.write_bytes(b"its")
    _no_space()

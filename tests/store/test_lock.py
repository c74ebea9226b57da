"""Only one process serves a database; a second one is refused."""

import errno
import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tollway.store.database import StoreError
from tollway.store.sqlite.files import ServingLock

pytestmark = pytest.mark.sqlite


def test_a_second_holder_is_refused_in_words(tmp_path: Path) -> None:
    path = str(tmp_path / "tollway.db")
    lock = ServingLock(path)
    with pytest.raises(StoreError) as refused:
        ServingLock(path)
    sentence = str(refused.value)
    assert f"{path} is already being served by process {os.getpid()}" in sentence
    assert "stop that one first" in sentence
    lock.release()
    ServingLock(path).release()


def test_another_database_is_free(tmp_path: Path) -> None:
    first, second = ServingLock(str(tmp_path / "a.db")), ServingLock(str(tmp_path / "b.db"))
    first.release()
    second.release()


def test_a_database_is_served_once_also_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "a.db").touch()
    (tmp_path / "link.db").symlink_to("a.db")
    lock = ServingLock(str(tmp_path / "a.db"))
    with pytest.raises(StoreError, match="already being served"):
        ServingLock(str(tmp_path / "link.db"))
    lock.release()


def test_the_lock_of_a_process_that_was_killed_is_free_again(tmp_path: Path) -> None:
    path = str(tmp_path / "tollway.db")
    hold = (
        "import sys, signal; from tollway.store.sqlite.files import ServingLock; "
        "lock = ServingLock(sys.argv[1]); print('held', flush=True); signal.pause()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", hold, path], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(StoreError, match=f"process {holder.pid}"):
            ServingLock(path)
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    ServingLock(path).release()


def test_a_lock_whose_file_was_removed_meanwhile_is_taken_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise two could serve: one by the file that is gone, one by the next."""
    path, flock = str(tmp_path / "ledger.db"), fcntl.flock
    first = ServingLock(path)

    def remove_first(*arguments: Any) -> None:
        monkeypatch.undo()
        first.remove()
        flock(*arguments)

    monkeypatch.setattr(fcntl, "flock", remove_first)
    second = ServingLock(path)
    with pytest.raises(StoreError, match="already being served"):
        ServingLock(path)
    second.release()


def test_a_lock_that_cannot_be_written_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.getpid", fail)
    with pytest.raises(OSError, match=r"No space left .*ledger\.db\.lock"):
        ServingLock(str(tmp_path / "ledger.db"))
    assert list(tmp_path.iterdir()) == []

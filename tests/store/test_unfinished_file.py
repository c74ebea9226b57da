"""A new file that is filled at once gets its name only when all of it is on disk."""

import asyncio
import errno
import os
import threading
from pathlib import Path

import pytest

from tollway.store import durable_files
from tollway.store.database import NoTimings
from tollway.store.open import unfinished_file


def test_a_file_that_could_not_be_written_meanwhile_gets_no_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system reports such an error once: the last sync would not fail again."""
    is_tried = threading.Event()

    def fail(_: int) -> None:
        is_tried.set()
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    async def fill() -> None:
        async with unfinished_file(f"sqlite:///{tmp_path}/new.db", NoTimings()):
            await asyncio.to_thread(is_tried.wait, 60)

    monkeypatch.setattr(durable_files.os, "fdatasync", fail)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        asyncio.run(fill())
    assert list(tmp_path.iterdir()) == []

"""Writes a long write-ahead log back into the file beside the commits.

SQLite does that itself once the log is long, within a commit: all calls of that commit, and those
that come meanwhile, wait for it. So most of it is done shortly before, in a thread. What is left
for that commit is what was written since.
"""

import logging
import threading
from collections.abc import Callable
from contextlib import closing

import apsw

from tollway.store.database import StoreError
from tollway.store.sqlite.connection import Connection

logger = logging.getLogger("tollway.store")

# Shortly before SQLite does it (wal_autocheckpoint), and once for each log: a page that changes
# again has to be written again.
_BEGIN_FRAMES = 14_000


class LogWriteBack:
    """Used by the thread that writes."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect
        self._thread: threading.Thread | None = None
        self._is_begun = False

    def after_commit(self, log_frames: int) -> None:
        """Begins if the log has become long."""
        if log_frames < _BEGIN_FRAMES:
            # It was begun again from its start.
            self._is_begun = False
        elif not self._is_begun:
            self._is_begun = True
            thread = threading.Thread(target=self._run, name="tollway-log", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                # No more threads: then a commit does it, as SQLite would without this.
                logger.debug("no thread writes the log back: %s", error)
            else:
                self._thread = thread

    def wait(self) -> None:
        """Returns when nothing is being written back."""
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            with closing(self._connect()) as connection:
                connection.checkpoint(apsw.SQLITE_CHECKPOINT_PASSIVE)
        except StoreError as error:
            # Another process may do it at this moment; if not, the next commit but a few does.
            logger.debug("the write-ahead log is not written back yet: %s", error)

"""Checkpoints a long write-ahead log (writes it back into the file) beside the commits.

SQLite does that itself once the log is long, within a commit: all calls of that commit, and those
that arrive meanwhile, wait for it. So a thread does most of it shortly before, and that commit has
to write back only what was added since.
"""

import logging
import threading
from collections.abc import Callable
from contextlib import closing

import apsw

from tollway.store.database import StoreError
from tollway.store.sqlite.connection import Connection

logger = logging.getLogger("tollway.store")

# Shortly before SQLite does it (wal_autocheckpoint), and once per log: a page that changes again
# has to be written again.
_BEGIN_FRAMES = 14_000


class LogWriteBack:
    """Used by the writer thread."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect
        self._thread: threading.Thread | None = None
        self._is_begun = False

    def after_commit(self, log_frames: int) -> None:
        """Starts a checkpoint if the log has become long."""
        if log_frames < _BEGIN_FRAMES:
            # The log has started again from its beginning.
            self._is_begun = False
        elif not self._is_begun:
            self._is_begun = True
            thread = threading.Thread(target=self._run, name="tollway-log", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                # Out of threads: a commit does it, as it would without this class.
                logger.debug("no thread writes the log back: %s", error)
            else:
                self._thread = thread

    def wait(self) -> None:
        """Waits until no checkpoint is running."""
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            with closing(self._connect()) as connection:
                connection.checkpoint(apsw.SQLITE_CHECKPOINT_PASSIVE)
        except StoreError as error:
            # Another process may be doing it now; if not, one of the next commits will.
            logger.debug("the write-ahead log is not written back yet: %s", error)

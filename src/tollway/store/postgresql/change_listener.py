"""The listener for changes: it notices when the caches of this process are out of date.

A trigger sends a notification with every transaction that changes a version. A missed notification
is lost. So while the listener has no connection, or the server does not answer its regular query,
the change mark changes four times a second, until the listener is back. Thus the process notices a
change within a second, whatever happens.
"""

import asyncio
import logging
from collections.abc import Callable
from time import monotonic

from tollway.store.database import StoreError, StoreUnavailableError
from tollway.store.postgresql.errors import our_errors
from tollway.store.postgresql.hosts import Connection, Hosts

# Also in the migration that makes the trigger.
CHANNEL = "tollway_changed"
# A server that became a standby sends no notifications.
_ASK = "SELECT pg_is_in_recovery() AS tollway_listens"
_ASK_EVERY_S = 0.25
_LOST_AFTER_S = 0.7
_POLLS_PER_S = 4
_AGAIN_AFTER_S = 0.25
_BEGIN_TIMEOUT_S = 2.0

logger = logging.getLogger("tollway.store")


class ChangeListener:
    """Listens on a connection of its own, and reconnects by itself."""

    def __init__(self, hosts: Hosts, on_silence: Callable[[], None]) -> None:
        self._hosts = hosts
        # Called when no server answers any more, not even on open connections.
        self._on_silence = on_silence
        self._changes = 0
        self._confirmed_s = float("-inf")
        # Since when there are no notifications, and the reasons logged since then.
        self._lost_since_s: float | None = None
        self._reasons: set[str] = set()
        self._connection: Connection | None = None
        self._task: asyncio.Task[None] | None = None

    def mark(self) -> object:
        """A value that changes with every notification, and often while none can arrive."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._listen())
        now_s = monotonic()
        if now_s - self._confirmed_s > _LOST_AFTER_S:
            return self._changes, int(now_s * _POLLS_PER_S)
        return self._changes

    def note_own(self) -> None:
        """This process itself changed something: its next call need not wait to be notified."""
        self._changes += 1

    def renew(self) -> None:
        """Listens on a new connection: the old one may lead to the wrong server."""
        if self._connection is not None:
            self._connection.terminate()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _listen(self) -> None:
        while True:
            try:
                await self._listen_once()
            except Exception as error:
                # Whatever the error: only this loop can start listening again.
                self._log_loss(str(error) or type(error).__name__)
                await asyncio.sleep(_AGAIN_AFTER_S)

    async def _listen_once(self) -> None:
        try:
            self._connection = await self._hosts.connect()
        except StoreError:
            # The server answers neither the old connection nor a new one, so no other either.
            if self._hosts.is_silent:
                self._on_silence()
            raise
        try:
            with our_errors():
                await self._receive(self._connection)
        finally:
            self._connection.terminate()
            self._connection = None

    async def _receive(self, connection: Connection) -> None:
        connection.add_termination_listener(self._on_loss)
        async with asyncio.timeout(_BEGIN_TIMEOUT_S):
            await connection.add_listener(CHANNEL, self._on_change)
        # Notifications of earlier changes were missed.
        self._changes += 1
        self._log_return()
        while True:
            self._confirmed_s = monotonic()
            await asyncio.sleep(_ASK_EVERY_S)
            if await connection.fetchval(_ASK, timeout=_LOST_AFTER_S):
                raise StoreUnavailableError("the server has become a standby")

    def _log_loss(self, reason: str) -> None:
        """Logs each reason once: an outage may last, and its reason may change meanwhile."""
        if self._lost_since_s is None:
            self._lost_since_s = monotonic()
        if reason not in self._reasons:
            self._reasons.add(reason)
            logger.warning("no notifications of changes, polling for them instead: %s", reason)

    def _log_return(self) -> None:
        if self._lost_since_s is not None:
            lost_s = monotonic() - self._lost_since_s
            logger.info("notifications of changes are back, after %.1f s", lost_s)
            self._lost_since_s = None
            self._reasons.clear()

    def _on_loss(self, *_: object) -> None:
        self._confirmed_s = float("-inf")

    def _on_change(self, *_: object) -> None:
        self._changes += 1

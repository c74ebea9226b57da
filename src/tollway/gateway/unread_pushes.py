"""What is left of a push that was answered before all of it was read.

A connection that ends while bytes are unread is reset, and the answer can be lost with it: a sender
that reads only after it has sent everything sees a broken connection, and a proxy answers 502. So
the gateway answers at once, and then reads the rest and discards it, within limits: few at once, so
many bytes, and for no longer than a body may take.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress

from tollway.pipeline.bodies import NotedEnd
from tollway.settings import Settings
from tollway.store.concurrency import TurnSlots
from tollway.store.database import StoreBusyError

_AT_ONCE = 4
# How long to wait for a slot, and a sender for its next piece: both may be busy.
_PATIENCE_S = 5.0
_PIECE_S = 5.0
# With those that wait. What comes beyond is not read, as if the limits were reached.
_PRESENT_MAX = 64
# For those that are refused because they are too large.
_SIZES_READ = 2
_DIGITS_MAX = 18
_TIMED_OUT = 408


class UnreadPushes:
    """Reads the rest of pushes away."""

    def __init__(self, settings: Settings) -> None:
        self._most = _SIZES_READ * settings.push_max_bytes
        self._timeout_s = settings.body_timeout_s
        self._slots = TurnSlots(_AT_ONCE, "too many refused pushes at once")
        self._present = 0

    async def read_away(
        self, headers: Mapping[bytes, bytes], body: NotedEnd, status: int, address: str
    ) -> None:
        """Reads what a push has left after it was answered with this status."""
        if body.is_over or status == _TIMED_OUT or self._present >= _PRESENT_MAX:
            return
        announced = headers.get(b"content-length", b"0")
        # A sender that asks before it sends knows the answer.
        if b"expect" in headers or not announced.isdigit() or len(announced) > _DIGITS_MAX:
            return
        if int(announced) > self._most:
            return
        self._present += 1
        try:
            with suppress(TimeoutError, StoreBusyError):
                async with self._slots.taken(_PATIENCE_S, by=address):
                    async with asyncio.timeout(self._timeout_s):
                        await self._discard(body)
        finally:
            self._present -= 1

    async def _discard(self, body: NotedEnd) -> None:
        left = self._most
        while left > 0 and not body.is_over:
            async with asyncio.timeout(_PIECE_S):
                message = await body.receive()
            left -= len(message.get("body", b""))

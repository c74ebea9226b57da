"""The body of a request: read within limits when a stage wants it, read over when none does."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress

from tollway.contract.language import Phrase
from tollway.contract.reasons import Reason, Refusal
from tollway.settings import Settings
from tollway.toll.asgi import Receive

_BODY = Phrase("request body", "请求体")
_CUT_OFF = Phrase("the connection ended before its end", "连接提前中断")
# Of a call that is refused before its body is read: this much is worth a connection.
_READ_OVER_MAX_BYTES = 65_536
_READ_OVER_MAX_S = 1.0


class Body:
    """What is sent behind the headers; it may still be on its way, or never come.

    The next request can follow once it `is_over`.
    """

    def __init__(
        self, headers: Mapping[bytes, bytes], receive: Receive, settings: Settings
    ) -> None:
        self._announced = headers.get(b"content-length", b"0")
        self.is_over = self._announced == b"0" and b"transfer-encoding" not in headers
        self._is_late = False
        self._receive = receive
        self._settings = settings

    async def read(self) -> bytes:
        limit = self._settings.body_max_bytes
        if not 0 <= self._length() <= limit:
            raise Refusal(Reason.BODY_TOO_LARGE, limit=limit)
        try:
            async with asyncio.timeout(self._settings.body_timeout_s):
                return await self._collect(limit)
        except TimeoutError:
            self._is_late = True
            raise Refusal(Reason.BODY_TIMED_OUT, limit_s=self._settings.body_timeout_s) from None

    async def read_over(self) -> None:
        """Reads a short body that nobody read, if it comes soon."""
        if not self._is_late and 0 < self._length() <= _READ_OVER_MAX_BYTES:
            with suppress(TimeoutError, Refusal):
                async with asyncio.timeout(_READ_OVER_MAX_S):
                    await self._collect(_READ_OVER_MAX_BYTES)

    def _length(self) -> int:
        """What is announced; less than nothing if that is no length."""
        is_number = self._announced.isdigit() and len(self._announced) <= 18
        return int(self._announced) if is_number else -1

    async def _collect(self, limit: int) -> bytes:
        body = bytearray()
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise Refusal(Reason.BODY_UNREADABLE, part=_BODY, problem=_CUT_OFF)
            body += message.get("body", b"")
            if len(body) > limit:
                raise Refusal(Reason.BODY_TOO_LARGE, limit=limit)
            if not message.get("more_body", False):
                self.is_over = True
                return bytes(body)

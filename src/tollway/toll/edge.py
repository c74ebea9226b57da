"""Where HTTP meets the toll: from an ASGI request to a call, from an answer to a response."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from functools import partial
from itertools import count
from time import time
from typing import Any

from tollway.contract.language import Phrase, preferred_language
from tollway.contract.reasons import Reason, Refusal
from tollway.settings import Settings
from tollway.telemetry.metrics import Metrics
from tollway.toll.call import Call
from tollway.toll.order import Toll

_BODY = Phrase("request body", "请求体")
_CUT_OFF = Phrase("the connection ended before its end", "连接提前中断")

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class Edge:
    """The ASGI application of the paid operations."""

    def __init__(self, toll: Toll, settings: Settings, metrics: Metrics) -> None:
        self._toll = toll
        self._settings = settings
        # Tells this process's requests from those of every other, and of its own earlier lives.
        self._process = os.urandom(5).hex()
        self._numbers = count()
        self._under_way = 0
        metrics.calls_under_way.set_function(lambda: self._under_way)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._under_way += 1
        try:
            answer = await self._toll.walk(self._call(scope, receive))
            await send(
                {
                    "type": "http.response.start",
                    "status": answer.status,
                    "headers": answer.headers,
                }
            )
            await send({"type": "http.response.body", "body": answer.body})
        finally:
            self._under_way -= 1

    def _call(self, scope: Scope, receive: Receive) -> Call:
        headers = _by_name(scope["headers"])
        at_s = time()
        call = Call(
            # Begins with the time, so that the index over request ids grows at one end.
            f"{int(at_s * 1000):011x}{self._process}{next(self._numbers) & 0xFFFFF:05x}",
            scope["method"],
            # The path as it was sent: a second spelling with %2F or %2e must not mean the same.
            scope["raw_path"].decode("latin-1"),
            scope["query_string"],
            headers,
            partial(self._read_body, headers, receive),
            at_s,
        )
        accepted = headers.get(b"accept-language")
        if accepted is not None:
            call.language = preferred_language(accepted.decode("latin-1"))
        return call

    async def _read_body(self, headers: dict[bytes, bytes], receive: Receive) -> bytes:
        limit = self._settings.body_max_bytes
        announced = headers.get(b"content-length", b"0")
        if not announced.isdigit() or len(announced) > 18 or int(announced) > limit:
            raise Refusal(Reason.BODY_TOO_LARGE, limit=limit)
        try:
            async with asyncio.timeout(self._settings.body_timeout_s):
                return await _collect(receive, limit)
        except TimeoutError:
            raise Refusal(Reason.BODY_TIMED_OUT, limit_s=self._settings.body_timeout_s) from None


async def _collect(receive: Receive, limit: int) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refusal(Reason.BODY_UNREADABLE, part=_BODY, problem=_CUT_OFF)
        body += message.get("body", b"")
        if len(body) > limit:
            raise Refusal(Reason.BODY_TOO_LARGE, limit=limit)
        if not message.get("more_body", False):
            return bytes(body)


def _by_name(pairs: Iterable[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """The headers by name. Two different values of one are joined, which no single value fits."""
    headers: dict[bytes, bytes] = {}
    for name, value in pairs:
        if headers.setdefault(name, value) != value:
            headers[name] = headers[name] + b", " + value
    return headers

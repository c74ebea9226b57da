"""The edge of the pipeline: from an ASGI request to a `Call`, and from its answer to the response.

Nothing else in this package knows ASGI. The body is read only when a stage asks for it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from contextlib import suppress
from time import time
from typing import Any

from tollway.contract.language import Phrase, preferred_language
from tollway.contract.reasons import Reason, Refusal
from tollway.pipeline.call import Call
from tollway.pipeline.pipeline import Pipeline
from tollway.settings import Settings
from tollway.telemetry.metrics import Metrics
from tollway.telemetry.requests import RequestIds, read_client_ids

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


_BODY = Phrase("request body", "请求体")
_CUT_OFF = Phrase("the connection ended before its end", "连接提前中断")
# If a call is refused before its body is read, this much is discarded to keep the connection.
_READ_OVER_MAX_BYTES = 65_536
_READ_OVER_MAX_S = 1.0


class Body:
    """The body of a request; it may arrive later than the headers, or never.

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
        """Discards a short body that no stage read, if it comes soon."""
        if not self._is_late and 0 < self._length() <= _READ_OVER_MAX_BYTES:
            with suppress(TimeoutError, Refusal):
                async with asyncio.timeout(_READ_OVER_MAX_S):
                    await self._collect(_READ_OVER_MAX_BYTES)

    def _length(self) -> int:
        """The announced length; negative if Content-Length is invalid."""
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


_CLOSE = (b"connection", b"close")


class Edge:
    """The ASGI application of the paid operations."""

    def __init__(
        self, pipeline: Pipeline, settings: Settings, metrics: Metrics, request_ids: RequestIds
    ) -> None:
        self._pipeline = pipeline
        self._settings = settings
        self._request_ids = request_ids
        self._under_way = 0
        metrics.calls_under_way.set_function(lambda: self._under_way)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._under_way += 1
        try:
            headers = headers_by_name(scope["headers"])
            body = Body(headers, receive, self._settings)
            answer = await self._pipeline.run(self._call(scope, headers, body))
            if not body.is_over:
                await body.read_over()
                if not body.is_over:
                    # The server closes such a connection; a client without this header might
                    # send its next request on it.
                    answer.headers.append(_CLOSE)
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

    def _call(self, scope: Scope, headers: dict[bytes, bytes], body: Body) -> Call:
        at_s = time()
        call = Call(
            self._request_ids.new(at_s),
            scope["method"],
            # The path as it was sent: a second spelling with %2F or %2e must not mean the same.
            scope["raw_path"].decode("latin-1"),
            scope["query_string"],
            headers,
            body.read,
            at_s,
        )
        accepted = headers.get(b"accept-language")
        if accepted is not None:
            call.language = preferred_language(accepted.decode("latin-1"))
        call.client_ids = read_client_ids(headers)
        return call


def headers_by_name(pairs: Iterable[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """The headers by name. Two different values of one are joined, which no single value fits."""
    headers: dict[bytes, bytes] = {}
    for name, value in pairs:
        if headers.setdefault(name, value) != value:
            headers[name] = headers[name] + b", " + value
    return headers

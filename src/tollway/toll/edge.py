"""Where HTTP meets the toll: from an ASGI request to a call, from an answer to a response."""

import os
from collections.abc import Iterable
from itertools import count
from time import time

from tollway.contract.language import preferred_language
from tollway.settings import Settings
from tollway.telemetry.metrics import Metrics
from tollway.toll.asgi import Receive, Scope, Send
from tollway.toll.body import Body
from tollway.toll.call import Call
from tollway.toll.order import Toll

_CLOSE = (b"connection", b"close")


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
            headers = _by_name(scope["headers"])
            body = Body(headers, receive, self._settings)
            answer = await self._toll.walk(self._call(scope, headers, body))
            if not body.is_over:
                await body.read_over()
                if not body.is_over:
                    # The server ends such a connection. Who is not told might use it once more.
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
            # Begins with the time, so that the index over request ids grows at one end.
            f"{int(at_s * 1000):011x}{self._process}{next(self._numbers) & 0xFFFFF:05x}",
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
        return call


def _by_name(pairs: Iterable[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """The headers by name. Two different values of one are joined, which no single value fits."""
    headers: dict[bytes, bytes] = {}
    for name, value in pairs:
        if headers.setdefault(name, value) != value:
            headers[name] = headers[name] + b", " + value
    return headers

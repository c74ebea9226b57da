"""The edge of the pipeline: from an ASGI request to a `Call`, and from its answer to the response.

Nothing else in this package but `bodies.py` knows ASGI. The body is read only when a stage asks for
it.
"""

from collections.abc import Iterable
from time import time

from tollway.contract.language import preferred_language
from tollway.pipeline.bodies import Body, ByteBudget, Receive, Scope, Send
from tollway.pipeline.call import Call
from tollway.pipeline.pipeline import Pipeline
from tollway.settings import Settings
from tollway.telemetry.metrics import Metrics
from tollway.telemetry.requests import RequestIds, read_client_ids

_CLOSE = (b"connection", b"close")


class Edge:
    """The ASGI application of the paid operations."""

    def __init__(
        self,
        pipeline: Pipeline,
        settings: Settings,
        metrics: Metrics,
        request_ids: RequestIds,
        budget: ByteBudget,
    ) -> None:
        self._pipeline = pipeline
        self._body_timeout_s = settings.body_timeout_s
        self._budget = budget
        self._request_ids = request_ids
        # The clients whose calls are being worked on: one call at a time on a connection.
        self.in_hand: set[tuple[str, int]] = set()
        metrics.calls_under_way.set_function(lambda: len(self.in_hand))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = scope["client"]
        self.in_hand.add(client)
        try:
            headers = headers_by_name(scope["headers"])
            body = Body(headers, receive, self._body_timeout_s, self._budget)
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
            self.in_hand.discard(client)

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

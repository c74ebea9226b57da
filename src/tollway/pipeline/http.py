"""The edge of the pipeline: from an ASGI request to a `Call`, and from its answer to the response.

Nothing else in this package but `bodies.py` knows ASGI. The body is read only when a stage asks for
it.
"""

import asyncio
from collections.abc import Iterable
from time import time

from tollway.contract.language import Phrase, preferred_language
from tollway.contract.reasons import Reason, Refusal
from tollway.operations.subject import Stream
from tollway.pipeline.bodies import Body, ByteBudget, Deadlines, Receive, Scope, Send
from tollway.pipeline.call import Answer, Call
from tollway.pipeline.pipeline import Pipeline
from tollway.settings import Settings
from tollway.telemetry.metrics import Metrics
from tollway.telemetry.requests import new_request_id, read_client_ids

_CLOSE = (b"connection", b"close")


class Edge:
    """The ASGI application of the paid operations."""

    def __init__(
        self,
        pipeline: Pipeline,
        settings: Settings,
        metrics: Metrics,
        budget: ByteBudget,
    ) -> None:
        self._pipeline = pipeline
        self._body_timeout_s = settings.body_timeout_s
        self._budget = budget
        self._deadlines = Deadlines(settings.body_timeout_s)
        self._common_headers = common_headers(settings)
        # The clients whose calls are being worked on: one call at a time on a connection.
        self.in_hand: set[tuple[str, int]] = set()
        metrics.calls_under_way.set_function(lambda: len(self.in_hand))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = scope["client"]
        self.in_hand.add(client)
        try:
            headers = headers_by_name(scope["headers"])
            body = Body(headers, receive, self._body_timeout_s, self._budget, self._deadlines)
            answer = await self._pipeline.run(self._call(scope, headers, body))
            if not body.is_over:
                await body.read_over()
                if not body.is_over:
                    # The server closes such a connection; a client without this header might
                    # send its next request on it.
                    answer.headers.append(_CLOSE)
            if answer.stream is None:
                await self._send(send, answer)
            else:
                # From here on the client sets the pace: it is no longer waiting for the gateway.
                self.in_hand.discard(client)
                await self._stream(receive, send, answer, answer.stream)
        finally:
            self.in_hand.discard(client)

    async def refuse(self, scope: Scope, receive: Receive, send: Send, refusal: Refusal) -> None:
        """Answers a request that is not even a call; its body is not read."""
        headers = headers_by_name(scope["headers"])
        body = Body(headers, receive, self._body_timeout_s, self._budget, self._deadlines)
        answer = self._pipeline.refuse(self._call(scope, headers, body), refusal)
        answer.headers.append(_CLOSE)
        await self._send(send, answer)

    async def _send(self, send: Send, answer: Answer) -> None:
        headers = answer.headers + self._common_headers
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        if answer.stream is not None:
            async for piece in answer.stream.pieces:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": answer.body})

    async def _stream(self, receive: Receive, send: Send, answer: Answer, stream: Stream) -> None:
        """Sends a file until its end, or until the client has left: to send to one that has left is
        no error for the server."""
        sending = asyncio.create_task(self._send(send, answer))
        leaving = asyncio.create_task(_disconnected(receive))
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        finally:
            sending.cancel()
            leaving.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)
            await stream.pieces.aclose()
            stream.end()

    def _call(self, scope: Scope, headers: dict[bytes, bytes], body: Body) -> Call:
        at_s = time()
        call = Call(
            new_request_id(at_s),
            scope["method"],
            # The path as it was sent: a second spelling with %2F or %2e must not mean the same.
            scope["raw_path"].decode("latin-1"),
            scope["query_string"],
            headers,
            body.read,
            at_s,
        )
        call.peer = scope["client"][0]
        accepted = headers.get(b"accept-language")
        if accepted is not None:
            call.language = preferred_language(accepted.decode("latin-1"))
        call.client_ids = read_client_ids(headers)
        return call


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def headers_by_name(pairs: Iterable[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """The headers by name. Two different values of one are joined with a line end, which no single
    value has: where one value is expected, two are none."""
    headers: dict[bytes, bytes] = {}
    for name, value in pairs:
        if headers.setdefault(name, value) != value:
            headers[name] = headers[name] + b",\n" + value
    return headers


_HEAD = Phrase("head of the request", "请求头部")
_NOT_ONE_HOST = Phrase("it does not have exactly one Host header", "Host 请求头不是恰好一个")


def improper_request(scope: Scope) -> Refusal | None:
    """Why a request is refused that HTTP does not allow, though the server takes it.

    The answer has its own HTTP status always: a CONNECT that is answered with 200 is a tunnel.
    """
    if scope["method"] == "CONNECT":
        return Refusal(Reason.PATH_UNKNOWN)
    # The server adds an empty one if there is none.
    hosts = [value for name, value in scope["headers"] if name == b"host"]
    if len(hosts) == 1 and (hosts[0] or scope["http_version"] != "1.1"):
        return None
    return Refusal(Reason.BODY_UNREADABLE, part=_HEAD, problem=_NOT_ONE_HOST)


def common_headers(settings: Settings) -> list[tuple[bytes, bytes]]:
    """The headers of every answer. Browsers that have seen the gateway behind TLS shall not ask
    for it without."""
    is_secure = settings.public_address.startswith("https:")
    return [(b"strict-transport-security", b"max-age=31536000")] if is_secure else []

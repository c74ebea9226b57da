"""The edge of the pipeline: from an ASGI request to a `Call`, and from its answer to the response.

Nothing else in this package but `bodies.py` knows ASGI. The body is read only when a stage asks for
it.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from time import time
from typing import Any

from tollway.contract.language import Phrase, preferred_language
from tollway.contract.reasons import Reason, Refusal
from tollway.operations.subject import Stream
from tollway.pipeline.bodies import (
    NO_BODY,
    Body,
    ByteBudget,
    Deadlines,
    Message,
    Receive,
    Scope,
    Send,
)
from tollway.pipeline.call import Answer, Call
from tollway.pipeline.pipeline import Pipeline
from tollway.pipeline.steps import Progress, Waiting, answer_of, failing
from tollway.settings import Settings
from tollway.telemetry.metrics import Metrics
from tollway.telemetry.requests import (
    ID_HEADER,
    TRACE_HEADER,
    new_request_id,
    new_request_ids,
    read_client_ids,
)

Headers = dict[bytes, bytes]
Client = tuple[str, int]
Request = tuple[Scope, Receive]

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
        self._deadlines = Deadlines()
        self._common_headers = common_headers(settings)
        # The clients whose calls are in progress: a connection has one call at a time.
        self.in_hand: set[Client] = set()
        metrics.calls_under_way = lambda: len(self.in_hand)

    def begin(self, requests: Sequence[Request]) -> list[Progress]:
        """Runs calls up to where each must wait for something."""
        calls: list[Call] = []
        refused: dict[int, Progress] = {}
        at_s = time()
        ids = new_request_ids(at_s, len(requests))
        for position, (scope, receive) in enumerate(requests):
            opened = self._open(scope, receive, ids[position], at_s)
            if isinstance(opened, Call):
                calls.append(opened)
            else:
                refused[position] = opened
        found = self._taken(calls, self._pipeline.run(calls))
        for position, progress in refused.items():
            found.insert(position, progress)
        return found

    def go_on(self, waiting: Sequence[Waiting]) -> list[Progress]:
        """Continues calls whose wait is over."""
        calls: list[Call] = []
        for each in waiting:
            calls.append(each.call)
            self.in_hand.discard(each.call.client)
        return self._taken(calls, self._pipeline.go_on(waiting))

    def _open(
        self, scope: Scope, receive: Receive, request_id: str, at_s: float
    ) -> Call | Answer | Coroutine[Any, Any, Answer]:
        """Turns a request into a call, or refuses it."""
        try:
            headers = dict(scope["headers"])
            # A quick check that most requests pass. It must catch all that is refused below.
            if (
                len(headers) < len(scope["headers"])
                or not headers.get(b"host")
                or scope["method"] == "CONNECT"
            ):
                headers = headers_by_name(scope["headers"])
                refusal = improper_request(scope, headers)
                if refusal is not None:
                    return self.refuse(scope, headers, refusal)
            if b"content-length" in headers or b"transfer-encoding" in headers:
                body = Body(headers, receive, self._body_timeout_s, self._budget, self._deadlines)
            else:
                body = NO_BODY
            return _call(scope, headers, body, request_id, at_s)
        except Exception as error:
            return failing(error)

    def _taken(self, calls: Sequence[Call], found: list[Progress]) -> list[Progress]:
        """Adds the calls that are not answered yet, or whose body is not over, to `in_hand`."""
        for position, call in enumerate(calls):
            progress = found[position]
            if type(progress) is Answer and call.body.is_over:
                progress.headers.extend(self._common_headers)
                continue
            self.in_hand.add(call.client)
            if type(progress) is not Waiting:
                found[position] = self._finish(call, progress)
        return found

    async def _finish(self, call: Call, progress: Answer | Coroutine[Any, Any, Answer]) -> Answer:
        try:
            answer = progress if isinstance(progress, Answer) else await progress
            if not call.body.is_over:
                await call.body.read_over()
                if not call.body.is_over:
                    # The server closes such a connection; a client without this header might
                    # send its next request on it.
                    answer.headers.append(_CLOSE)
            answer.headers.extend(self._common_headers)
            return answer
        finally:
            # From here on the gateway waits for the client, not the client for the gateway.
            self.in_hand.discard(call.client)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        [progress] = self.begin([(scope, receive)])
        try:
            answer = await answer_of(progress, self.go_on)
        finally:
            self.in_hand.discard(scope["client"])
        await self.send(answer, receive, send)

    def refuse(self, scope: Scope, headers: Headers, refusal: Refusal) -> Answer:
        """Answers an invalid request, which never becomes a call; its body is not read."""
        at_s = time()
        call = _call(scope, headers, NO_BODY, new_request_id(at_s), at_s)
        answer = self._pipeline.refuse(call, refusal)
        answer.headers.extend((_CLOSE, *self._common_headers))
        return answer

    async def send(self, answer: Answer, receive: Receive, send: Send) -> None:
        if answer.stream is None:
            await self._send(send, answer)
        else:
            await self._stream(receive, send, answer, answer.stream)

    async def _send(self, send: Send, answer: Answer) -> None:
        head, body = messages(answer)
        await send(head)
        if answer.stream is not None:
            async for piece in answer.stream.pieces:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send(body)

    async def _stream(self, receive: Receive, send: Send, answer: Answer, stream: Stream) -> None:
        """Sends a file until its end, or until the client disconnects: the server reports no error
        for sending to a client that is gone."""
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


def _call(scope: Scope, headers: Headers, body: Body, request_id: str, at_s: float) -> Call:
    call = Call(
        request_id,
        scope["method"],
        # The path as sent: other spellings, with %2F or %2e, must not match.
        scope["raw_path"].decode("latin-1"),
        scope["query_string"],
        headers,
        body,
        at_s,
        scope["client"],
    )
    accepted = headers.get(b"accept-language")
    if accepted is not None:
        call.language = preferred_language(accepted.decode("latin-1"))
    if ID_HEADER in headers or TRACE_HEADER in headers:
        call.client_ids = read_client_ids(headers)
    return call


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def messages(answer: Answer) -> tuple[Message, Message]:
    """An answer as ASGI sends it: its head and its body."""
    head = {"type": "http.response.start", "status": answer.status, "headers": answer.headers}
    return head, {"type": "http.response.body", "body": answer.body}


def headers_by_name(pairs: Sequence[tuple[bytes, bytes]]) -> Headers:
    """The headers by name. Different values of one header are joined with a newline, which no
    single value can contain: so where one value is expected, two never match."""
    headers = dict(pairs)
    if len(headers) < len(pairs):
        headers = {}
        for name, value in pairs:
            if headers.setdefault(name, value) != value:
                headers[name] = headers[name] + b",\n" + value
    return headers


_HEAD = Phrase("head of the request", "请求头部")
_NOT_ONE_HOST = Phrase("it does not have exactly one Host header", "Host 请求头不是恰好一个")


def improper_request(scope: Scope, headers: Headers) -> Refusal | None:
    """The refusal of a request that HTTP does not allow, though the server accepts it.

    The answer always has its own HTTP status: a CONNECT that is answered with 200 is a tunnel.
    """
    if scope["method"] == "CONNECT":
        return Refusal(Reason.PATH_UNKNOWN)
    # The server adds an empty Host if there is none; the gateway's calls to itself have none.
    has_host = headers.get(b"host") or scope["http_version"] != "1.1"
    if has_host and (
        len(headers) == len(scope["headers"])
        or sum(name == b"host" for name, _ in scope["headers"]) <= 1
    ):
        return None
    return Refusal(Reason.BODY_UNREADABLE, part=_HEAD, problem=_NOT_ONE_HOST)


def common_headers(settings: Settings) -> list[tuple[bytes, bytes]]:
    """The headers of every answer. Once a browser has seen the gateway behind TLS, it should never
    connect without TLS."""
    is_secure = settings.public_address.startswith("https:")
    return [(b"strict-transport-security", b"max-age=31536000")] if is_secure else []

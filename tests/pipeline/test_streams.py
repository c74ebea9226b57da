"""Files that are sent in pieces: how many at once, and that one ends when its reader leaves."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.handlers import may_go_on
from tollway.contract.reasons import Reason, Refusal
from tollway.operations.subject import Stream
from tollway.pipeline.bodies import ByteBudget
from tollway.pipeline.call import Answer
from tollway.pipeline.http import Edge
from tollway.pipeline.perform import Perform
from tollway.settings import Settings
from tollway.telemetry.metrics import Metrics

pytestmark = pytest.mark.sqlite
_SCOPE = {
    "http_version": "1.1",
    "method": "GET",
    "raw_path": b"/",
    "query_string": b"",
    "headers": [(b"host", b"test")],
    "client": ("127.0.0.1", 9),
}


class _OneFile:
    """A pipeline that answers with a file without an end."""

    def __init__(self) -> None:
        self.ended: list[str] = []

    def run(self, calls: Sequence[object]) -> list[Coroutine[Any, Any, Answer]]:
        return [self._answer() for _ in calls]

    async def _answer(self) -> Answer:
        stream = Stream("text/plain", self._pieces(), lambda: self.ended.append("stream"))
        return Answer(200, [], b"", stream)

    async def _pieces(self) -> AsyncGenerator[bytes, None]:
        try:
            while True:
                yield b"piece"
        finally:
            self.ended.append("pieces")


async def test_what_is_read_for_a_client_ends_when_it_leaves() -> None:
    pipeline, left = _OneFile(), asyncio.Event()
    edge = Edge(pipeline, Settings(), Metrics(), ByteBudget())  # type: ignore[arg-type]
    sent, in_hand = [], []

    async def receive() -> dict[str, Any]:
        await left.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        # As the server does: it goes on as if the client read.
        sent.append(message["type"])
        in_hand.append(len(edge.in_hand))
        await asyncio.sleep(0)
        if len(sent) == 5:
            left.set()

    async with asyncio.timeout(10):
        await edge(_SCOPE, receive, send)
    assert pipeline.ended == ["pieces", "stream"]
    assert len(sent) < 20
    # While a client sets the pace, its connection can be ended as others are.
    assert in_hand == [0] * len(sent)


class _TwoPieces:
    """A pipeline that answers with a short file, which may fail on its way."""

    def __init__(self, error: Exception | None) -> None:
        self._error = error
        self.ended: list[str] = []

    def run(self, calls: Sequence[object]) -> list[Coroutine[Any, Any, Answer]]:
        return [self._answer() for _ in calls]

    async def _answer(self) -> Answer:
        stream = Stream("text/plain", self._pieces(), lambda: self.ended.append("stream"))
        return Answer(200, [], b"", stream)

    async def _pieces(self) -> AsyncGenerator[bytes, None]:
        yield b"one"
        if self._error is not None:
            raise self._error
        yield b"two"


def _sent(pipeline: _TwoPieces) -> list[bytes | None]:
    """The pieces that a client gets that stays, and sends its own request's end meanwhile."""
    sent: list[bytes | None] = []

    async def send(message: Any) -> None:
        # In a turn of its own, so that the client's messages are read first.
        await asyncio.sleep(0)
        sent.append(message.get("body"))
        if "body" in message:
            assert message.get("more_body", False) is bool(message["body"])

    async def work() -> None:
        edge = Edge(pipeline, Settings(), Metrics(), ByteBudget())  # type: ignore[arg-type]
        messages = asyncio.Queue[Any]()
        messages.put_nowait({"type": "http.request", "body": b"", "more_body": False})
        async with asyncio.timeout(10):
            await edge(_SCOPE, messages.get, send)

    try:
        asyncio.run(work())
    finally:
        assert pipeline.ended == ["stream"]
    return sent


def test_a_file_is_sent_to_its_end() -> None:
    assert _sent(_TwoPieces(None)) == [None, b"one", b"two", b""]


def test_a_file_that_fails_on_its_way_is_an_error_and_not_a_short_file() -> None:
    with pytest.raises(ValueError, match="no more"):
        _sent(_TwoPieces(ValueError("no more")))


async def _no_pieces() -> AsyncGenerator[bytes, None]:
    yield b""


async def _file(_request: object, _info: object) -> Stream:
    return Stream("text/plain", _no_pieces())


def _asked(account_id: str) -> Any:
    operation = SimpleNamespace(name="file")
    return SimpleNamespace(
        sandbox_outcome=None,
        caller=SimpleNamespace(account_id=account_id),
        price=0,
        language="en",
        operation=operation,
        environment=SimpleNamespace(handlers={operation.name: _file}),
        request=None,
        stream=None,
    )


def test_an_account_is_sent_two_files_at_once() -> None:
    perform = Perform(may_go_on)

    async def begin(account_id: str) -> Stream:
        call = _asked(account_id)
        await perform(call)
        stream: Stream = call.stream
        return stream

    async def work() -> None:
        first, second = await begin("a"), await begin("a")
        for _ in range(2):
            with pytest.raises(Refusal) as refused:
                await begin("a")
            assert refused.value.reason is Reason.FILES_TOO_MANY
        other = await begin("b")
        first.end()
        last = await begin("a")
        with pytest.raises(Refusal):
            await begin("a")
        for each in (second, last, other):
            each.end()

    asyncio.run(work())
    # Of accounts that are sent nothing, nothing is kept.
    assert perform._files == {}

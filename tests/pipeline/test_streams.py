"""Files that are sent in pieces: how many at once, and that one ends when its reader leaves."""

import asyncio
from collections.abc import AsyncGenerator
from types import SimpleNamespace
from typing import Any

import pytest

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

    async def run(self, _call: object) -> Answer:
        stream = Stream("text/plain", self._pieces(), lambda: self.ended.append("stream"))
        return Answer(200, [], b"", stream)

    async def _pieces(self) -> AsyncGenerator[bytes, None]:
        try:
            while True:
                yield b"piece"
        finally:
            self.ended.append("pieces")


def test_what_is_read_for_a_client_ends_when_it_leaves() -> None:
    async def work() -> None:
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

    asyncio.run(work())


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
        side=SimpleNamespace(handlers={operation.name: _file}),
        request=None,
        stream=None,
    )


def test_an_account_is_sent_two_files_at_once() -> None:
    perform = Perform()

    async def begin(account_id: str) -> Stream:
        call = _asked(account_id)
        await perform(call)
        stream: Stream = call.stream
        return stream

    async def work() -> None:
        first = await begin("a")
        await begin("a")
        for _ in range(2):
            with pytest.raises(Refusal) as refused:
                await begin("a")
            assert refused.value.reason is Reason.FILES_TOO_MANY
        await begin("b")
        first.end()
        await begin("a")
        with pytest.raises(Refusal):
            await begin("a")

    asyncio.run(work())

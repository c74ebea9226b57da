"""Connections to PostgreSQL of which any round trip can break: cut off on the way, ended by the
server, or cancelled there.

A proxy in the event loop of the gateway passes everything on. What the gateway sends at once is one
round trip.
"""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from urllib.parse import urlsplit

import asyncpg

from tests.faults.disk import AFTER, BEFORE, HALF, Fault

CUT, TERMINATE, CANCEL = "cut", "terminate", "cancel"
KINDS = (CUT, CUT, TERMINATE, CANCEL)
_TIMES = (1, 1, 1, 2, 5)
_PIECE = 1 << 20
_OF_PORT = "SELECT {}(pid) FROM pg_stat_activity WHERE client_port = $1"


def random_break(chance: random.Random, at: int) -> Fault:
    how = chance.choice((BEFORE, HALF, AFTER))
    return Fault(at, chance.choice(KINDS), how, chance.choice(_TIMES))


class Network:
    """What is between a gateway that uses `url` and its server."""

    def __init__(self, url: str, control: "asyncpg.Connection[asyncpg.Record]") -> None:
        behind = urlsplit(url)
        assert behind.hostname and behind.port
        self._behind = (behind.hostname, behind.port)
        self._behind_url = url
        self._control = control
        self._in_control = asyncio.Lock()
        self._fault: Fault | None = None
        self._round_trips = 0
        self.url = ""
        # What was broken since a fault was last set, and all of it.
        self.failed: list[str] = []
        self.total: Counter[tuple[str, str]] = Counter()

    def open_at(self, port: int) -> None:
        self.url = self._behind_url.replace(f":{self._behind[1]}/", f":{port}/")

    @contextmanager
    def failing(self, fault: Fault) -> Iterator[None]:
        self.failed, self._round_trips, self._fault = [], 0, fault
        try:
            yield
        finally:
            self._fault = None

    async def serve(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        server, to_server = await asyncio.open_connection(*self._behind)
        link = _Link(to_client, to_server)
        answers = asyncio.create_task(_pass_answers(server, link))
        with suppress(OSError):
            await self._pass_questions(client, link)
        link.break_off()
        await answers

    async def _pass_questions(self, client: asyncio.StreamReader, link: "_Link") -> None:
        is_listener = False
        while piece := await client.read(_PIECE):
            # The connection that listens for changes is no part of a batch.
            is_listener = is_listener or b"LISTEN" in piece
            fault = None if is_listener else self._next_fault()
            if fault is not None:
                await self._break(link, fault, piece)
            else:
                link.to_server.write(piece)

    def _next_fault(self) -> Fault | None:
        fault = self._fault
        self._round_trips += 1
        if fault is None or not fault.at <= self._round_trips < fault.at + fault.times:
            return None
        self.failed.append(fault.kind)
        self.total[fault.kind, fault.how] += 1
        return fault

    async def _break(self, link: "_Link", fault: Fault, piece: bytes) -> None:
        if fault.kind == CUT:
            if fault.how == AFTER:
                link.loses_answer = True
                link.to_server.write(piece)
                return
            if fault.how == HALF:
                link.to_server.write(piece[: len(piece) // 2])
                await link.to_server.drain()
            link.break_off()
            return
        function = "pg_terminate_backend" if fault.kind == TERMINATE else "pg_cancel_backend"
        port = link.to_server.get_extra_info("sockname")[1]
        if fault.how != BEFORE:
            link.to_server.write(piece)
        async with self._in_control:
            await self._control.fetch(_OF_PORT.format(function), port)
        if fault.how == BEFORE:
            link.to_server.write(piece)


class _Link:
    """One connection."""

    def __init__(self, to_client: asyncio.StreamWriter, to_server: asyncio.StreamWriter) -> None:
        self.to_client, self.to_server = to_client, to_server
        self.loses_answer = False

    def break_off(self) -> None:
        self.to_client.transport.abort()
        self.to_server.transport.abort()


async def _pass_answers(server: asyncio.StreamReader, link: _Link) -> None:
    with suppress(OSError):
        while (piece := await server.read(_PIECE)) and not link.loses_answer:
            link.to_client.write(piece)
    link.break_off()


@asynccontextmanager
async def network_to(url: str) -> AsyncIterator[Network]:
    control = await asyncpg.connect(url)
    network = Network(url, control)
    proxy = await asyncio.start_server(network.serve, "127.0.0.1", 0)
    network.open_at(proxy.sockets[0].getsockname()[1])
    try:
        yield network
    finally:
        proxy.close()
        await control.close()

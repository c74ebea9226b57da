"""A load balancer as simple as one can be: it probes, keeps connections, and repeats nothing.

A call that fails on its way is answered with 502, so its callers see every failure.
"""

import asyncio
import re
from itertools import count

_LENGTH = re.compile(rb"^content-length: *(\d+)\r$", re.MULTILINE | re.IGNORECASE)
_CLOSE = re.compile(rb"^connection: *close\r$", re.MULTILINE | re.IGNORECASE)
_FAILED = b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n"
_PROBE = b"GET /readyz HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n"
_PROBE_TIMEOUT_S = 5.0

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Balancer:
    """Spreads calls over those nodes whose readiness probe was green the last time."""

    def __init__(self, ports: list[int], *, probe_every_s: float) -> None:
        self._idle: dict[int, list[Streams]] = {port: [] for port in ports}
        self._probe_every_s = probe_every_s
        self._ready: list[int] = []
        self._numbers = count()

    async def __aenter__(self) -> "Balancer":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        self._probes = [asyncio.create_task(self._watch(port)) for port in self._idle]
        await self.until(len(self._idle))
        return self

    async def __aexit__(self, *_: object) -> None:
        for probe in self._probes:
            probe.cancel()
        await asyncio.gather(*self._probes, return_exceptions=True)
        for port in self._idle:
            self._let_go(port)
        self._server.close()

    async def until(self, ready: int) -> None:
        """Returns when so many nodes are ready."""
        while len(self._ready) != ready:  # noqa: ASYNC110 - the probes have their own rhythm
            await asyncio.sleep(0.01)

    async def _watch(self, port: int) -> None:
        while True:
            is_ready = await _is_ready(port)
            if is_ready and port not in self._ready:
                self._ready.append(port)
            elif not is_ready and port in self._ready:
                self._ready.remove(port)
                self._let_go(port)
            await asyncio.sleep(self._probe_every_s)

    def _let_go(self, port: int) -> None:
        for _, writer in self._idle[port]:
            writer.close()
        self._idle[port].clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                writer.write(await self._pass_on(await _message(reader)))
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            # Also at the end of all, which may come at any time.
            writer.close()

    async def _pass_on(self, request: bytes) -> bytes:
        if not self._ready:
            return _FAILED
        port = self._ready[next(self._numbers) % len(self._ready)]
        idle = self._idle[port]
        try:
            streams = idle.pop() if idle else await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return _FAILED
        is_kept = False
        try:
            streams[1].write(request)
            answer = await _message(streams[0])
            is_last = _CLOSE.search(answer.partition(b"\r\n\r\n")[0] + b"\r\n")
            is_kept = not is_last and port in self._ready
        except (OSError, asyncio.IncompleteReadError):
            return _FAILED
        finally:
            if is_kept:
                idle.append(streams)
            else:
                streams[1].close()
        return answer


async def _message(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = _LENGTH.search(head)
    return head + await reader.readexactly(int(length[1]) if length else 0)


async def _is_ready(port: int) -> bool:
    try:
        async with asyncio.timeout(_PROBE_TIMEOUT_S):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(_PROBE)
                status = await reader.readline()
            finally:
                writer.close()
    except OSError:
        return False
    return b" 200 " in status

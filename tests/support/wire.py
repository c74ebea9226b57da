"""What passes between a gateway and its PostgreSQL: a proxy that counts round trips.

A round trip is what the client ends with Sync, or a simple Query. Each is named by the statement
that it runs, or by that which it prepares.
"""

import asyncio
import struct
import threading
from collections import Counter
from urllib.parse import urlsplit, urlunsplit

_SSL_REQUEST = 80877103


class Wire:
    """A proxy on a port of its own; `url` leads through it to the database."""

    def __init__(self, url: str) -> None:
        self._parts = urlsplit(url)
        self._loop = asyncio.new_event_loop()
        self._writers: list[asyncio.StreamWriter] = []
        self._serving: list[asyncio.Task[None]] = []
        self.trips: Counter[str] = Counter()
        is_open = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(is_open,))
        self._thread.start()
        assert is_open.wait(10)
        who, at, _ = self._parts.netloc.rpartition("@")
        self.url = urlunsplit(self._parts._replace(netloc=f"{who}{at}127.0.0.1:{self.port}"))

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=10)

    def _run(self, is_open: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._begin, "127.0.0.1", 0))
        self.port: int = server.sockets[0].getsockname()[1]
        is_open.set()
        self._loop.run_forever()
        self._loop.run_until_complete(self._end(server))
        self._loop.close()

    async def _end(self, server: asyncio.Server) -> None:
        # A connection that was just accepted is made by a task of the loop, which begins another
        # one. If the server were closed before that, the connection would stay open.
        while tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in self._serving:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        server.close()
        # What a task has closed is not closed yet when the task is over.
        for each in self._writers:
            each.transport.abort()
        closing = [each.wait_closed() for each in self._writers]
        await asyncio.gather(*closing, return_exceptions=True)

    def _begin(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        # Noted here: a task that is cancelled before it begins notes nothing.
        self._writers.append(to_client)
        self._serving.append(asyncio.create_task(self._serve(client, to_client)))

    async def _serve(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        try:
            behind = self._parts.hostname, self._parts.port
            server, to_server = await asyncio.open_connection(*behind)
            self._writers.append(to_server)
            back = asyncio.create_task(_copy(server, to_client))
            try:
                await self._listen(client, to_server)
            finally:
                back.cancel()
                to_server.close()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            to_client.close()

    async def _listen(self, client: asyncio.StreamReader, server: asyncio.StreamWriter) -> None:
        while True:
            (length, code) = struct.unpack("!ii", head := await client.readexactly(8))
            server.write(head + await client.readexactly(length - 8))
            if code != _SSL_REQUEST:
                break
        statements: dict[bytes, str] = {}
        running = ""
        while True:
            head = await client.readexactly(5)
            body = await client.readexactly(struct.unpack("!i", head[1:])[0] - 4)
            kind = head[:1]
            if kind == b"P":
                name, text, _ = body.split(b"\0", 2)
                statements[name] = text.decode()
                running = f"prepare {text.decode()}"
            elif kind == b"B":
                running = statements[body.split(b"\0", 2)[1]]
            elif kind == b"Q":
                self.trips[body[:-1].decode()] += 1
            elif kind == b"S":
                self.trips[running] += 1
            server.write(head + body)
            await server.drain()


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while data := await source.read(65536):
        target.write(data)
        await target.drain()
    target.close()

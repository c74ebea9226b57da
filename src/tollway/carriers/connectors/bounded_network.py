"""The connections to carriers, from which little is read at a time, and not without an end.

The HTTP library works through all that it has read before others have their turn, and skips interim
answers (100 to 199) however many there are. A carrier that sends them without an end, or a body in
pieces of one byte, would keep the event loop busy, where paid calls wait.
"""

import ssl
from collections.abc import Iterable
from typing import Any

import httpcore2
import httpx2

_READ_MAX_BYTES = 2048
# Of the answer to one message, with its headers and interim answers.
_ANSWER_MAX_BYTES = 192 * 1024


class BoundedTransport(httpx2.AsyncHTTPTransport):
    """What a client sends its messages over, directly and by HTTP/1.1."""

    def __init__(self, ssl_context: ssl.SSLContext, limits: httpx2.Limits) -> None:
        # In place of the library's own pool, to which it lets no network be given.
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=ssl_context,
            max_connections=limits.max_connections,
            max_keepalive_connections=limits.max_keepalive_connections,
            keepalive_expiry=limits.keepalive_expiry,
            network_backend=_Network(),
        )


class _Network(httpcore2.AnyIOBackend):
    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the library's own
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        return _Stream(
            await super().connect_tcp(host, port, timeout, local_address, socket_options)
        )


class _Stream(httpcore2.AsyncNetworkStream):
    def __init__(self, inner: httpcore2.AsyncNetworkStream) -> None:
        self._inner = inner
        self._left = _ANSWER_MAX_BYTES

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        if self._left <= 0:
            raise httpcore2.ReadError("the answer has no end")
        read = await self._inner.read(min(max_bytes, _READ_MAX_BYTES), timeout)
        self._left -= len(read)
        return read

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        # A message begins: its answer comes after it.
        self._left = _ANSWER_MAX_BYTES
        await self._inner.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the library's own
    ) -> httpcore2.AsyncNetworkStream:
        return _Stream(await self._inner.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)

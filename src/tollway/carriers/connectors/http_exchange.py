"""One message over HTTP: a request goes out, a bounded answer comes back before a deadline.

Whether anything was sent decides what a failure means, so it is not guessed from the kind of error:
the HTTP library reports its steps, and a message counts as not sent only if the library was still
connecting when it failed.

Reads from a connection are small and limited in total: the HTTP library processes everything it has
read before other tasks can run, and skips any number of interim answers (100 to 199). A
carrier that sends them endlessly, or a body in pieces of one byte, would block the event loop,
where paid calls wait.
"""

import asyncio
import ssl
from collections.abc import Iterable
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any

import httpcore2
import httpx2

from tollway.carriers.connectors.connector import NotSentError, OutcomeUnknownError
from tollway.contract.language import Value

_ANSWER_MAX_BYTES = 64 * 1024
_READ_MAX_BYTES = 2048
# For the answer to one message, with its headers and interim answers.
_EXCHANGE_MAX_BYTES = 192 * 1024
_CONNECTING = "connection."


def open_client() -> httpx2.AsyncClient:
    """The client for all carriers: it checks certificates, and nothing in the environment (a proxy,
    another list of authorities) changes where personal data goes."""
    # A short keep-alive: if the carrier is just closing a connection, the gateway cannot know
    # whether a message on it was read.
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=32, keepalive_expiry=2.0)
    return httpx2.AsyncClient(
        transport=BoundedTransport(httpx2.create_ssl_context(trust_env=False), limits),
        trust_env=False,
        follow_redirects=False,
        # The deadline of each message is the only one; the breaker limits how many there are.
        timeout=None,
        # Accepts no cookies: otherwise the next message would carry all that ever came.
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
        headers={"Accept-Encoding": "identity", "User-Agent": "tollway"},
    )


async def exchange(client: httpx2.AsyncClient, request: httpx2.Request, deadline_s: float) -> bytes:
    """Sends a request once, and returns the body of the answer; any status other than 200 leaves
    the outcome unknown."""
    steps: list[str] = []

    async def trace(step: str, _: object) -> None:
        steps.append(step)

    # Half of the deadline for connecting, so that an unreachable carrier is recognised as such.
    connecting = httpx2.Timeout(None, connect=deadline_s / 2)
    request.extensions.update(timeout=connecting.as_dict(), trace=trace)
    try:
        async with asyncio.timeout(deadline_s):
            return await _answer_to(client, request)
    except (TimeoutError, OSError, httpx2.HTTPError, httpx2.StreamError) as error:
        # Not the error's own text: it may quote what the carrier sent.
        why: dict[str, Value] = {"kind": type(error).__name__, "deadline_s": deadline_s}
        if steps and all(step.startswith(_CONNECTING) for step in steps):
            raise NotSentError(
                "The carrier could not be reached: {kind} with a deadline of {deadline_s:.3g} s.",
                **why,
            ) from None
        raise OutcomeUnknownError(
            "No answer after the message was sent: {kind} with a deadline of {deadline_s:.3g} s.",
            **why,
        ) from None


async def _answer_to(client: httpx2.AsyncClient, request: httpx2.Request) -> bytes:
    response = await client.send(request, stream=True)
    try:
        if response.status_code != httpx2.codes.OK:
            raise OutcomeUnknownError(
                "The carrier answered HTTP {status}.", status=response.status_code
            )
        body = bytearray()
        # Without decompression: a compressed answer could unpack to any size.
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > _ANSWER_MAX_BYTES:
                raise OutcomeUnknownError("The carrier's answer is too long.")
        return bytes(body)
    finally:
        await response.aclose()


class BoundedTransport(httpx2.AsyncHTTPTransport):
    """What a client sends its messages over, directly and by HTTP/1.1."""

    def __init__(self, ssl_context: ssl.SSLContext, limits: httpx2.Limits) -> None:
        # Replaces the library's own pool, which does not accept a network backend.
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
        self._left = _EXCHANGE_MAX_BYTES

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        if self._left <= 0:
            raise httpcore2.ReadError("the answer has no end")
        read = await self._inner.read(min(max_bytes, _READ_MAX_BYTES), timeout)
        self._left -= len(read)
        return read

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        # A new message: the limit starts over for its answer.
        self._left = _EXCHANGE_MAX_BYTES
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

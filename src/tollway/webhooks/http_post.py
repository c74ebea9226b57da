"""One webhook over HTTP: sends a request, and reads only the status of the answer.

The receivers belong to callers. An endless answer must not keep the event loop busy while paid
calls wait, so no more is read than the status needs, and no connection is reused.
"""

import asyncio
import re
import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING

from tollway.webhooks.addresses import host_of

if TYPE_CHECKING:
    import httpx2

# For an address that is not the last: its network may be broken, as IPv6 is at many hosts.
_CONNECT_MAX_S = 3.0
_LINE_MAX_BYTES = 8192
# Includes the headers of interim answers (100 to 199) before the final one.
_LINES_MAX = 100
_STATUS = re.compile(rb"HTTP/1\.[01] ([1-9][0-9]{2})[ \r\n]")


class NoAnswerError(Exception):
    """The receiver sent no valid HTTP answer."""


async def post(
    url: "httpx2.URL",
    addresses: Sequence[str],
    headers: Mapping[str, str],
    body: bytes,
    timeout_s: float,
) -> int:
    """Sends the request to the first of `addresses`, which the host resolved to, that can be
    connected to, checks the host's certificate, and returns the status of the answer."""
    async with asyncio.timeout(timeout_s):
        reader, writer = await _connected(url, addresses)
        try:
            writer.write(_head(url, headers, len(body)) + body)
            await writer.drain()
            return await _status(reader)
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            raise NoAnswerError from None
        finally:
            # The rest of the answer does not matter.
            writer.transport.abort()


async def _connected(
    url: "httpx2.URL", addresses: Sequence[str]
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    *others, last = addresses
    for address in others:
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(_CONNECT_MAX_S):
                return await _connect(url, address)
    return await _connect(url, last)


async def _connect(
    url: "httpx2.URL", address: str
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    is_secure = url.scheme == "https"
    return await asyncio.open_connection(
        address,
        url.port or (443 if is_secure else 80),
        limit=_LINE_MAX_BYTES,
        ssl=_trust() if is_secure else None,
        server_hostname=host_of(url) if is_secure else None,
    )


@cache
def _trust() -> ssl.SSLContext:
    """Trusts the authorities of the operating system, whatever the environment says."""
    import httpx2  # noqa: PLC0415

    context = httpx2.create_ssl_context(trust_env=False)
    context.set_alpn_protocols(["http/1.1"])
    return context


def _head(url: "httpx2.URL", headers: Mapping[str, str], length: int) -> bytes:
    sent = {
        "Host": url.netloc.decode("ascii"),
        "Accept": "*/*",
        "Connection": "close",
        "Content-Length": str(length),
        **headers,
    }
    lines = [f"POST {url.raw_path.decode('ascii')} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in sent.items()]
    return "\r\n".join([*lines, "", ""]).encode("ascii")


async def _status(answer: asyncio.StreamReader) -> int:
    is_first = True
    for _ in range(_LINES_MAX):
        line = await answer.readuntil(b"\n")
        if is_first:
            found = _STATUS.match(line)
            if found is None:
                break
            status = int(found[1])
            if status >= 200 or status == 101:
                return status
        # The line after an empty one begins the next answer.
        is_first = not line.strip()
    raise NoAnswerError

"""One message over HTTP: a request goes out, a bounded answer comes back before a deadline.

Whether anything was sent decides what a failure means, so it is not guessed from the kind of error:
the HTTP library reports its steps, and only a message that it was still connecting for when it
failed counts as not sent.
"""

import asyncio
from http.cookiejar import CookieJar, DefaultCookiePolicy

import httpx2

from tollway.carriers.connectors.bounded_network import BoundedTransport
from tollway.carriers.connectors.connector import NotSentError, OutcomeUnknownError
from tollway.contract.language import Value

_ANSWER_MAX_BYTES = 64 * 1024
_CONNECTING = "connection."


def open_client() -> httpx2.AsyncClient:
    """The client for all carriers: certificates are checked, and nothing of the environment (a
    proxy, another list of authorities) changes where personal data goes."""
    # Kept only shortly: on a connection that the carrier is just closing, it could not be known
    # whether a message was read.
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=32, keepalive_expiry=2.0)
    return httpx2.AsyncClient(
        transport=BoundedTransport(httpx2.create_ssl_context(trust_env=False), limits),
        trust_env=False,
        follow_redirects=False,
        # The deadline of each message is the only one; the breaker limits how many there are.
        timeout=None,
        # None is kept: the next message would carry all that ever came.
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
        headers={"Accept-Encoding": "identity", "User-Agent": "tollway"},
    )


async def exchange(client: httpx2.AsyncClient, request: httpx2.Request, deadline_s: float) -> bytes:
    """Sends a request of this client once, and returns the body of the answer; any other status
    than 200 leaves the outcome unknown."""
    steps: list[str] = []

    async def trace(step: str, _: object) -> None:
        steps.append(step)

    # Half of it for connecting, so that an unreachable carrier is known as such.
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
        # As it came: a packed answer could be of any size once unpacked.
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > _ANSWER_MAX_BYTES:
                raise OutcomeUnknownError("The carrier's answer is too long.")
        return bytes(body)
    finally:
        await response.aclose()

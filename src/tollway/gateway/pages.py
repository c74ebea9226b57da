"""Answering at paths that are no operations: probes, pages for people, pushes, token requests.

The probes are there from the start. The rest takes as long to load as the operations, and many
gateways never need it: the first request for any of it loads it on a thread, while calls go on.
"""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from time import time

from tollway.contract.addresses import Network, client_address, counted_address
from tollway.contract.language import Phrase, weight_of
from tollway.gateway.probes import App
from tollway.gateway.unread_pushes import UnreadPushes
from tollway.pipeline.bodies import (
    BodyShare,
    ByteBudget,
    Message,
    NotedEnd,
    Receive,
    Scope,
    Send,
    receive_within,
)
from tollway.pipeline.http import common_headers, headers_by_name
from tollway.settings import Settings
from tollway.store.concurrency import BoundedSlots, SingleFlight
from tollway.telemetry.requests import (
    CLIENT_ID_HEADER,
    CONTEXT,
    ID_HEADER,
    RequestContext,
    new_request_id,
    read_client_ids,
)

# Few larger answers start at once, and one per address, so that an anonymous client that asks for
# thousands does not use up the processor. The connection is closed after one: so a client that
# pipelines a hundred requests and reads nothing does not hold a connection with the other answers.
_LARGE_ANSWER_BYTES = 65_536
_LARGE_AT_ONCE = 4
_LARGE_ANSWER_S = 0.03
# Beyond this, requests of one address for such answers are refused: each that waits takes memory,
# and a connection that others may need.
LARGE_OF_ADDRESS_MAX = 32
_CROWDED = Phrase(
    "Too many requests from this address at once: retry in a second.",
    "来自此地址的并发请求过多：请稍后重试。",
)
_RETRY = (b"retry-after", b"1")
# Parsing thousands of parameters takes as long as twenty pages; no URL of ours has a hundred, or
# contains a return path of over 2,000 characters, which escaping may triple.
_QUERY_MAX_BYTES, _PARAMETERS_MAX = 8192, 100
_TOO_LONG = Phrase("The address is too long, or has too many parameters.", "网址过长，或参数过多。")
# The default; an answer that is the same for all may say otherwise.
_NO_STORE = (b"cache-control", b"no-store")
_CLOSE = (b"connection", b"close")


# Programs call what is below these paths; no browser does.
_API_PREFIXES = (b"/papi/", b"/oauth/", b"/api/", b"/push/", b"/templates/", b"/mcp")
_ACCEPT_MAX = 512
PUSH_PATH = "/push"
DESCRIPTION_PATH = "/openapi.json"
# Allows extra slashes, as when a base URL that ends with one is joined with a path.
_PUSH = re.compile(rb"/+push(/|\Z)")


def is_push(scope: Scope) -> bool:
    """Whether a request means to push records, even to a path that takes none."""
    return scope["method"] == "POST" and _PUSH.match(scope["raw_path"]) is not None


def wants_page(scope: Scope, headers: dict[bytes, bytes]) -> bool:
    """Whether a request comes from a browser, not from a program with a wrong path. Some HTTP
    libraries accept text/html by default: their path or token gives them away."""
    return (
        scope["method"] in ("GET", "HEAD")
        and b"authorization" not in headers
        and not scope["raw_path"].startswith(_API_PREFIXES)
        and _prefers_html(headers.get(b"accept", b"")[:_ACCEPT_MAX].decode("latin-1"))
    )


def _prefers_html(accept: str) -> bool:
    best = {"text/html": 0.0, "application/json": 0.0}
    for part in accept.lower().split(","):
        kind, _, parameter = part.partition(";")
        if kind.strip() in best:
            best[kind.strip()] = max(best[kind.strip()], weight_of(parameter))
    return best["text/html"] > best["application/json"]


def address_of(scope: Scope, proxies: tuple[Network, ...]) -> str:
    """The address that a request counts for. Behind a proxy, all come from the same one."""
    address = scope["client"][0]
    if proxies:
        forwarded_for = headers_by_name(scope["headers"]).get(b"x-forwarded-for")
        address = client_address(address, forwarded_for, proxies)
    return counted_address(address)


def _content_length(headers: Iterable[tuple[bytes, bytes]]) -> int:
    return next((int(value) for name, value in headers if name == b"content-length"), 0)


class Pages:
    """The application of some paths. Every answer gets a request id, pages also the one that the
    client sent, and no cache stores an answer unless it says so."""

    def __init__(
        self,
        app: App,
        paths: Collection[str],
        settings: Settings,
        budget: ByteBudget,
        missing_path: str = "",
    ) -> None:
        self._app = app
        self._missing_path = missing_path
        self._common_headers = common_headers(settings)
        self._budget = budget
        self._proxies = settings.proxies
        self._large = BoundedSlots(_LARGE_AT_ONCE, "too many large answers at once")
        self._unread_pushes = UnreadPushes(settings)
        self._of_address: Counter[str] = Counter()
        self._paths = {path.encode() for path in paths}
        # Paths whose answers have turned out to be large.
        self._large_paths = self._paths & {DESCRIPTION_PATH.encode()}
        # Every path below these is a page, even if only "not found".
        rest = "{rest:path}"
        self._areas = tuple(path.removesuffix(rest).encode() for path in paths if rest in path)

    def has(self, raw_path: bytes, headers: dict[bytes, bytes]) -> bool:
        """Whether a page answers here. A request with a token comes from a program, which cannot
        read a "not found" page: it gets only pages that exist."""
        if raw_path in self._paths:
            return True
        return b"authorization" not in headers and raw_path.startswith(self._areas)

    async def answer_missing(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The "not found" page. Routed by its own path: that of the request may be another spelling
        of an existing page, which proxies do not know."""
        await self.answer_at(self._missing_path, scope, receive, send)

    async def answer_at(self, path: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request as if it were one for this path."""
        await self({**scope, "path": path, "raw_path": path.encode()}, receive, send)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        query: bytes = scope["query_string"]
        if len(query) > _QUERY_MAX_BYTES or query.count(b"&") >= _PARAMETERS_MAX:
            await self._refuse(scope, send, 414, _TOO_LONG)
            return
        address = address_of(scope, self._proxies)
        if scope["raw_path"] not in self._large_paths:
            await self._answer(scope, receive, send, address)
            return
        if self._of_address[address] >= LARGE_OF_ADDRESS_MAX:
            await self._refuse(scope, send, 503, _CROWDED, _RETRY)
            return
        self._of_address[address] += 1
        try:
            await self._answer(scope, receive, send, address)
        finally:
            self._of_address[address] -= 1
            if not self._of_address[address]:
                del self._of_address[address]

    async def _refuse(
        self, scope: Scope, send: Send, status: int, phrase: Phrase, *more: tuple[bytes, bytes]
    ) -> None:
        """As cheap as possible: there may be thousands a second. The body is not read, so the
        connection is closed."""
        # Loaded with the pages, which most gateways need later than calls.
        from starlette.requests import Request  # noqa: PLC0415

        from tollway.web.wording import language_of  # noqa: PLC0415

        text = f"{phrase.said(language_of(Request(scope)))}\n".encode()
        headers = [
            _NO_STORE,
            (b"content-type", b"text/plain; charset=utf-8"),
            (b"content-length", b"%d" % len(text)),
            _CLOSE,
            (ID_HEADER, new_request_id(time()).encode("ascii")),
            *self._common_headers,
            *more,
        ]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": text})

    async def _answer(self, scope: Scope, receive: Receive, send: Send, address: str) -> None:
        sent_headers = headers_by_name(scope["headers"])
        client = read_client_ids(sent_headers)
        body = NotedEnd(sent_headers, receive)
        context = RequestContext(new_request_id(time()), client, address)
        added = [(ID_HEADER, context.request_id.encode("ascii")), *self._common_headers]
        if client.request_id:
            added.append((CLIENT_ID_HEADER, client.request_id.encode("ascii")))

        status = 0

        async def send_with_ids(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = message["headers"]
                names = {name for name, _ in headers}
                if _NO_STORE[0] not in names:
                    added.append(_NO_STORE)
                is_large = _content_length(headers) > _LARGE_ANSWER_BYTES
                # The server ends the connection if a body is not read, and a client that does not
                # know would lose its next request.
                if _CLOSE[0] not in names and (is_large or not body.is_over):
                    added.append(_CLOSE)
                if is_large:
                    if scope["raw_path"] in self._paths:
                        self._large_paths.add(scope["raw_path"])
                    await large.enter_async_context(self._one_large(address))
                message = {**message, "headers": [*headers, *added]}
            elif message.get("more_body"):
                # A streamed answer lasts as long as the client reads, and takes no more memory than
                # one piece.
                await large.aclose()
            await send(message)

        # Routed by the path as it was sent, which is the one that proxies have rules for. No page
        # needs an escape: any other spelling of one is the missing page of its area.
        sent = {"path": scope["raw_path"].decode("latin-1")}
        # The account is not known yet, only the address.
        with BodyShare(self._budget, address) as share:
            within = receive_within(body.receive, share)
            async with AsyncExitStack() as large:
                await self._app({**scope, **sent, CONTEXT: context}, within, send_with_ids)
        if is_push(scope):
            await self._unread_pushes.read_away(sent_headers, body, status, address)

    @asynccontextmanager
    async def _one_large(self, address: str) -> AsyncIterator[None]:
        async with self._large.taken(None, by=address):
            yield
            # The server has its own copy now, and needs a moment to send it.
            await asyncio.sleep(_LARGE_ANSWER_S)


class LazyPages:
    """Pages that are made on a thread when first needed."""

    def __init__(self, make: Callable[[], Pages]) -> None:
        self._make = make
        self._made: Pages | None = None
        self._making = SingleFlight(self._make_beside)

    async def made(self) -> Pages:
        if self._made is None:
            await self._making()
        assert self._made is not None
        return self._made

    async def _make_beside(self) -> None:
        self._made = await asyncio.to_thread(self._make)

"""One address cannot take the memory and the connections of a gateway with large answers."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from tests.support.gateway import Gateway
from tollway.gateway import site
from tollway.gateway.pages import LARGE_OF_ADDRESS_MAX, Pages
from tollway.pipeline.bodies import ByteBudget
from tollway.settings import Settings
from tollway.store.database import StoreError

pytestmark = pytest.mark.sqlite
MANY = 3


class Held:
    """A large page, whose answers wait until they are let go once the first was sent."""

    def __init__(self, proxy: str) -> None:
        self._may_go = asyncio.Event()
        self._may_go.set()
        self._proxy = proxy
        settings = Settings(trusted_proxies=proxy)
        slow = Route("/slow", self._slow)
        self._pages = Pages(Starlette(routes=[slow]), [slow.path], settings, ByteBudget())
        self._under_way: list[asyncio.Task[int]] = []

    async def _slow(self, _: Request) -> Response:
        await self._may_go.wait()
        return PlainTextResponse("here" * 20_000)

    async def ask(self, address: str) -> int:
        """The status that a request of this address gets."""
        sent: list[Any] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "GET", "path": "/slow", "raw_path": b"/slow"}
        headers = [(b"x-forwarded-for", address.encode())] if self._proxy else []
        scope |= {"query_string": b"", "headers": headers, "root_path": ""}
        scope |= {"client": (self._proxy or address, 1)}
        await self._pages(scope, receive, send)
        return int(sent[0]["status"])

    async def hold(self, address: str, count: int) -> None:
        self._may_go.clear()
        self._under_way += [asyncio.create_task(self.ask(address)) for _ in range(count)]
        for _ in range(10):
            await asyncio.sleep(0)

    async def let_go(self) -> Sequence[int]:
        self._may_go.set()
        return await asyncio.gather(*self._under_way)


@pytest.mark.parametrize(
    ("address", "same", "other", "proxy"),
    [
        ("192.0.2.1", "192.0.2.1", "192.0.2.2", ""),
        ("2001:db8:0:1::1", "2001:db8:0:1:ffff::9", "2001:db8:0:2::1", ""),
        ("192.0.2.1", "192.0.2.1", "192.0.2.2", "10.0.0.1"),
    ],
    ids=["IPv4", "a network of IPv6", "behind a proxy"],
)
async def test_more_large_answers_of_one_address_are_refused_and_those_of_others_are_not(
    address: str, same: str, other: str, proxy: str
) -> None:
    held = Held(proxy)
    assert await held.ask(address) == 200
    await held.hold(address, LARGE_OF_ADDRESS_MAX)
    async with asyncio.timeout(20):
        assert [await held.ask(same) for _ in range(MANY)] == [503] * MANY
    await held.hold(other, 1)
    assert await held.let_go() == [200] * (LARGE_OF_ADDRESS_MAX + 1)
    assert await held.ask(same) == 200, "once the others are answered"


def test_pages_that_cannot_be_loaded_leave_no_file_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are loaded again with the next request."""

    def fail(_: object) -> None:
        raise StoreError("gone")

    def open_files() -> int:
        found = Path("/proc/self/fd").iterdir()
        return sum("memfd:openapi" in str(each.readlink()) for each in found if each.is_symlink())

    monkeypatch.setattr(site, "web_routes", fail)
    before = open_files()
    with pytest.raises(StoreError):
        site.site_routes(Settings(), *[MagicMock()] * 7)
    assert open_files() == before


def test_the_description_is_whole_and_head_has_its_length(gateway: Gateway) -> None:
    """The server sends it from a file in memory."""
    sent = gateway.client.get("/openapi.json")
    assert sent.json()["openapi"].startswith("3.")
    assert int(sent.headers["content-length"]) == len(sent.content)
    head = gateway.client.head("/openapi.json")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == sent.headers["content-length"]

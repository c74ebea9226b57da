"""Many readers of pages: the surplus gets a plain sentence, and a slow sender delays no other."""

import asyncio
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import Response

from tests.support.browsers import Browser
from tests.support.consent import new_person
from tests.support.gateway import Gateway
from tests.support.postgresql import locked, waiting
from tests.support.raw import request
from tests.support.remote import eventually
from tests.support.stores import Store
from tollway.consent.owners import Owner
from tollway.store.database import Database
from tollway.web.owner import OWNERS
from tollway.web.pages import Web
from tollway.web.sign_in import Sessions, Visit

SIGN_IN = "/owner/sign-in"
# As many of one address may wait for their password to be checked.
WAITING_MAX = 4
SURPLUS = 5
PAGES = 20
SCOPE: dict[str, Any] = {"type": "http", "method": "GET", "headers": []}


@pytest.fixture
def own(tmp_path: Path) -> Store:
    return Store(tmp_path / "tollway.db")


@pytest.fixture
def served(own: Store) -> Iterator[Gateway]:
    """Whatever a test holds is waited for as long as it likes."""
    gateway = Gateway(own, call_timeout_s=120)
    yield gateway
    assert gateway.stop() == 0


@pytest.mark.postgresql
def test_503_a_page_that_gets_no_place_in_time(own: Store, served: Gateway) -> None:
    browser = Browser(served)
    browser.open("/owner")
    browser.sign_in(new_person(own).login)
    with ThreadPoolExecutor(2) as pool, locked(own.url, "consent", mode="ACCESS EXCLUSIVE"):
        shown = [pool.submit(browser.client.get, "/owner") for _ in range(2)]
        eventually(lambda: waiting(own.url), lambda number: number == 2)
        refused = served.client.get("/owner")
    assert refused.status_code == 503
    assert int(refused.headers["retry-after"]) > 0
    assert refused.text.startswith("Too many pages")
    assert [each.result().status_code for each in shown] == [200, 200]
    assert served.client.get("/owner").status_code == 200
    browser.client.close()


@pytest.mark.postgresql
def test_429_the_surplus_of_those_who_sign_in_at_once(own: Store, served: Gateway) -> None:
    browser = Browser(served)
    browser.open("/owner")

    def sign_in(number: int) -> httpx.Response:
        fields = {**browser.hidden(), "login": f"login {number}", "password": "a password"}
        return browser.client.post(SIGN_IN, data=fields)

    with ThreadPoolExecutor(WAITING_MAX + SURPLUS) as pool:
        with locked(own.url, "owner", mode="ACCESS EXCLUSIVE"):
            sent = [pool.submit(sign_in, number) for number in range(WAITING_MAX + SURPLUS)]
            answered = eventually(
                lambda: [each.result() for each in sent if each.done()],
                lambda found: len(found) == SURPLUS,
            )
            assert {each.status_code for each in answered} == {429}
            assert "at this moment" in answered[0].text
            assert waiting(own.url) == 1, "the one whose password is looked up"
            assert served.client.get("/owner").status_code == 200, "the others hold no place"
        statuses = sorted(each.result().status_code for each in sent)
    assert statuses == [403] * WAITING_MAX + [429] * SURPLUS
    browser.client.close()


def test_who_sends_nothing_of_a_form_holds_no_place(gateway: Gateway) -> None:
    head = request(SIGN_IN, "Host: gateway", "Content-Length: 100", method="POST")
    with ExitStack() as stack:
        browser = stack.enter_context(httpx.Client(base_url=gateway.base_url))
        for _ in range(4):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", gateway.port)))
            connection.sendall(head)
        for _ in range(4):
            assert browser.get("/owner").status_code == 200


@pytest.mark.sqlite
def test_between_pages_it_is_the_turn_of_calls(own: Store) -> None:
    async def work(database: Database) -> int:
        web, made = Web(Sessions(database, OWNERS, bytes(32), is_secure=False), ZoneInfo("UTC")), []

        async def page(_: Request, __: Visit[Owner]) -> Response:
            made.append(1)
            return Response()

        answer = web.endpoint(page)
        asked = [asyncio.ensure_future(answer(Request(SCOPE))) for _ in range(PAGES)]
        most = 0
        while not all(each.done() for each in asked):
            before = len(made)
            await asyncio.sleep(0)
            most = max(most, len(made) - before)
        assert len(made) == PAGES
        return most

    assert own.do(work) <= 2, "pages in one turn of the event loop"

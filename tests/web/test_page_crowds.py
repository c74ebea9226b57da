"""Many readers of pages: the surplus gets a plain sentence, and a slow sender delays no other."""

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import Response

from tests.support.browsers import Browser
from tests.support.consent import new_person
from tests.support.gateway import Gateway
from tests.support.ledger import RUNTIME, new_caller
from tests.support.members import entered
from tests.support.postgresql import locked, waiting
from tests.support.raw import request
from tests.support.remote import eventually
from tests.support.stores import Store
from tollway.consent.owners import Owner
from tollway.identity.people import Person, Role
from tollway.identity.sign_in_limits import Attempt
from tollway.identity.sign_in_links import invite
from tollway.store import loop_share
from tollway.store.database import Database, Reader
from tollway.store.loop_share import LoopTime
from tollway.store.open import open_sealer
from tollway.web.owner import OWNERS
from tollway.web.pages import Web
from tollway.web.second_factor import SecondFactorPages
from tollway.web.sign_in import Area, PasswordChecker, Sessions, TooManyChecksError, Visit
from tollway.web.sign_in_pages import OPERATOR_PATH, OPERATORS, SignInPages
from tollway.web.wording import LANGUAGE_COOKIE

T = TypeVar("T")
SIGN_IN = "/owner/sign-in"
# As many of one address may wait for their password to be checked.
WAITING_MAX = 4
SURPLUS = 5
PAGES = 20
# Of the event loop, for pages.
_SHARE = 1 / 4
SCOPE: dict[str, Any] = {"type": "http", "method": "GET", "query_string": b"", "headers": []}


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
def test_files_of_lists_are_made_one_at_a_time_and_leave_the_pages_to_others(
    own: Store, served: Gateway
) -> None:
    browser = entered(own, Browser(served), new_caller(own))
    with ThreadPoolExecutor(3) as pool, locked(own.url, "entry", mode="ACCESS EXCLUSIVE"):
        asked = [pool.submit(browser.client.get, "/account/ledger.csv") for _ in range(3)]
        eventually(lambda: waiting(own.url), lambda number: number > 0)
        assert [served.client.get("/owner").status_code for _ in range(5)] == [200] * 5
        assert waiting(own.url) == 1
    assert [each.result().status_code for each in asked] == [200] * 3
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
            # The one whose password is looked up, which may only just be on its way there.
            eventually(lambda: waiting(own.url), lambda found: found == 1)
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


@pytest.mark.sqlite
def test_of_the_event_loop_pages_leave_most_to_calls(
    own: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What they wait for does not count."""
    monkeypatch.setattr(loop_share, "_BURST_S", 0.0)

    made_s: list[float] = []

    async def work(database: Database) -> float:
        web = Web(Sessions(database, OWNERS, bytes(32), is_secure=False), ZoneInfo("UTC"))

        async def page(_: Request, __: Visit[Owner]) -> Response:
            await asyncio.sleep(0.01)
            made_s.append(_busy_s())
            return Response()

        answer, began_s = web.endpoint(page), time.perf_counter()
        await asyncio.gather(*(answer(Request(SCOPE)) for _ in range(PAGES)))
        return time.perf_counter() - began_s

    # All but the last two were waited for; on a busy machine these may be long ones.
    assert own.do(work) > 0.9 * sum(made_s[:-2]) / _SHARE
    taking = LoopTime(asyncio.sleep(0.05))
    asyncio.run(_awaited(taking))
    assert taking.taken_s() < 0.05


def _busy_s() -> float:
    """Takes the event loop for a moment; for how long."""
    began_s = time.perf_counter()
    while time.perf_counter() - began_s < 0.005:
        pass
    return time.perf_counter() - began_s


async def _awaited(work: Awaitable[object]) -> None:
    await work


@pytest.mark.sqlite
def test_readers_at_other_addresses_wait_for_no_crowd(own: Store) -> None:
    async def work(database: Database) -> list[str]:
        web, made = Web(Sessions(database, OWNERS, bytes(32), is_secure=False), ZoneInfo("UTC")), []

        async def page(request: Request, _: Visit[Owner]) -> Response:
            assert request.client is not None
            async with web.without_slot():
                await asyncio.sleep(0)
            made.append(request.client.host)
            return Response()

        answer = web.endpoint(page)
        crowd = [f"2001:db8::{number:x}" for number in range(PAGES)]
        asked = [
            asyncio.ensure_future(answer(Request({**SCOPE, "client": (address, 9)})))
            for address in (*crowd, "192.0.2.1")
        ]
        await asyncio.gather(*asked)
        return made

    made = own.do(work)
    assert len(made) == PAGES + 1
    # Two have begun before it came, and of the crowd, those and one more may have a turn.
    assert made.index("192.0.2.1") <= 6


class _Beside:
    """Takes the place of the threads, and counts what runs there at once."""

    def __init__(self) -> None:
        self.running = self.most = 0

    async def __call__(self, work: Callable[..., T], *given: Any) -> T:
        self.running += 1
        self.most = max(self.most, self.running)
        # All others have their turn meanwhile.
        for _ in range(1000):
            await asyncio.sleep(0)
        self.running -= 1
        return work(*given)


@pytest.mark.sqlite
def test_forms_sent_at_once_with_one_link_take_one_thread(
    own: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = _Beside()

    async def work(database: Database) -> list[int]:
        made = await invite(database, RUNTIME, role=Role.OPERATOR, name="Li", login="li li")
        sessions = Sessions(database, OPERATORS, bytes(32), is_secure=False)
        web, secret = Web(sessions, ZoneInfo("UTC")), bytes(32)
        sealer = open_sealer(own.url, own.key_file)
        factor = SecondFactorPages(web, database, sessions, sealer, secret, OPERATOR_PATH)
        door = PasswordChecker(database)
        sign_in = SignInPages(web, database, sessions, door, factor, OPERATOR_PATH, "", "")
        visit = Visit[Person]("v.a browser")
        fields = {"form_token": sessions.form_token(visit), "link": made.link}
        body = urlencode({**fields, "password": "a new password"}).encode()
        headers = [
            (b"cookie", f"tollway_operator={visit.cookie}".encode()),
            (b"content-type", b"application/x-www-form-urlencoded"),
        ]
        scope = {**SCOPE, "method": "POST", "path": "/", "query_string": b"", "headers": headers}

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        page = web.endpoint(sign_in.enter)
        monkeypatch.setattr(asyncio, "to_thread", beside)
        answers = await asyncio.gather(*(page(Request({**scope}, receive)) for _ in range(6)))
        return sorted(each.status_code for each in answers)

    assert own.do(work) == [303, *[410] * 5]
    assert beside.most == 1


@pytest.mark.sqlite
def test_who_has_many_known_browsers_leaves_the_checks_to_others(own: Store) -> None:
    async def password(_: Reader, login: str) -> None:
        if login == "many":
            await held.wait()

    async def no_one(*_: object) -> None:
        return None

    async def work(database: Database) -> None:
        door, area = PasswordChecker(database), Area[Owner]("owner", no_one, password)
        known = [Attempt("owner", "many", "192.0.2.1", f"browser {each}") for each in range(30)]
        sent = [asyncio.create_task(door.admit(area, each, "a password", 0)) for each in known]
        await asyncio.wait(sent, timeout=10, return_when=asyncio.FIRST_COMPLETED)
        other = asyncio.create_task(
            door.admit(area, Attempt("owner", "another", "192.0.2.2"), "a password", 0)
        )
        await asyncio.sleep(0)
        held.set()
        assert await other is None, "it is checked, and not refused"
        refused = await asyncio.gather(*sent, return_exceptions=True)
        assert sum(isinstance(each, TooManyChecksError) for each in refused) == 28

    held = asyncio.Event()
    own.do(work)


@pytest.mark.parametrize(
    "path", ["/", "/owner", "/account", "/operator/calls", "/healthz", "/nowhere"]
)
def test_an_address_of_thousands_of_parameters_is_refused_before_they_are_read(
    gateway: Gateway, path: str
) -> None:
    headers = {"Accept": "text/html"}
    for query in ("a=%41&" * 1000, "a=" + "%41" * 3000):
        refused = gateway.client.get(f"{path}?{query}", headers=headers)
        assert (refused.status_code, refused.headers["cache-control"]) == (414, "no-store")
        assert refused.headers["x-request-id"]
        assert refused.headers["connection"] == "close"
    for asked, said in (
        ({}, "The address is too long"),
        ({"Accept-Language": "zh-CN"}, "网址过长"),
        ({"Accept-Language": "zh-CN", "Cookie": f"{LANGUAGE_COOKIE}=en"}, "The address is too"),
    ):
        refused = gateway.client.get(f"{path}?{query}", headers={**headers, **asked})
        assert refused.text.startswith(said)
    usual = gateway.client.get(f"{path}?{'a=%41&' * 20}", headers=headers)
    assert usual.status_code in (200, 404)

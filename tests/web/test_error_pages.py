"""Pages that cannot be shown: they say why and what to do, and end no session."""

import asyncio
import re
from collections.abc import Callable
from typing import Any, NoReturn, cast
from zoneinfo import ZoneInfo

import pytest
from starlette.requests import Request
from starlette.responses import Response

from tests.support.browsers import Browser
from tests.support.ledger import Caller
from tests.support.members import entered
from tests.support.stores import Store
from tollway.consent.owners import Owner
from tollway.identity.people import Role
from tollway.store.database import Database, StoreError
from tollway.web.owner import OWNERS
from tollway.web.pages import Web
from tollway.web.sign_in import Sessions, Visit


class _NoDatabase:
    """One that cannot be reached."""

    async def fetch_one(self, *_: object, **__: object) -> NoReturn:
        raise StoreError("it is away")


def _unreachable(cookie: str, path: str = "/owner?a=1") -> Response:
    sessions = Sessions(cast(Database, _NoDatabase()), OWNERS, bytes(32), is_secure=False)
    web = Web(sessions, ZoneInfo("UTC"))

    async def page(_: Request, __: Visit[Owner]) -> Response:
        return Response("shown")

    route, _, query = path.partition("?")
    headers = [(b"cookie", cookie.encode())] if cookie else []
    scope: dict[str, Any] = {"type": "http", "method": "GET", "headers": headers, "path": route}
    answer: Callable[[Request], Any] = web.endpoint(page)
    return cast(Response, asyncio.run(answer(Request({**scope, "query_string": query.encode()}))))


@pytest.mark.sqlite
def test_503_while_the_database_is_away_a_session_goes_on() -> None:
    shown = _unreachable("tollway_owner=s.of-a-person")
    assert shown.status_code == 503 and int(shown.headers["retry-after"]) > 0
    text = bytes(shown.body).decode()
    assert "The gateway cannot reach its database." in text
    # What leads on is the same page again: the first one is away too.
    assert re.search(r'<a class="button" href="/owner\?a=1">Try again</a>', text)
    assert "set-cookie" not in shown.headers


@pytest.mark.sqlite
def test_a_page_that_needs_no_session_is_shown_while_the_database_is_away() -> None:
    shown = _unreachable("")
    assert shown.status_code == 200 and shown.body == b"shown"
    assert "tollway_owner=" in shown.headers["set-cookie"]


def test_403_a_form_that_is_too_old_leads_back_to_its_page(operator: Browser) -> None:
    operator.open("/operator/accounts?q=a")
    refused = operator.send("/operator/accounts/open", form_token="0" * 64, name="One")
    assert refused.status_code == 403 and "This form is too old" in refused.text
    assert re.search(r'<a class="button" href="/operator/accounts\?q=a">Go back</a>', refused.text)
    elsewhere = {"form_token": "0" * 64, "came_from": "//other.example/"}
    assert "other.example" not in operator.send("/operator/accounts/open", **elsewhere).text


def test_403_a_role_that_may_not_sees_whom_to_ask(
    store: Store, browser: Browser, caller: Caller
) -> None:
    reader = entered(store, browser, caller, Role.READER)
    refused = reader.open("/account/members/remove?member=none")
    assert refused.status_code == 403 and "Ask an owner of the account to do it." in refused.text


def test_a_command_is_shown_as_one(browser: Browser) -> None:
    page = browser.open("/operator").text
    assert "<code>tollway operator link LOGIN</code>" in page and "`" not in page

"""A session that ends while a page is open, and a refused password: one goes on where one was."""

import html
import re

import httpx
import pytest

from tests.support.browsers import Browser
from tests.support.consent import Person, ask, password_link
from tests.support.gateway import Gateway
from tests.support.ledger import Caller
from tests.support.members import entered, new_member
from tests.support.stores import Store
from tests.web.test_consent_journey import link_of


def idle(store: Store) -> None:
    """Ends all sessions, as if no page was used for too long."""
    store.run("UPDATE session SET seen_at_s = 1")


def sent_as_shown(browser: Browser, begin: str, **fields: str) -> httpx.Response:
    """Sends the form of the page whose action begins so, to just that address."""
    action = re.search(f'action="({begin}[^"]*)"', browser.page)
    assert action is not None
    return browser.send(html.unescape(action[1]), **fields)


def test_an_owner_whose_session_ended_signs_in_and_sees_the_question_again(
    gateway: Gateway, store: Store, asker: Caller, person: Person, browser: Browser
) -> None:
    browser.open(link_of(gateway, asker, person))
    browser.sign_in(person.login)
    idle(store)
    again = sent_as_shown(browser, "/authorize", answer="approve")
    assert "An account asks for access to your data" in again.text
    assert ask(gateway, asker, person.id).code == 302
    assert "asks for access" in browser.sign_in(person.login).text
    assert "You approved" in sent_as_shown(browser, "/authorize", answer="approve").text


def test_a_question_of_an_older_session_leads_back_to_itself(
    gateway: Gateway, asker: Caller, person: Person, browser: Browser
) -> None:
    link = link_of(gateway, asker, person)
    browser.open(link)
    old = browser.sign_in(person.login).text
    browser.client.cookies.clear()
    browser.open(link)
    browser.sign_in(person.login)
    browser.page = old
    refused = sent_as_shown(browser, "/authorize", answer="approve")
    assert refused.status_code == 403
    back = re.search('href="(/authorize[^"]+)">Go back', refused.text)
    assert back is not None
    assert "asks for access" in browser.open(html.unescape(back[1])).text


@pytest.mark.parametrize("home", ["/owner", "/operator", "/account"])
def test_signing_out_after_the_session_ended_does_not_fail(
    home: str, store: Store, caller: Caller, person: Person, browser: Browser, operator: Browser
) -> None:
    if home == "/owner":
        browser.open(home)
        browser.sign_in(person.login)
    elif home == "/account":
        entered(store, browser, caller)
    browser.open(home)
    idle(store)
    out = sent_as_shown(browser, f"{home}/sign-out")
    assert out.status_code == 200 and out.url.path in ("/", "/owner")
    assert 'type="password"' in browser.open(home).text


def test_a_refused_sign_in_keeps_the_question(
    gateway: Gateway, asker: Caller, person: Person, browser: Browser
) -> None:
    browser.open(link_of(gateway, asker, person))
    wrong = sent_as_shown(browser, "/owner/sign-in", login=person.login, password="wrong")
    assert wrong.status_code == 403
    # Loaded again by its address.
    assert "An account asks for access" in browser.open(str(wrong.url)).text
    right = browser.sign_in(person.login)
    assert right.url.path == "/authorize" and "asks for access" in right.text


def test_a_refused_password_keeps_the_link(
    store: Store, person: Person, caller: Caller, browser: Browser
) -> None:
    asked = browser.open(password_link(store, person.login))
    assert "It must have 10 to 200 characters." in asked.text
    short = sent_as_shown(browser, "/owner/password", password="short", again="short")
    assert short.status_code == 400
    assert "Choose a new password" in browser.open(str(short.url)).text
    browser.open(f"/account/enter?link={new_member(store, caller.account_id).link}")
    short = sent_as_shown(browser, "/account/enter", password="short")
    assert short.status_code == 400
    assert "Choose a password" in browser.open(str(short.url)).text


def test_a_page_that_refreshes_itself_is_not_used(store: Store, operator: Browser) -> None:
    def pass_minutes(minutes: int) -> None:
        store.run(f"UPDATE session SET seen_at_s = seen_at_s - {60 * minutes}")

    refreshed = {"X-Live": "1"}
    pass_minutes(20)
    assert "Overview" in operator.client.get("/operator", headers=refreshed).text
    pass_minutes(20)
    assert "Overview" not in operator.client.get("/operator", headers=refreshed).text

"""The second factor on pages: set up, asked for after the password, limited, reset."""

import base64
import html
import re
import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
import zxingcpp
from PIL import Image, ImageDraw

from tests.support.browsers import Browser
from tests.support.consent import PASSWORD, new_person, password_link
from tests.support.gateway import Gateway
from tests.support.ledger import RUNTIME, new_caller
from tests.support.stores import Store
from tollway.consent.owners import set_password
from tollway.identity.people import Role, set_person_password
from tollway.identity.second_factor import STEP_S, code_at
from tollway.identity.sign_in_limits import Attempt, count_attempt
from tollway.identity.sign_in_links import invite, new_link
from tollway.ledger.trail import newest_acts

WRONG = "000000"
_numbers = count(1)


class Someone(NamedTuple):
    """A person of an area, who signs in with PASSWORD."""

    home: str
    login: str
    id: str = ""


def new_owner(store: Store) -> Someone:
    return Someone("/owner", new_person(store).login)


def _invited(store: Store, home: str, role: Role, account_id: str | None) -> Someone:
    login = f"factor{next(_numbers)}{time.time_ns()}"
    made = store.do(
        lambda database: invite(
            database, RUNTIME, role=role, name="Li", login=login, account_wanted=account_id
        )
    )
    store.do(lambda database: set_person_password(database, made.person, PASSWORD, 0))
    return Someone(home, login, made.person.id)


def new_operator(store: Store) -> Someone:
    return _invited(store, "/operator", Role.OPERATOR, None)


def new_member(store: Store) -> Someone:
    return _invited(store, "/account", Role.READER, new_caller(store).account_id)


def send_password(browser: Browser, who: Someone) -> httpx.Response:
    browser.open(who.home)
    return browser.send(f"{who.home}/sign-in", login=who.login, password=PASSWORD)


def send_code(browser: Browser, who: Someone, code: str) -> httpx.Response:
    return browser.send(f"{who.home}/sign-in/code", code=code)


def is_in(browser: Browser, who: Someone) -> bool:
    return 'type="password"' not in browser.client.get(who.home).text


def read_qr(page: str) -> str:
    """What a telephone reads from the drawing."""
    path = re.search(r'<path d="(M[^"]+h1v1h-1z)" fill="#000"/></svg>', page)
    assert path is not None
    side = int(re.findall(r'viewBox="0 0 (\d+) \1" role="img"', page)[0])
    picture = Image.new("L", (side * 4, side * 4), 255)
    pen = ImageDraw.Draw(picture)
    for x, y in re.findall(r"M(\d+) (\d+)h1v1h-1z", path[1]):
        left, top = int(x) * 4, int(y) * 4
        pen.rectangle((left, top, left + 3, top + 3), fill=0)
    (found,) = zxingcpp.read_barcodes(picture)
    return str(found.text)


class Device(NamedTuple):
    """A person's telephone, and the recovery codes on paper."""

    secret: bytes
    confirmed_step: int
    recovery: list[str]

    def first_code(self) -> str:
        """The code that confirmed the factor."""
        return code_at(self.secret, self.confirmed_step)

    def next_code(self) -> str:
        return code_at(self.secret, max(self.confirmed_step + 1, int(time.time()) // STEP_S))


def set_up(browser: Browser, who: Someone) -> Device:
    page = browser.open(f"{who.home}/second-factor").text
    assert "Set it up" in page
    page = browser.send(f"{who.home}/second-factor").text
    values = parse_qs(urlsplit(read_qr(page)).query)
    assert values["issuer"] == ["Tollway"] and values["secret"][0] in page
    secret = base64.b32decode(values["secret"][0])
    wrong = browser.send(f"{who.home}/second-factor", code=WRONG)
    assert wrong.status_code == 403 and values["secret"][0] in wrong.text
    step = int(time.time()) // STEP_S
    page = browser.send(f"{who.home}/second-factor", code=code_at(secret, step)).text
    shown = re.search(r"<pre[^>]*>([^<]+)</pre>", page)
    assert shown is not None and len(shown[1].split()) == 10
    return Device(secret, step, shown[1].split())


@pytest.fixture
def other(gateway: Gateway) -> Iterator[Browser]:
    opened = Browser(gateway)
    yield opened
    opened.client.close()


@pytest.mark.parametrize("new", [new_owner, new_operator, new_member])
def test_a_code_is_asked_for_after_the_password_and_is_accepted_once(
    store: Store, browser: Browser, other: Browser, new: Callable[[Store], Someone]
) -> None:
    who = new(store)
    for each in (browser, other):
        send_password(each, who)
    device = set_up(browser, who)
    # Only the browser in which it was set up stays signed in.
    assert is_in(browser, who) and not is_in(other, who)

    assert "recovery codes" in send_password(other, who).text
    assert not is_in(other, who)
    assert send_code(other, who, WRONG).status_code == 403
    assert send_code(other, who, device.first_code()).status_code == 403
    code = device.next_code()
    assert send_code(other, who, code).url.path == who.home
    assert is_in(other, who)

    thief = browser
    thief.client.cookies.clear()
    send_password(thief, who)
    assert send_code(thief, who, code).status_code == 403
    assert send_code(thief, who, device.recovery[0]).url.path == who.home
    thief.client.cookies.clear()
    send_password(thief, who)
    assert send_code(thief, who, device.recovery[0]).status_code == 403
    assert not is_in(thief, who)


def test_it_is_turned_off_with_a_code_alone(store: Store, browser: Browser) -> None:
    who = new_owner(store)
    send_password(browser, who)
    device = set_up(browser, who)
    assert "10 of 10" in browser.open("/owner/second-factor").text
    assert browser.send("/owner/second-factor", code=WRONG).status_code == 403
    assert "is off" in browser.send("/owner/second-factor", code=device.recovery[0]).text
    browser.client.cookies.clear()
    assert send_password(browser, who).url.path == "/owner"
    assert is_in(browser, who)


def test_codes_are_limited_by_browser_and_from_everywhere(
    store: Store, browser: Browser, gateway: Gateway
) -> None:
    who = new_owner(store)
    send_password(browser, who)
    device = set_up(browser, who)
    guesser = Browser(gateway)
    send_password(guesser, who)
    statuses = [send_code(guesser, who, WRONG).status_code for _ in range(5)]
    assert statuses == [403] * 5
    assert send_code(guesser, who, device.next_code()).status_code == 429
    # Nor do more addresses give more guesses to a thief of the password: ten in all.
    for number in range(5):
        attempt = Attempt("owner code", who.login, f"192.0.2.{number}")
        store.do(
            lambda database, attempt=attempt: count_attempt(  # type: ignore[misc]
                database, attempt, int(time.time()), is_code=True
            )
        )
    elsewhere = Browser(gateway)
    send_password(elsewhere, who)
    assert send_code(elsewhere, who, device.next_code()).status_code == 429
    # The browser that is known to be theirs still has attempts of its own.
    browser.send("/owner/sign-out")
    send_password(browser, who)
    assert send_code(browser, who, device.next_code()).url.path == "/owner"
    for each in (guesser, elsewhere):
        each.client.close()


def test_browsers_known_before_the_factor_share_the_guesses_of_all(
    store: Store, browser: Browser, gateway: Gateway
) -> None:
    """A thief of the password cannot collect known browsers before it is protected."""
    who = new_owner(store)
    thieves = [Browser(gateway) for _ in range(2)]
    for each in (browser, *thieves):
        send_password(each, who)
    device = set_up(browser, who)
    for each in thieves:
        send_password(each, who)
    for number in range(10):
        attempt = Attempt("owner code", who.login, f"192.0.2.{number}")
        store.do(
            lambda database, attempt=attempt: count_attempt(  # type: ignore[misc]
                database, attempt, int(time.time()), is_code=True
            )
        )
    assert [send_code(each, who, WRONG).status_code for each in thieves] == [429, 429]
    # The browser that has shown a code of this factor still has attempts of its own.
    browser.send("/owner/sign-out")
    send_password(browser, who)
    assert send_code(browser, who, device.next_code()).url.path == "/owner"
    for each in thieves:
        each.client.close()


def test_a_stolen_session_learns_nothing_from_confirming_again(
    store: Store, browser: Browser
) -> None:
    who = new_owner(store)
    send_password(browser, who)
    path = "/owner/second-factor"
    browser.open(path)
    page = browser.send(path).text  # Begins.
    secret = base64.b32decode(parse_qs(urlsplit(read_qr(page)).query)["secret"][0])
    statuses = [browser.send(path, code=WRONG).status_code for _ in range(6)]
    assert statuses == [403] * 5 + [429]
    right = code_at(secret, int(time.time()) // STEP_S)
    assert browser.send(path, code=right).status_code == 429


def test_the_step_between_is_worth_nothing_elsewhere(
    store: Store, browser: Browser, other: Browser
) -> None:
    who = new_owner(store)
    send_password(browser, who)
    device = set_up(browser, who)
    browser.client.cookies.clear()
    send_password(browser, who)
    ticket = browser.hidden()["ticket"]
    other.open("/owner")
    for text in (ticket, ticket[:-2], "", "x.y"):
        refused = other.send("/owner/sign-in/code", ticket=text, code=device.next_code())
        assert refused.status_code == 403 and "Sign in again" in refused.text
        other.open("/owner")
    moved = browser.client.post("/account/sign-in/code", data={"ticket": ticket})
    assert moved.status_code == 403
    # Nor after the password was changed.
    store.do(lambda database: set_password(database, RUNTIME, who.login, "another password"))
    assert send_code(browser, who, device.next_code()).status_code == 403
    assert not is_in(browser, who)


def test_a_link_asks_for_the_code_too(store: Store, browser: Browser, gateway: Gateway) -> None:
    who = new_operator(store)
    send_password(browser, who)
    device = set_up(browser, who)
    made = store.do(lambda database: new_link(database, RUNTIME, who.id))
    thief = Browser(gateway)
    thief.open(f"/operator/enter?link={made.link}")
    assert "recovery codes" in thief.send("/operator/enter").text
    assert not is_in(thief, who)
    assert send_code(thief, who, device.next_code()).url.path == "/operator"
    thief.client.close()


def test_a_link_changes_no_password_that_a_person_has(store: Store, browser: Browser) -> None:
    who = new_operator(store)
    send_password(browser, who)
    made = store.do(lambda database: new_link(database, RUNTIME, who.id))
    link, other = f"/operator/enter?link={made.link}", "the password of a thief"
    assert 'name="password"' not in browser.open(link).text
    assert browser.send("/operator/enter", password=other).status_code == 409
    assert is_in(browser, who)  # No session was ended.
    browser.client.cookies.clear()
    assert send_password(browser, who).url.path == "/operator"
    browser.client.cookies.clear()
    browser.open(link)  # It was not used up.
    assert browser.send("/operator/enter").url.path == "/operator"


def test_a_link_sets_no_password_before_the_code(store: Store, browser: Browser) -> None:
    login = f"factor{next(_numbers)}{time.time_ns()}"
    made = store.do(
        lambda database: invite(database, RUNTIME, role=Role.OPERATOR, name="Li", login=login)
    )
    who = Someone("/operator", login, made.person.id)
    browser.open(f"/operator/enter?link={made.link}")
    browser.send("/operator/enter")
    set_up(browser, who)
    browser.client.cookies.clear()
    made = store.do(lambda database: new_link(database, RUNTIME, who.id))
    browser.open(f"/operator/enter?link={made.link}")
    for code in ("", WRONG):
        assert browser.send("/operator/enter", password=PASSWORD, code=code).status_code == 403
    assert send_password(browser, who).status_code == 403


def test_an_owners_link_sets_no_password_before_the_code(
    store: Store, browser: Browser, other: Browser
) -> None:
    owner, new = new_owner(store), "another long password"
    send_password(browser, owner)
    device = set_up(browser, owner)
    other.open(password_link(store, owner.login))
    for code in ("", WRONG):
        refused = other.send("/owner/password", password=new, again=new, code=code)
        assert refused.status_code == 403 and "This code is wrong" in refused.text
    assert is_in(browser, owner)
    saved = other.send("/owner/password", password=new, again=new, code=device.next_code())
    assert "Your new password is saved" in saved.text
    assert not is_in(browser, owner)


def test_the_database_has_neither_the_secret_nor_a_code(store: Store, browser: Browser) -> None:
    who = new_owner(store)
    send_password(browser, who)
    device = set_up(browser, who)
    content = store.content()
    for text in (device.secret, base64.b32encode(device.secret)):
        assert text not in content and text.hex().encode() not in content
    for code in device.recovery:
        assert code.encode() not in content and code.replace("-", "").encode() not in content


def test_an_operator_resets_the_factor_of_another_and_the_trail_says_so(
    store: Store, browser: Browser, other: Browser
) -> None:
    who, operator = new_member(store), new_operator(store)
    send_password(browser, who)
    set_up(browser, who)
    send_password(other, operator)
    set_up(other, operator)
    path, cell = f"/operator/second-factors?q={who.login}", f">{who.login}</td>"
    row = next(each for each in other.open(path).text.split("<tr>") if cell in each)
    chinese = other.client.get(path, headers={"Accept-Language": "zh"}).text
    assert "成员" in next(each for each in chinese.split("<tr>") if cell in each)
    found = re.search(r'href="([^"]*/reset\?[^"]*)"', row)
    assert found is not None
    mine = other.open(f"/operator/second-factors?q={operator.login}").text
    assert f">{operator.login}</td>" in mine and "/reset?" not in mine
    own = f"/operator/second-factors/reset?kind=operator&id={operator.id}"
    assert other.client.get(own).status_code == 404
    reset = html.unescape(found[1])
    assert "Are you sure" in other.open(f"{reset}&sure=yes").text
    assert "is gone" in other.send(reset).text
    browser.client.cookies.clear()
    assert send_password(browser, who).url.path == "/account"
    acts = store.do(lambda database: newest_acts(database, 3))
    assert [(each.by, each.act, each.subject) for each in acts] == [
        (f"operator {operator.login}", "second-factor reset", f"member {who.login}"),
        (f"operator {operator.login}", "second-factor on", f"operator {operator.login}"),
        (f"member {who.login}", "second-factor on", f"member {who.login}"),
    ]


def test_a_second_factor_is_turned_on_so_often_in_a_while(store: Store, browser: Browser) -> None:
    who = new_member(store)
    send_password(browser, who)
    for _ in range(2):
        device = set_up(browser, who)
        browser.open(f"{who.home}/second-factor")
        off = browser.send(f"{who.home}/second-factor", code=device.recovery[0])
        assert "is off" in off.text
    browser.send(f"{who.home}/second-factor")
    sent = [browser.send(f"{who.home}/second-factor", code=WRONG).status_code for _ in range(2)]
    assert sent == [403, 429], "each set-up was one wrong code, and a right one that counts too"

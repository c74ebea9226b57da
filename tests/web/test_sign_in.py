"""Signing in: sessions end on the server, and outsiders can neither guess nor lock anyone out."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.support.browsers import Browser
from tests.support.consent import PASSWORD, Person, new_person
from tests.support.gateway import Gateway
from tests.support.ledger import RUNTIME
from tests.support.passwords import SLOW
from tests.support.stores import Store
from tollway.consent.owners import set_password
from tollway.identity.sign_in_limits import (
    PAIR_MAX,
    Attempt,
    TooManyAttemptsError,
    count_attempt,
)
from tollway.store.database import Database

GRANTS = "Who may use your data"
# More than may wait for a check at once.
CROWD = 24
GUESSES = 8


@pytest.fixture
def browsers(gateway: Gateway) -> Iterator[list[Browser]]:
    opened = [Browser(gateway) for _ in range(3)]
    yield opened
    for each in opened:
        each.client.close()


def signed_in(browser: Browser, person: Person) -> None:
    browser.open("/owner")
    assert GRANTS in browser.sign_in(person.login).text


def tried(store: Store, login: str, addresses: list[str], times: int) -> None:
    """So many attempts to sign in with this login from each of these addresses."""

    async def work(database: Database) -> None:
        for address in addresses:
            for _ in range(times):
                attempt = Attempt("owner", login, address)
                await count_attempt(database, attempt, int(time.time()))

    store.do(work)


async def test_attempts_that_a_clock_far_ahead_has_counted_keep_no_one_out(
    database: Database, person: Person
) -> None:
    attempt, now_s = Attempt("owner", person.login, "192.0.2.77"), int(time.time())
    for _ in range(PAIR_MAX):
        await count_attempt(database, attempt, now_s + 86_400)
    for _ in range(PAIR_MAX):
        await count_attempt(database, attempt, now_s)
    # The clocks of two nodes differ a little.
    with pytest.raises(TooManyAttemptsError):
        await count_attempt(database, attempt, now_s - 60)


def test_a_copied_cookie_is_worthless_after_signing_out(
    person: Person, browsers: list[Browser]
) -> None:
    browser, thief, _ = browsers
    signed_in(browser, person)
    thief.client.cookies.update(browser.client.cookies)
    assert GRANTS in thief.open("/owner").text
    browser.send("/owner/sign-out")
    assert GRANTS not in thief.open("/owner").text


def test_signing_out_everywhere_ends_the_sessions_of_all_browsers(
    store: Store, person: Person, browsers: list[Browser]
) -> None:
    first, second, of_another = browsers
    signed_in(first, person)
    signed_in(second, person)
    signed_in(of_another, new_person(store))
    assert "signed out" in first.send("/owner/sign-out", where="everywhere").text
    assert GRANTS not in second.open("/owner").text
    assert GRANTS in of_another.open("/owner").text


def test_the_database_has_no_cookie(store: Store, person: Person, browsers: list[Browser]) -> None:
    signed_in(browsers[0], person)
    content = store.content()
    for value in browsers[0].client.cookies.values():
        assert value.encode() not in content


def test_an_unknown_cookie_is_a_new_visitor(browsers: list[Browser]) -> None:
    for value in ("s.", "s.unknown", "v." + "x" * 5000, "é".encode().decode("latin-1"), "x"):
        browsers[0].client.cookies.clear()
        response = browsers[0].client.get(
            "/owner",
            headers={"Cookie": f"tollway_owner={value}".encode("latin-1")},  # type: ignore[dict-item]
        )
        assert response.status_code == 200
        assert "Sign in" in response.text


@pytest.mark.sqlite
def test_a_crowd_elsewhere_does_not_keep_the_owner_out(
    own_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    person = new_person(own_store)
    # Only checks that take their time let others wait.
    monkeypatch.setenv(SLOW, "1")
    served = Gateway(own_store)
    browser = Browser(served)

    def attack(number: int) -> None:
        attacker = Browser(served, "127.250.0.1")
        attacker.open("/owner")
        while not is_over:
            attacker.sign_in(f"login {number}", "a wrong password")
        attacker.client.close()

    is_over = False
    with ThreadPoolExecutor(CROWD) as pool:
        attackers = [pool.submit(attack, number) for number in range(CROWD)]
        try:
            browser.open("/owner")
            statuses = []
            for _ in range(3):
                statuses.append(browser.sign_in(person.login).status_code)
                browser.send("/owner/sign-out")
        finally:
            is_over = True
        for each in attackers:
            each.result()
    assert statuses == [200] * 3
    browser.client.close()
    assert served.stop() == 0


def test_guesses_from_many_addresses_do_not_lock_the_owner_out(
    gateway: Gateway, store: Store, person: Person, browsers: list[Browser]
) -> None:
    tried(store, person.login, [f"192.0.2.{number}" for number in range(10)], 5)
    # More than fifty guesses from everywhere: from now on one for each address.
    guesser = Browser(gateway)
    guesser.open("/owner")
    statuses = [guesser.sign_in(person.login, "a wrong one").status_code for _ in range(2)]
    assert statuses == [403, 429]
    guesser.client.close()
    browsers[0].open("/owner")
    assert GRANTS in browsers[0].sign_in(person.login).text


def test_a_known_browser_is_counted_by_itself(gateway: Gateway, person: Person) -> None:
    address = "127.252.0.1"
    known, outsider = Browser(gateway, address), Browser(gateway, address)
    signed_in(known, person)
    known.send("/owner/sign-out")
    outsider.open("/owner")
    statuses = [outsider.sign_in(person.login, "a wrong one").status_code for _ in range(6)]
    assert statuses == [403] * 5 + [429]
    assert GRANTS in known.sign_in(person.login).text
    # And an outsider who shows a known browser's cookie for another login gains nothing by it.
    known.send("/owner/sign-out")
    statuses = [known.sign_in("another login", "a wrong one").status_code for _ in range(6)]
    assert statuses == [403] * 5 + [429]
    known.client.close()
    outsider.client.close()


def test_browsers_known_by_an_old_password_are_outsiders_once_it_changes(
    store: Store, gateway: Gateway, person: Person
) -> None:
    """A thief of the password can collect any number of them, and would guess the next one with
    each."""
    thieves = [Browser(gateway, "127.251.0.1") for _ in range(2)]
    known = Browser(gateway, "127.251.0.2")
    for each in (*thieves, known):
        signed_in(each, person)
    new = "another password"
    store.do(lambda database: set_password(database, RUNTIME, person.login, new))
    statuses = []
    for each in thieves:
        each.open("/owner")
        statuses += [each.sign_in(person.login, "a guess").status_code for _ in range(5)]
    assert statuses == [403] * 5 + [429] * 5
    # The owner's browser is known again by the new password.
    known.open("/owner")
    assert GRANTS in known.sign_in(person.login, new).text
    known.send("/owner/sign-out")
    tried(store, person.login, ["127.251.0.2"], PAIR_MAX)
    assert GRANTS in known.sign_in(person.login, new).text
    for each in (*thieves, known):
        each.client.close()


def test_an_address_has_so_many_attempts_whatever_the_login(gateway: Gateway, store: Store) -> None:
    address = "127.253.0.1"
    for number in range(19):
        tried(store, f"unknown {number}", [address], 1)
    browser = Browser(gateway, address)
    browser.open("/owner")
    statuses = [browser.sign_in(login, "wrong").status_code for login in ("one", "two")]
    assert statuses == [403, 429]
    browser.client.close()


def test_workers_count_together(tmp_path: Path) -> None:
    store = Store(tmp_path / "tollway.db")
    person = new_person(store)
    served = Gateway(store, workers=2)
    browser = Browser(served)
    browser.open("/owner")
    fields = {**browser.hidden(), "login": person.login, "password": "a wrong password"}
    statuses = []
    for _ in range(GUESSES):
        # A connection of its own, so that either worker may have it.
        cookies = dict(browser.client.cookies)
        with httpx.Client(base_url=served.base_url, cookies=cookies, timeout=30) as client:
            statuses.append(client.post("/owner/sign-in", data=fields).status_code)
    assert statuses == [403] * 5 + [429] * (GUESSES - 5)
    browser.client.close()
    assert served.stop() == 0
    assert PASSWORD not in served.log()


@pytest.mark.sqlite
def test_a_proxy_says_who_comes_and_only_a_trusted_one(tmp_path: Path) -> None:
    store = Store(tmp_path / "tollway.db")
    person = new_person(store)
    served = Gateway(store, trusted_proxies="127.66.0.0/16, ::1")

    def guess(address: str, *forwarded_for: str, login: str = person.login) -> list[int]:
        browser = Browser(served, address)
        lines = [("X-Forwarded-For", each) for each in forwarded_for]
        browser.client.headers = httpx.Headers([*browser.client.headers.multi_items(), *lines])
        browser.open("/owner")
        found = [browser.sign_in(login, "wrong").status_code for _ in range(3)]
        browser.client.close()
        return found

    assert guess("127.66.0.1", "198.51.100.7") == [403] * 3
    assert guess("127.66.0.2", "203.0.113.9, 198.51.100.7, 127.66.3.3") == [403, 403, 429]
    # Some proxies add a line of their own to what the client has sent.
    other = new_person(store).login
    assert guess("127.66.0.1", "203.0.113.1", "198.51.100.6", login=other) == [403] * 3
    assert guess("127.66.0.1", "203.0.113.2", "198.51.100.6", login=other) == [403, 403, 429]
    # What an outsider says about itself is not believed.
    assert guess("127.67.0.1", "198.51.100.8") == [403] * 3
    assert guess("127.67.0.1", "198.51.100.9") == [403, 403, 429]
    # Who has one address of IPv6 has its whole network.
    assert guess("127.66.0.1", "2001:db8:0:1::1") == [403] * 3
    assert guess("127.66.0.1", "2001:db8:0:1:ffff::9") == [403, 403, 429]
    assert guess("127.66.0.1", "2001:db8:0:2::1") == [403] * 3
    assert served.stop() == 0

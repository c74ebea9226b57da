"""A new password of an owner, chosen by a link that works once."""

from concurrent.futures import ThreadPoolExecutor

from tests.support.browsers import Browser
from tests.support.consent import (
    Person,
    new_person,
    password_link,
)
from tests.support.gateway import Gateway
from tests.support.ledger import RUNTIME
from tests.support.stores import Store
from tollway.consent.links import PASSWORD_LINK_HOURS
from tollway.consent.owners import set_password
from tollway.identity.sign_in_limits import PAIR_MAX


def test_an_owner_chooses_a_new_password_by_a_link_that_works_once(
    gateway: Gateway, store: Store, person: Person, browser: Browser
) -> None:
    link, new = password_link(store, person.login), "another long password"
    browser.open("/owner")
    for _ in range(PAIR_MAX):
        browser.sign_in(person.login, "forgotten")
    assert browser.sign_in(person.login).status_code == 429
    assert person.login in browser.open(link).text
    assert browser.send("/owner/password", password="short", again="short").status_code == 400
    assert browser.send("/owner/password", password=new, again=f"{new}!").status_code == 400
    saved = browser.send("/owner/password", password=new, again=new)
    assert "Your new password is saved" in saved.text
    assert browser.sign_in(person.login).status_code == 403
    assert "Who may use your data" in browser.sign_in(person.login, new).text
    assert browser.open(link).status_code == 410


def test_a_new_password_link_ends_the_earlier_ones(
    store: Store, person: Person, browser: Browser
) -> None:
    first, other = password_link(store, person.login, age_s=60), new_person(store)
    of_other = password_link(store, other.login, age_s=60)
    second = password_link(store, person.login)
    assert browser.open(first).status_code == 410
    assert [browser.open(each).status_code for each in (second, of_other)] == [200, 200]


def test_of_those_who_use_a_password_link_at_once_one_succeeds(
    gateway: Gateway, store: Store, person: Person
) -> None:
    link = password_link(store, person.login)
    browsers = [Browser(gateway) for _ in range(4)]
    for each in browsers:
        each.open(link)

    def choose(number: int) -> bool:
        new = f"a long password {number}"
        return "is saved" in browsers[number].send("/owner/password", password=new, again=new).text

    with ThreadPoolExecutor(len(browsers)) as threads:
        assert sum(threads.map(choose, range(len(browsers)))) == 1
    for each in browsers:
        each.client.close()


def test_a_password_link_that_was_changed_or_is_old_does_nothing(
    gateway: Gateway, store: Store, person: Person, browser: Browser
) -> None:
    link = password_link(store, person.login)
    assert browser.open(f"{link[:-3]}abc").status_code == 410
    assert browser.open("/owner/password").status_code == 410
    hours = PASSWORD_LINK_HOURS
    assert browser.open(password_link(store, person.login, hours * 3600)).status_code == 410
    almost = password_link(store, person.login, hours * 3600 - 600)
    assert browser.open(almost).status_code == 200
    set_to = "a password set meanwhile"
    store.do(lambda database: set_password(database, RUNTIME, person.login, set_to))
    assert browser.open(almost).status_code == 410

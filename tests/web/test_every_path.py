"""Every path of the pages, by people of another account, another shop, or none: none of them sees
or changes what is not theirs, whatever ids they put in."""

import time
from unittest.mock import Mock

import pytest

from tests.support.browsers import Browser
from tests.support.consent import PASSWORD, new_person
from tests.support.gateway import Gateway
from tests.support.ledger import RUNTIME, new_caller
from tests.support.members import entered
from tests.support.stores import Store
from tests.web.test_access import MARK, Victim, form_token, new_victim, state_of
from tollway.consent.grants import GrantRequest, give_grant
from tollway.consent.owners import Owner, add_owner
from tollway.identity.people import MEMBER_ROLES, Role
from tollway.settings import Settings
from tollway.web.caller.pages import PAGES as CALLER_PAGES
from tollway.web.operator.pages import PAGES as OPERATOR_PAGES
from tollway.web.routes import PageDependencies, web_routes

# The same code decides on both engines, and test_access.py runs it on both.
pytestmark = pytest.mark.sqlite

AREAS = ("/owner", "/account", "/operator")
# Who signs out sends no more forms; a file is sent as no other form is.
SIGN_OUTS = tuple(f"{area}/sign-out" for area in AREAS)
TAKE_FILES = tuple(each.path for each in OPERATOR_PAGES if each.takes_file)
# What another might want to change of a shop.
OF_SHOP = (
    "name, login, password_hash FROM owner WHERE id",
    "id, expires_at_s, revoked_at_s FROM consent WHERE owner_id",
    "asked_at_s FROM receiver_erasure WHERE owner_id",
)


def paths() -> list[str]:
    """As the gateway declares them: a new page is one of them."""
    others = {name: Mock() for name in PageDependencies.__dataclass_fields__}
    parts = PageDependencies(**{**others, "settings": Settings(), "secret": b"secret"})
    declared = [route.path for route in web_routes(parts) if "{" not in route.path]
    assert {each.path for each in (*CALLER_PAGES, *OPERATOR_PAGES)} <= {*declared}
    return [each for each in declared if each not in (*SIGN_OUTS, *TAKE_FILES)]


class Shop:
    """A shop whose name has the mark, and its grant to the victim."""

    def __init__(self, store: Store, victim: Victim) -> None:
        self.id = str(time.time_ns())
        known = Owner("shop", self.id, MARK, None, f"login{self.id}", 0)
        asked = GrantRequest(victim.caller.account_id, "shop", self.id, "orders")
        store.do(lambda database: add_owner(database, RUNTIME, known, PASSWORD))
        self.grant = store.do(
            lambda database: give_grant(
                database, RUNTIME, asked, lifetime_s=None, granted_by="owner"
            )
        )

    def state(self, store: Store) -> list[list[tuple[object, ...]]]:
        return [store.run(f"SELECT {each} = '{self.id}'") for each in OF_SHOP]


def signed_in(gateway: Gateway, store: Store, who: str) -> tuple[Browser, str]:
    """The browser of someone, and the area that they are signed in to."""
    browser = Browser(gateway)
    if who in MEMBER_ROLES:
        return entered(store, browser, new_caller(store), Role(who)), "/account"
    browser.open("/owner")
    if who == "shop":
        browser.sign_in(new_person(store).login)
        return browser, "/owner"
    return browser, ""


@pytest.mark.parametrize("who", [*MEMBER_ROLES, "shop", "visitor"])
def test_no_path_shows_or_changes_what_is_anothers(
    gateway: Gateway, store: Store, question: dict[str, str], who: str
) -> None:
    victim = new_victim(gateway, store, question)
    shop = Shop(store, victim)
    browser, own = signed_in(gateway, store, who)
    before = state_of(store, victim), shop.state(store)
    values = {**victim.values(), "kind": "shop", "shop": shop.id, "consent": shop.grant.id}
    values |= {"grant": shop.grant.id, "typed": shop.id, "person": victim.member.id}
    values |= {"client": "1", "owner": shop.id, "back": "/owner", "q": shop.id, "lines": ""}
    tokens = {area: form_token(browser, area) for area in AREAS}
    for path in paths():
        area = next((each for each in AREAS if path.startswith(each)), "/owner")
        sent = {**values, "form_token": tokens[area]}
        for answer in (
            browser.client.get(path, params=values),
            browser.client.post(path, data=sent),
        ):
            assert MARK not in answer.text, path
            assert answer.status_code < 500, path
    assert (state_of(store, victim), shop.state(store)) == before
    # Until the end it was one who is signed in and may send these forms.
    assert not own or form_token(browser, own) == tokens[own]
    browser.client.close()

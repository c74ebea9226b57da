"""What members see of an account that is closed, and what those see who may change nothing."""

import pytest

from tests.support.browsers import Browser
from tests.support.gateway import Gateway
from tests.support.ledger import RUNTIME, Caller, new_caller
from tests.support.members import entered
from tests.support.stores import Store
from tollway.identity.people import Role
from tollway.ledger.accounts import close_account, suspend_account
from tollway.ledger.tokens import revoke_token
from tollway.webhooks.polled_events import list_alerts, set_alert

CLOSED, SUSPENDED = "This account is closed", "This account is suspended"


@pytest.fixture
def reader(store: Store, browser: Browser, caller: Caller) -> Browser:
    return entered(store, browser, caller, Role.READER)


def test_a_closed_account_offers_its_members_nothing_that_is_refused(
    store: Store, browser: Browser, caller: Caller, gateway: Gateway, question: dict[str, str]
) -> None:
    member = entered(store, browser, caller)
    assert gateway.get(token=caller.token, query=question).code == 0
    unit = "calls:product_analysis"
    store.do(lambda database: set_alert(database, caller.account_id, unit, 1000, 0, RUNTIME))
    shown = member.open("/account").text
    assert "may call" in shown and "lasts " in shown and "below your alert" in shown
    for path, act in (("tokens", "Issue token"), ("members", "Invite a"), ("shops", "Ask a shop")):
        page = member.open(f"/account/{path}").text
        assert act in page and CLOSED not in page
    store.do(lambda database: close_account(database, RUNTIME, caller.account_id))
    home = member.open("/account").text
    for gone in ("may call", "lasts until", "lasts for years", "below your alert"):
        assert gone not in home
    assert CLOSED in home and ">closed<" in home
    tokens = member.open("/account/tokens").text
    for gone in (">active<", "Rotate", "Revoke", "Issue token"):
        assert gone not in tokens
    assert CLOSED in tokens and ">closed<" in tokens
    for path, act in (("members", "Invite a"), ("shops", "Ask a shop")):
        page = member.open(f"/account/{path}").text
        assert CLOSED in page and act not in page and "below" not in page
    for path in ("try", "analysis"):
        page = member.open(f"/account/{path}").text
        assert CLOSED in page and '<button class="act"' not in page


def test_members_of_a_suspended_account_see_that_it_is_and_can_still_manage_it(
    store: Store, browser: Browser, caller: Caller
) -> None:
    member = entered(store, browser, caller)
    store.do(lambda database: suspend_account(database, RUNTIME, caller.account_id))
    for path, act in (("", "Ledger"), ("/tokens", "Issue token"), ("/members", "Invite a")):
        page = member.open(f"/account{path}").text
        assert SUSPENDED in page and act in page


def test_a_form_that_was_open_when_the_account_was_closed_sets_no_alert(
    store: Store, browser: Browser, caller: Caller
) -> None:
    member = entered(store, browser, caller)
    member.open("/account")
    store.do(lambda database: close_account(database, RUNTIME, caller.account_id))
    refused = member.send("/account/alert", unit="credits", below="5")
    assert refused.status_code == 409 and CLOSED in refused.text
    assert not store.do(lambda database: list_alerts(database, caller.account_id))


def test_a_reader_is_shown_no_act_that_is_refused(
    store: Store, reader: Browser, caller: Caller
) -> None:
    tokens = reader.open("/account/tokens").text
    assert ">active<" in tokens and "Revoke" not in tokens and "Rotate" not in tokens
    store.do(lambda database: revoke_token(database, RUNTIME, caller.token_id))
    home = reader.open("/account").text
    assert "Issue a token" not in home and "Begin with a token" not in home
    assert "Your first call" not in reader.open("/account/requests").text
    shops = reader.open("/account/shops").text
    assert "No shop has authorized this account yet." in shops and "below" not in shops


def test_a_reader_of_an_account_without_tokens_is_not_sent_to_a_form(
    store: Store, browser: Browser
) -> None:
    caller = new_caller(store)
    store.run(f"DELETE FROM token WHERE id = '{caller.token_id}'")
    page = entered(store, browser, caller, Role.READER).open("/account/tokens").text
    assert "There is no token yet." in page and "below" not in page

"""Forms of an operator: forged, sent twice or too late, and what they answer."""

import re
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.browsers import Browser
from tests.support.ledger import RUNTIME, Caller
from tests.support.stores import Store
from tests.support.waybills import new_carrier
from tollway.ledger.accounts import open_account
from tollway.operations.product_analysis.operation import PRODUCT_ANALYSIS


def test_pages_without_a_session_or_with_a_forged_form_change_nothing(
    browser: Browser, operator: Browser, store: Store
) -> None:
    account = store.do(lambda db: open_account(db, RUNTIME, f"safe {time.time_ns()}"))
    forged = {"account": account.id, "sure": "yes", "form_token": "0" * 64}
    assert operator.client.post("/operator/account/close", data=forged).status_code == 403
    operator.open(f"/operator/account?id={account.id}")
    fields = operator.hidden()
    operator.client.cookies.clear()
    operator.client.post("/operator/account/close", data={**fields, "sure": "yes"})
    row = store.run(f"SELECT closed_at_s FROM account WHERE id = '{account.id}'")
    assert row[0][0] is None


def test_a_top_up_that_is_confirmed_twice_is_entered_once(
    operator: Browser, store: Store, caller: Caller
) -> None:
    operator.open(f"/operator/account?id={caller.account_id}")
    fields = {"account": caller.account_id, "unit": "credits", "amount": "7", "note": "invoice"}
    operator.send("/operator/account/top-up", **fields)
    confirmed = operator.hidden()
    with ThreadPoolExecutor(4) as threads:
        answers = list(
            threads.map(
                lambda _: operator.client.post("/operator/account/top-up", data=confirmed).text,
                range(4),
            )
        )
    assert sum("This was entered already" in each for each in answers) == 3
    amounts = store.run(
        "SELECT amount FROM entry WHERE unit = 'credits' AND kind = 'top_up' "
        f"AND account_id = '{caller.account_id}' AND note = 'invoice'"
    )
    assert [row[0] for row in amounts] == [7]


def test_a_form_that_is_sent_after_the_session_ended_says_that_nothing_was_done(
    operator: Browser, caller: Caller
) -> None:
    path = f"/operator/account?id={caller.account_id}"
    operator.open(path)
    fields = operator.hidden()
    operator.client.cookies.clear()
    answer = operator.client.post("/operator/account/invite", data=fields)
    assert answer.status_code == 403 and "nothing was done" in answer.text
    # Signing in leads back to the page of the form.
    assert f'name="link" value="{path}"' in answer.text


def test_an_answer_to_a_form_has_no_switches_that_would_lose_it(
    operator: Browser, caller: Caller
) -> None:
    path = f"/operator/account?id={caller.account_id}"
    assert 'name="language"' in operator.open(path).text
    made = operator.send("/operator/account/token", account=caller.account_id)
    assert "The new token" in made.text and 'name="language"' not in made.text


def test_what_is_sent_from_the_page_of_a_new_shop_comes_back_to_it(operator: Browser) -> None:
    shop = str(time.time_ns())
    operator.open("/operator/shops")
    operator.send(
        "/operator/shop/add", kind="shop", id=shop, name="New", login=f"new{shop}", shop_code=""
    )
    refused = operator.send("/operator/shop/consent", account="none-has-this", scope="orders")
    assert refused.status_code >= 400
    assert 'value="none-has-this"' in refused.text and shop in refused.text


def test_numbers_are_loaded_only_for_a_shop_that_exists(operator: Browser, store: Store) -> None:
    carrier = new_carrier(store, 0)
    operator.open("/operator/carriers")
    refused = operator.send(
        "/operator/carriers/numbers", carrier=carrier, shop="7", numbers="YT0000000000001"
    )
    assert refused.status_code == 409 and "YT0000000000001" in refused.text


@pytest.mark.parametrize(
    ("page", "field", "act"),
    [
        ("/operator/carriers", "numbers", "/operator/carriers/numbers"),
        ("/operator/data", "shops", "/operator/data/source/add"),
        ("/operator/data", "channels", "/operator/data/source/add"),
    ],
)
def test_a_pasted_list_that_is_too_long_is_refused_and_not_cut(
    operator: Browser, store: Store, page: str, field: str, act: str
) -> None:
    """A browser cuts what is pasted to the length of its field, in the middle of a number, and says
    nothing."""
    carrier = new_carrier(store, 0)
    shown = operator.open(page).text
    found = re.search(rf'name="{field}"[^>]* maxlength="(\d+)"', shown)
    assert found is not None
    number = "YT0000000000001 "
    pasted = (number * (int(found[1]) // len(number) + 1))[: int(found[1])]
    answer = operator.send(act, carrier=carrier, name="pasted", **{field: pasted})
    assert answer.status_code == 413 and "This form is too large" in answer.text


def test_a_long_record_in_chinese_can_be_sent(operator: Browser) -> None:
    operator.open("/operator/data")
    answer = operator.send("/operator/data/correct", id="none", record="汉" * 12_000)
    assert answer.status_code != 413


def test_only_a_question_about_what_is_taken_away_is_a_warning(
    operator: Browser, caller: Caller
) -> None:
    unit = PRODUCT_ANALYSIS.balance_unit
    fields = {"account": caller.account_id, "unit": unit, "note": "invoice 7"}
    operator.open(f"/operator/account?id={caller.account_id}")
    page = operator.send("/operator/account/top-up", amount="5", **fields).text
    assert "Please confirm" in page and "Reason: invoice 7" in page
    operator.open(f"/operator/account?id={caller.account_id}")
    page = operator.send("/operator/account/top-up", amount="-5", **fields).text
    assert "Are you sure?" in page

"""A product analysis that a member asks for on a page: paid for once, and shown again."""

import html
import re
from datetime import date, datetime, timedelta
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from tests.support.browsers import Browser
from tests.support.gateway import Gateway
from tests.support.ledger import RUNTIME, Caller, calls_left, new_caller
from tests.support.members import entered
from tests.support.stores import Store
from tollway.identity.people import Role
from tollway.ledger.clients import sweep_client_tokens
from tollway.ledger.permissions import Permission, add_permission
from tollway.ledger.tokens import PAGES, Token, list_tokens
from tollway.operations.product_analysis.demo import fill_figures
from tollway.web.caller.analysis import ANALYSIS


def test_an_analysis_is_paid_for_once_and_shown_again(
    member: Browser, store: Store, caller: Caller, question: dict[str, str]
) -> None:
    asked = {"product": question["product_id"], "day": question["query_date"]}
    before = calls_left(store, caller)
    offer = member.open(f"/account/analysis?{urlencode(asked)}").text
    assert "costs 1 call if it succeeds" in offer and calls_left(store, caller) == before
    shown = member.send("/account/analysis/pay")
    assert shown.url.path == "/account/analysis" and "Traffic sources" in shown.text
    for _ in range(2):
        assert "Keywords" in member.open(str(shown.url)).text
    assert calls_left(store, caller) == before - 1
    assert asked["product"] in member.open("/account/analysis").text
    # The first day is paid for: only the second is in the price.
    other = (date.fromisoformat(asked["day"]) - timedelta(days=7)).isoformat()
    member.open(f"{shown.url}&other={other}")
    both = member.send("/account/analysis/pay").text
    assert f"to {other}" in both and calls_left(store, caller) == before - 2
    # Today is not over.
    assert f"{asked['day']}: counted until it was asked for, not for the whole day" in both
    assert f"against all of {other}" in both
    member.client.headers["accept-language"] = "zh"
    said = f"{asked['day']}：数值截至查询时，并非全天"
    both = urlencode({**asked, "other": other, "data": "sandbox"})
    assert said in member.open(f"/account/analysis?{both}").text


def test_a_reader_learns_who_can_pay_for_an_analysis(
    browser: Browser, store: Store, caller: Caller, question: dict[str, str]
) -> None:
    reader = entered(store, browser, caller, Role.READER)
    asked = {"product": question["product_id"], "day": question["query_date"]}
    offer = reader.open(f"/account/analysis?{urlencode(asked)}").text
    assert "Your role pays for nothing: a developer or an owner of the account can." in offer
    assert "/account/analysis/pay" not in offer
    # Nothing is charged for the sandbox.
    free = reader.open(f"/account/analysis?{urlencode(asked)}&data=sandbox").text
    assert "Your role pays for nothing" not in free


def test_an_analysis_whose_price_rose_is_asked_about_again(
    member: Browser, store: Store, caller: Caller, question: dict[str, str]
) -> None:
    before = calls_left(store, caller)
    member.open(f"/account/analysis?product={question['product_id']}&day={question['query_date']}")
    higher = Permission("product_analysis", 3, None)
    store.do(lambda database: add_permission(database, caller.account_id, higher))
    again = member.send("/account/analysis/pay").text
    assert "The price has risen since it was shown." in again and "Ask for 3 calls" in again
    assert calls_left(store, caller) == before
    assert "Traffic sources" in member.send("/account/analysis/pay").text


def test_an_analysis_of_today_is_shown_again_after_midnight(
    own_store: Store, question: dict[str, str], today: date
) -> None:
    eve = today - timedelta(days=1)
    own_store.do(lambda database: fill_figures(database, products=1, days=2, last=eve))
    # In two zones that never have the same date: what was paid for today in the first was paid for
    # before midnight in the second.
    west, east = "Etc/GMT+12", "Etc/GMT-14"
    caller, gateway = new_caller(own_store), Gateway(own_store, timezone=west)
    member = entered(own_store, Browser(gateway), caller)
    day = datetime.now(ZoneInfo(west)).date().isoformat()
    member.open(f"/account/analysis?product={question['product_id']}&day={day}")
    shown = member.send("/account/analysis/pay")
    assert "Traffic sources" in shown.text and "asked=" in str(shown.url)
    member.client.close()
    assert gateway.stop() == 0
    before, gateway = calls_left(own_store, caller), Gateway(own_store, timezone=east)
    member = entered(own_store, Browser(gateway), caller)
    link = re.search(r"/account/analysis\?product=[^\"]+asked=\d{4}", member.open(ANALYSIS).text)
    assert link is not None
    assert "Traffic sources" in member.open(html.unescape(link[0])).text
    # The whole day is another answer, with a price of its own.
    whole = member.open(f"/account/analysis?product={question['product_id']}&day={day}").text
    assert "costs 1 call if it succeeds" in whole
    assert calls_left(own_store, caller) == before
    member.client.close()
    assert gateway.stop() == 0


def test_the_token_of_pages_is_for_its_operation_and_is_removed_after_its_end(
    member: Browser, store: Store, caller: Caller, gateway: Gateway, question: dict[str, str]
) -> None:
    asked = f"/account/analysis?product={question['product_id']}&day={question['query_date']}"
    member.open(asked)
    assert member.send("/account/analysis/pay").status_code == 200
    assert member.open(f"{asked}&data=sandbox").status_code == 200

    def of_pages() -> list[Token]:
        tokens = store.do(lambda database: list_tokens(database, caller.account_id))
        return [each for each in tokens if each.client_id == PAGES]

    assert {each.kind for each in of_pages()} == {"live", "test"}
    for each in of_pages():
        assert each.limits.operations == ["product_analysis"]
        # It is none of those that the account manages.
        assert each.id not in str(gateway.get("/account/v1/tokens", token=caller.token).data)
        for change in ("revoke", "rotate"):
            path = f"/account/v1/tokens/{change}"
            refused = gateway.post_form(path, {"token_id": each.id}, token=caller.token)
            assert refused.headers["x-tollway-reason"] == "ITEM_UNKNOWN"
            member.open("/account/tokens")
            named = {"token": each.id, "sure": "yes", "hours": "24"}
            assert member.send(f"/account/tokens/{change}", **named).status_code == 404
    store.run(
        "UPDATE token SET expires_at_s = 1 "
        f"WHERE label = 'pages' AND account_id = '{caller.account_id}'"
    )
    store.do(lambda database: sweep_client_tokens(database, RUNTIME.at_s()))
    assert of_pages() == []


def test_a_key_from_outside_is_no_key_of_a_page(
    member: Browser, caller: Caller, gateway: Gateway, question: dict[str, str]
) -> None:
    for key in ("pages:product_analysis:x", "product_analysis:x"):
        headers = {"Idempotency-Key": key}
        assert gateway.get(token=caller.token, query=question, headers=headers).code == 0
    shown = member.open("/account/analysis")
    assert shown.status_code == 200 and "Nothing was asked for" in shown.text


def test_an_analysis_of_the_sandbox_and_a_refused_one_cost_nothing(
    member: Browser, store: Store, caller: Caller
) -> None:
    before = calls_left(store, caller)
    sample = re.search(
        r"/account/analysis\?product=[^\"]+sandbox", member.open("/account/analysis").text
    )
    assert sample is not None
    page = member.open(html.unescape(sample[0])).text
    assert "nothing was charged" in page and "Search terms" in page
    member.open("/account/analysis?product=unknown&day=2026-01-31")
    refused = member.send("/account/analysis/pay")
    assert refused.status_code == 409 and "100: Parameter product_id" in refused.text
    assert member.open("/account/analysis?product=1&day=soon").status_code == 400
    assert calls_left(store, caller) == before

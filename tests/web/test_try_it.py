"""Operations tried from a member's page: in the sandbox, and live with the price shown first."""

import html
import re
from collections.abc import Callable
from datetime import date
from urllib.parse import urlencode

import msgspec
import pytest

from tests.support.browsers import Browser
from tests.support.changes import assert_seen
from tests.support.gateway import Gateway
from tests.support.ledger import Caller, calls_left, credits_left, new_caller
from tests.support.members import entered
from tests.support.remote import eventually
from tests.support.stores import Store
from tests.support.waybills import PRICE, new_carrier, new_customer, request
from tollway.identity.people import Role
from tollway.ledger.permissions import Permission, add_permission
from tollway.operations.account_api.examples import ALL_EXAMPLES
from tollway.operations.catalogue import ALL_OPERATIONS, OPERATIONS

_NAMES = [each.name for each in ALL_OPERATIONS if not each.is_file]

Sender = Callable[..., str]


@pytest.fixture
def caller(store: Store) -> Caller:
    return new_caller(store, operations=OPERATIONS, rate_limit=1000)


@pytest.fixture
def member(store: Store, browser: Browser, caller: Caller) -> Browser:
    return entered(store, browser, caller)


@pytest.fixture
def sent(member: Browser, today: date) -> Sender:
    """Sends the form, with the example where no field is given; returns the page after it."""

    def send(name: str, **fields: str) -> str:
        member.open(f"/account/try?{urlencode({'operation': name})}")
        example = {
            field: value if isinstance(value, str | int) else msgspec.json.encode(value).decode()
            for field, value in ALL_EXAMPLES[name].request(today).items()
        }
        return member.send("/account/try/send", **{**example, **fields}).text

    return send


def _receipt(member: Browser) -> str:
    found = re.search(r'href="(/account/request[^"]*)">Receipt</a>', member.page)
    assert found is not None, member.page
    return html.unescape(found[1])


@pytest.mark.parametrize("name", _NAMES)
def test_every_operation_is_tried_in_the_sandbox(member: Browser, sent: Sender, name: str) -> None:
    assert "It succeeded in the sandbox" in sent(name), member.page
    # The same call for programs, and what the form was sent with.
    assert "curl -s -H" in member.page and "tw_test_…" in member.page
    assert all(f"<h3>{each}</h3>" in member.page for each in ("curl", "Python", "JavaScript"))
    receipt = _receipt(member)
    # It is written in the background.
    eventually(lambda: member.open(receipt).status_code, lambda status: status != 404)
    assert "The stages of this call" in member.page


def test_a_live_call_shows_its_price_first_and_is_charged_once(
    member: Browser, sent: Sender, store: Store, caller: Caller, question: dict[str, str]
) -> None:
    before = calls_left(store, caller)
    live = {**question, "try_data": "live"}
    asked = sent("product_analysis", **live)
    assert "costs 1 call if it succeeds. The balance is 100 calls." in asked
    assert "Send for 1 call" in asked and calls_left(store, caller) == before
    fields = member.hidden()
    for _ in range(2):
        shown = member.send("/account/try/send", **fields).text
        assert "It succeeded and cost 1 call." in shown and "tw_live_…" in shown
    assert calls_left(store, caller) == before - 1
    assert "100 → 99" in member.open(_receipt(member)).text


def test_going_back_from_the_price_keeps_what_was_typed(
    member: Browser, sent: Sender, store: Store, caller: Caller, question: dict[str, str]
) -> None:
    before = calls_left(store, caller)
    typed = {"product_id": f" {question['product_id']}", "query_date": question["query_date"]}
    asked = sent("product_analysis", **typed, try_data="live")
    back = re.search(r'<button formaction="([^"]+)">Go back</button>', asked)
    assert back is not None and back[1] == "/account/try?operation=product_analysis"
    page = member.send(back[1]).text
    for value in question.values():
        assert f'value="{value}"' in page
    assert '<option value="live" selected>' in page and "Send for" not in page
    assert calls_left(store, caller) == before
    # From there it is sent as from the first form.
    assert "Send for 1 call" in member.send("/account/try/send", **question, try_data="live").text
    assert "It succeeded and cost 1 call." in member.send("/account/try/send").text


def test_a_live_call_is_one_row_of_the_log(
    member: Browser, sent: Sender, gateway: Gateway, caller: Caller, question: dict[str, str]
) -> None:
    sent("product_analysis", **question, try_data="live")
    fields = member.hidden()
    for _ in range(2):
        assert "It succeeded and cost 1 call." in member.send("/account/try/send", **fields).text
    # A refused one is her call too; it is written after those before it.
    sent("product_analysis", **{**question, "product_id": "", "try_data": "live"})
    eventually(lambda: member.open("/account/requests").text, lambda page: "100 PARAMETER" in page)
    assert member.page.count('href="/account/request?id=') == 2, member.page
    assert "DRY_RUN" not in member.page
    # That of a program is its own act.
    gateway.get(token=caller.token, query=question, headers={"X-Tollway-Dry-Run": "1"})
    eventually(lambda: member.open("/account/requests").text, lambda page: "0 DRY_<wbr>RUN" in page)


def test_a_waybill_that_an_order_has_already_is_not_said_to_cost_anything(
    browser: Browser, store: Store
) -> None:
    customer, wp_code = new_customer(store), new_carrier(store, 1)
    member = entered(store, browser, customer)
    fields = {**request(wp_code), "try_data": "live"}
    for said in (f"It succeeded and cost {PRICE} credits.", "An earlier call has paid for it."):
        member.open("/account/try?operation=waybills")
        member.send("/account/try/send", **fields)
        assert said in member.send("/account/try/send").text
    assert credits_left(store, customer) == 10_000 - PRICE


def test_an_answer_that_is_shown_again_is_recorded_if_its_owner_sees_it(
    browser: Browser, store: Store
) -> None:
    customer, wp_code = new_customer(store), new_carrier(store, 1)
    member = entered(store, browser, customer)
    member.open("/account/try?operation=waybills")
    member.send("/account/try/send", **request(wp_code), try_data="live")
    fields = member.hidden()
    for _ in range(2):
        assert "It succeeded" in member.send("/account/try/send", **fields).text
    page = eventually(
        lambda: member.open("/account/requests?shop=880012001").text,
        lambda page: "0 REPLAYED" in page,
    )
    receipts = set(re.findall(r'href="(/account/request\?id=[0-9a-f]+)"', page))
    assert len(receipts) == 2
    for path in receipts:
        assert member.open(path).status_code == 200


def raise_price(store: Store, gateway: Gateway, caller: Caller, query: dict[str, str]) -> None:
    """To three calls, also for the gateway."""
    higher = Permission("product_analysis", 3, 1000)
    store.do(lambda database: add_permission(database, caller.account_id, higher))
    dry = {"X-Tollway-Dry-Run": "1"}
    assert_seen(
        store, lambda: gateway.get(token=caller.token, query=query, headers=dry).data["cost"], 3
    )


def test_a_price_that_rose_since_it_was_shown_is_asked_about_again(
    member: Browser,
    sent: Sender,
    store: Store,
    caller: Caller,
    gateway: Gateway,
    question: dict[str, str],
) -> None:
    before = calls_left(store, caller)
    assert "Send for 1 call" in sent("product_analysis", **question, try_data="live")
    raise_price(store, gateway, caller, question)
    again = member.send("/account/try/send").text
    assert "The price has risen since it was shown." in again and "Send for 3 calls" in again
    assert calls_left(store, caller) == before
    assert "It succeeded and cost 3 calls." in member.send("/account/try/send").text
    assert calls_left(store, caller) == before - 3


def test_what_was_paid_is_shown_again_whatever_it_costs_now(
    member: Browser,
    sent: Sender,
    store: Store,
    caller: Caller,
    gateway: Gateway,
    question: dict[str, str],
) -> None:
    before = calls_left(store, caller)
    sent("product_analysis", **question, try_data="live")
    fields = member.hidden()
    assert "It succeeded and cost 1 call." in member.send("/account/try/send", **fields).text
    raise_price(store, gateway, caller, question)
    assert "It succeeded and cost 1 call." in member.send("/account/try/send", **fields).text
    assert calls_left(store, caller) == before - 1


def test_a_live_call_is_never_sent_without_its_question(
    sent: Sender, store: Store, caller: Caller, question: dict[str, str]
) -> None:
    before = calls_left(store, caller)
    for key in ("", "x", "\n" * 32, "ä" * 32):
        live = {**question, "try_data": "live", "sure": "yes", "try_key": key}
        assert "Please confirm" in sent("product_analysis", **live)
    assert calls_left(store, caller) == before


def test_what_is_wrong_is_said_and_costs_nothing(
    member: Browser, sent: Sender, store: Store, caller: Caller, question: dict[str, str]
) -> None:
    before = calls_left(store, caller)
    page = sent("product_analysis", **{**question, "product_id": "", "try_data": "live"})
    assert "100: " in page and "Are you sure?" not in page
    page = sent("orders_by_number", order_sn="[not JSON")
    assert "This is not JSON: Check the field order_sn." in page and "[not JSON" in page
    page = sent("orders_by_number", order_sn="[" * 3000)
    assert "This is not JSON: Check the field order_sn." in page
    # What comes back would be a page of megabytes, and the loop would wait for it.
    page = sent("orders_by_number", order_sn="[" + '"",' * 3000 + '""]')
    assert "This is too long: order_sn can have 9,000 characters at most." in page
    page = sent("orders", remark="<" * 30_000)
    assert "This is too long: remark can have 300 characters at most." in page
    page = sent("orders", try_outcome="THROTTLED")
    assert "202: " in page and 'value="THROTTLED"' in page
    assert "There is no such outcome" in sent("orders", try_outcome="无")
    assert member.open("/account/try?operation=no_such").status_code == 404
    assert calls_left(store, caller) == before


@pytest.mark.parametrize("typed", ["abc", "1.5", "-", "٣", "9" * 30])
def test_a_page_size_that_is_no_number_is_answered_as_such(sent: Sender, typed: str) -> None:
    shown = sent("orders", pageSize=typed)
    assert "100: Parameter pageSize is not valid" in shown, shown
    assert f'value="{typed}"' in shown and "curl -s -H" in shown


def test_a_reader_sees_the_code_and_sends_nothing(
    store: Store, browser: Browser, caller: Caller
) -> None:
    reader = entered(store, browser, caller, Role.READER)
    shown = reader.open("/account/try?operation=orders").text
    assert "curl -s -H" in shown and 'action="/account/try/send"' not in shown
    refused = reader.send("/account/try/send", try_operation="orders")
    assert refused.status_code == 403


def test_it_is_in_chinese_too(member: Browser, sent: Sender) -> None:
    member.client.headers["accept-language"] = "zh-CN"
    assert "沙箱调用成功，未扣费。" in sent("orders")


def test_the_link_of_an_answer_302_can_be_followed(sent: Sender, member: Browser) -> None:
    sent("orders", owner_id="880012002")
    link = re.search(r'<a href="([^"]+/authorize\?link=[^"]+)">', member.page)
    assert link is not None and link[1] in member.page.partition("<pre")[2]
    sent("orders")
    assert "/authorize?link=" not in member.page

"""A waybill whose carrier does not say what became of it, decided by an operator on its page."""

import html
import json
import re
import time
from typing import Any

import pytest

from tests.support.browsers import Browser
from tests.support.fake_carrier import ISSUE, LOOK_UP, FakeCarrier
from tests.support.gateway import Gateway
from tests.support.ledger import Caller
from tests.support.remote import PATIENT, LedgerState, age_pending, connected_carrier, ledger_of
from tests.support.stores import Store
from tests.support.waybills import PRICE, issue, new_carrier, new_customer, request

_DECIDE = "/operator/waybill/decide"
_KEPT = "/operator/waybill/receiver-kept"
_CREDITS = 100
# Of no pool, and of no other test.
_NUMBER = "YT7700000000001"


@pytest.fixture
def carrier(carrier: FakeCarrier) -> FakeCarrier:
    carrier.misbehave("cut_before_commit", message=ISSUE)
    carrier.misbehave("refuse", message=LOOK_UP)
    return carrier


@pytest.fixture
def customer(store: Store) -> Caller:
    return new_customer(store, credits_=_CREDITS)


def _left_pending(
    gateway: Gateway, store: Store, carrier: FakeCarrier, customer: Caller
) -> dict[str, Any]:
    """The request for a waybill that its carrier says nothing about."""
    body = request(connected_carrier(store, carrier, **PATIENT))
    assert issue(gateway, customer.token, body).code == 101
    return body


def _page_of(operator: Browser, body: dict[str, Any]) -> str:
    """Where the list of waybills leads for this order."""
    listed = operator.open(f"/operator/waybills?number={body['order_sn']}").text
    found = re.search(r'href="(/operator/waybill\?id=[^"]+)"', listed)
    assert found is not None, listed
    return html.unescape(found[1])


def _trail(store: Store, customer: Caller) -> list[tuple[str, Any]]:
    rows = store.run(
        'SELECT act, "after" FROM operator_act '
        f"WHERE subject = 'account {customer.account_id}' AND act = 'waybill decide'"
    )
    return [(act, json.loads(after)) for act, after in rows]


def _text(page: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


def test_a_waybill_is_settled_with_its_number_and_what_is_held_is_charged(
    operator: Browser, gateway: Gateway, store: Store, carrier: FakeCarrier, customer: Caller
) -> None:
    body = _left_pending(gateway, store, carrier, customer)
    age_pending(store)
    path = _page_of(operator, body)
    page = _text(operator.open(path).text)
    assert "does not say what became of this order" in page
    # What each decision does to the money, before one is made.
    assert "10 credits, is charged" in page and "10 credits, goes back" in page
    asked = operator.send(_DECIDE, outcome="issued", number=_NUMBER, came_from=path)
    said = _text(asked.text)
    assert "Are you sure?" in said and _NUMBER in said and body["order_sn"] in said
    assert "has: 90 credits → 90 credits Held: 10 credits → 0 credits" in said
    held = ledger_of(store, customer)
    assert (held.available, held.held, held.posted) == (90, PRICE, 0)
    done = operator.send(_DECIDE)
    assert _NUMBER in done.text and "What was held is charged" in _text(done.text)
    assert ledger_of(store, customer) == LedgerState(
        90, 0, PRICE, ["top_up", "hold", "release", "charge"]
    )
    assert _trail(store, customer) == [("waybill decide", {"number": _NUMBER})]
    # The caller gets its waybill, and pays nothing for asking again.
    again = issue(gateway, customer.token, body)
    assert (again.data["waybillCode"], again.data["withholding_money"]) == (_NUMBER, 0)
    assert _DECIDE not in operator.open(path).text


def test_a_waybill_is_given_up_and_what_is_held_goes_back(
    operator: Browser, gateway: Gateway, store: Store, carrier: FakeCarrier, customer: Caller
) -> None:
    body = _left_pending(gateway, store, carrier, customer)
    age_pending(store)
    path = _page_of(operator, body)
    operator.open(path)
    said = _text(operator.send(_DECIDE, outcome="not_issued", came_from=path).text)
    assert "Are you sure?" in said and body["order_sn"] in said
    assert "has: 90 credits → 100 credits Held: 10 credits → 0 credits" in said
    done = _text(operator.send(_DECIDE).text)
    assert "What was held is given back" in done and "refused" in done
    assert ledger_of(store, customer) == LedgerState(100, 0, 0, ["top_up", "hold", "release"])
    assert _trail(store, customer) == [("waybill decide", {"number": None})]
    assert _DECIDE not in operator.open(path).text


def test_what_cannot_be_decided_is_refused_without_a_question(
    operator: Browser, gateway: Gateway, store: Store, carrier: FakeCarrier, customer: Caller
) -> None:
    body = _left_pending(gateway, store, carrier, customer)
    path = _page_of(operator, body)
    early = operator.open(path).text
    assert _DECIDE not in early and "you can decide it here" in early
    age_pending(store)
    operator.open(path)
    for fields, said in (
        ({"outcome": "issued", "number": "ABC"}, "is no number of carrier"),
        ({"outcome": "issued", "number": ""}, "A number is missing"),
        ({"outcome": ""}, "There is no such decision"),
    ):
        refused = operator.send(_DECIDE, came_from=path, **fields)
        assert refused.status_code in (400, 409) and said in refused.text, said
        assert "Are you sure?" not in refused.text
    # As if it had been asked for again a moment ago: its message may still arrive.
    age_pending(store, -86_400)
    refused = operator.send(_DECIDE, outcome="not_issued", came_from=path)
    assert refused.status_code == 409 and "may still arrive" in refused.text
    assert ledger_of(store, customer).held == PRICE
    assert _trail(store, customer) == []


def test_what_was_settled_after_the_question_is_not_decided_again(
    operator: Browser, gateway: Gateway, store: Store, carrier: FakeCarrier, customer: Caller
) -> None:
    body = _left_pending(gateway, store, carrier, customer)
    age_pending(store)
    path = _page_of(operator, body)
    operator.open(path)
    operator.send(_DECIDE, outcome="issued", number=_NUMBER[:-1] + "2", came_from=path)
    question = operator.hidden()
    operator.open(path)
    operator.send(_DECIDE, outcome="not_issued", came_from=path)
    operator.send(_DECIDE)
    late = operator.send(_DECIDE, **question)
    assert late.status_code == 409 and "waits for its carrier" in late.text
    assert ledger_of(store, customer).kinds == ["top_up", "hold", "release"]


def test_an_overdue_hold_leads_to_the_page_that_decides_it(
    operator: Browser, gateway: Gateway, store: Store, carrier: FakeCarrier, customer: Caller
) -> None:
    body = _left_pending(gateway, store, carrier, customer)
    age_pending(store)
    path = html.escape(_page_of(operator, body))
    page = operator.open("/operator/waybills").text
    held = page.split("Held until a carrier answers")[1].split("</table>", maxsplit=1)[0]
    (row,) = (each for each in held.split("<tr>") if customer.account_id in each)
    assert path in row and "Decide" in row and "overdue" in row
    # From the alarm and from the receipt it is one click too.
    assert 'href="/operator/waybills"' in operator.open("/operator").text
    request_id = re.search(r"/operator/request\?id=([0-9a-f]+)", row)
    assert request_id is not None
    assert path in operator.open(f"/operator/request?id={request_id[1]}").text


def test_a_receiver_in_doubt_is_decided_to_be_the_one_from_before(
    operator: Browser, gateway: Gateway, store: Store, customer: Caller
) -> None:
    wp_code = new_carrier(store, 1)
    number = issue(gateway, customer.token, request(wp_code)).data["waybillCode"]
    path, its = f"/operator/waybill?number={number}&carrier={wp_code}", f"wp_code = '{wp_code}'"
    assert _KEPT not in operator.open(path).text
    # As after a change without an answer, whose message may still arrive.
    store.run(f"UPDATE waybill SET changing_until_s = {int(time.time()) + 3600} WHERE {its}")
    assert "has not confirmed another receiver" in operator.open(path).text
    assert "Are you sure?" in operator.send(_KEPT, came_from=path).text
    early = operator.send(_KEPT)
    assert early.status_code == 409 and "may still arrive" in early.text
    store.run(f"UPDATE waybill SET changing_until_s = 0 WHERE {its}")
    operator.open(path)
    operator.send(_KEPT, came_from=path)
    assert "has a label again" in operator.send(_KEPT).text and _KEPT not in operator.page
    assert _trail(store, customer) == [("waybill decide", {"number": number, "receiver": "kept"})]

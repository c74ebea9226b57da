"""Calls are found by the shop and the order that they concern, and by what was charged."""

import html
import re
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import cast
from zoneinfo import ZoneInfo

import pytest

from tests.support.browsers import Browser
from tests.support.consent import allow, ask, new_asker, new_person
from tests.support.gateway import Gateway
from tests.support.ledger import Caller, new_caller
from tests.support.members import entered
from tests.support.stores import Store
from tests.support.waybills import issue, new_carrier, new_customer, request
from tollway.ledger.request_log import CallFilter, LogPage
from tollway.ledger.request_search import search_page
from tollway.store.database import Database, Row
from tollway.store.query import Query
from tollway.web.area import PAGE_ROWS, Context
from tollway.web.lists import moment_ms


def _found(browser: Browser, path: str) -> list[str]:
    """The ids of all pages, in their order."""
    ids: list[str] = []
    while path:
        page = browser.open(path).text
        ids += re.findall(r"/request\?id=([0-9a-f]+)", page)
        older = re.search(r'href="([^"]+)" rel="next"', page)
        path = html.unescape(older[1]) if older else ""
    return ids


def test_calls_are_found_by_the_shop_whose_consent_they_used(
    operator: Browser, gateway: Gateway, store: Store
) -> None:
    first, second = new_asker(store), new_asker(store)
    person, other = new_person(store), new_person(store)
    for asker in (first, second):
        allow(store, asker, person)
        allow(store, asker, other)
    sent = [ask(gateway, asker, person.id) for asker in (first, second, first)]
    ids = [each.headers["x-request-id"] for each in sent]
    assert [each.code for each in sent] == [0, 0, 0]
    assert ask(gateway, first, other.id).code == 0
    path = f"/operator/requests?shop={person.id}"
    assert _found(operator, path) == ids[::-1]
    assert "By shop: calls answered under its consents" in operator.page
    assert _found(operator, f"{path}&account={second.account_id}") == [ids[1]]
    assert _found(operator, f"{path}&operation=orders") == []
    assert _found(operator, f"{path}&since=2999-01-01T00:00") == []
    assert _found(operator, f"/operator/requests?shop={person.id}-none") == []


def _entered(store: Store, browser: Browser, asker: Caller) -> Browser:
    return entered(store, browser, Caller(asker.account_id, asker.token, ""))


def test_a_member_finds_the_calls_of_its_own_account_alone(
    browser: Browser, gateway: Gateway, store: Store
) -> None:
    own, other, person = new_asker(store), new_asker(store), new_person(store)
    for asker in (own, other):
        allow(store, asker, person)
    ids = [ask(gateway, each, person.id).headers["x-request-id"] for each in (own, other)]
    member = _entered(store, browser, own)
    assert _found(member, f"/account/requests?shop={person.id}") == ids[:1]
    rows = member.client.get(f"/account/requests.csv?shop={person.id}").text
    assert ids[0] in rows and ids[1] not in rows


def test_the_calls_of_a_shop_are_read_page_by_page(gateway: Gateway, store: Store) -> None:
    asker, person = new_asker(store), new_person(store)
    allow(store, asker, person)
    sent = [ask(gateway, asker, person.id).headers["x-request-id"] for _ in range(5)]
    for wanted in (
        CallFilter(shop=str(person.id)),
        CallFilter(shop=str(person.id), operation="promotion_material"),
        CallFilter(asker.account_id, shop=str(person.id), amount=1),
    ):
        found, before = [], ""
        while len(found) < 5:
            page = store.do(lambda db, w=wanted, b=before: search_page(db, w, 2, b))
            assert page.calls
            found += [each.request_id for each in page.calls]
            before = page.before
        assert found == sent[::-1]
        assert all(each.outcome == "charged" for each in page.calls)


def test_many_grants_of_a_shop_are_read_no_further_than_a_page_needs(
    gateway: Gateway, store: Store
) -> None:
    person, sent = new_person(store), []
    for _ in range(4):
        asker = new_asker(store)
        allow(store, asker, person)
        sent += [ask(gateway, asker, person.id).headers["x-request-id"] for _ in range(3)]
    # The newest grant is looked at first, whatever second each was given in.
    store.run(
        "UPDATE consent SET granted_at_s = granted_at_s + (SELECT count(*) FROM consent AS earlier"
        " WHERE earlier.owner_id = consent.owner_id AND (SELECT max(request_id) FROM consent_use"
        " WHERE consent_id = earlier.id) < (SELECT max(request_id) FROM consent_use WHERE"
        f" consent_id = consent.id)) * 10 WHERE owner_id = '{person.id}'"
    )
    read: list[int] = []

    async def counted(database: Database) -> LogPage:
        fetch_long = database.fetch_long

        async def fetch(query: Query, *args: str, **values: object) -> Sequence[Row]:
            rows = await fetch_long(query, *args, **values)
            read.append(len(rows) if "grant" in values else 0)
            return rows

        database.fetch_long = fetch  # type: ignore[assignment, method-assign]
        return await search_page(database, CallFilter(shop=str(person.id)), 2, "")

    page = store.do(counted)
    assert [each.request_id for each in page.calls] == sent[:-3:-1]
    # Two and the one that tells of a next page; none of the three grants before.
    assert sum(read) == 3


def test_the_calls_of_an_order_are_those_of_its_waybills(
    operator: Browser, gateway: Gateway, store: Store
) -> None:
    carriers, customer = [new_carrier(store, 3) for _ in range(2)], new_customer(store)
    order_sn = f"SN-{time.time_ns()}"
    body = request(carriers[0], order_sn=order_sn)
    replies = [issue(gateway, customer.token, {**body, "wp_code": each}) for each in carriers]
    assert [each.code for each in replies] == [0, 0]
    ids = [each.headers["x-request-id"] for each in replies]
    assert issue(gateway, customer.token, request(carriers[0])).code == 0
    assert _found(operator, f"/operator/requests?order={order_sn}") == ids[::-1]
    assert "By order number: the calls that issued its waybills." in operator.page
    other = new_customer(store)
    path = f"/operator/requests?order={order_sn}&account="
    assert _found(operator, path + customer.account_id) == ids[::-1]
    assert _found(operator, path + other.account_id) == []


def test_a_call_whose_entry_was_dropped_is_not_called_free(
    operator: Browser, gateway: Gateway, store: Store
) -> None:
    carrier, customer = new_carrier(store, 1), new_customer(store)
    order_sn = f"SN-{time.time_ns()}"
    reply = issue(gateway, customer.token, request(carrier, order_sn=order_sn))
    assert reply.code == 0
    # As dropping old entries leaves it: the waybill stays.
    request_id = reply.headers["x-request-id"]
    store.run(f"DELETE FROM entry WHERE request_id = '{request_id}'")
    assert _found(operator, f"/operator/requests?order={order_sn}") == [request_id]
    assert "succeeded, charge not stored any more" in operator.page
    assert _found(operator, f"/operator/requests?order={order_sn}&amount=0") == []


def test_calls_are_found_by_what_was_charged(
    operator: Browser, gateway: Gateway, store: Store, question: dict[str, str]
) -> None:
    caller = new_caller(store)
    paid = gateway.get(token=caller.token, query=question).headers["x-request-id"]
    path = f"/operator/requests?account={caller.account_id}&amount="
    assert _found(operator, f"{path}1") == [paid]
    assert _found(operator, f"{path}2") == []
    # What cannot be meant filters nothing.
    assert _found(operator, f"{path}x") == [paid]


def test_how_far_a_search_looks_is_said_where_older_calls_are_left_to_search(
    operator: Browser, gateway: Gateway, store: Store, question: dict[str, str]
) -> None:
    caller = new_caller(store, rate_limit=1000)
    for _ in range(PAGE_ROWS + 1):
        assert gateway.get(token=caller.token, query=question).code == 0
    path, reach = f"/operator/requests?account={caller.account_id}&amount=", "To search further"
    first = operator.open(f"{path}1").text
    assert "Each page searches up to 2,000 charged and 2,000 refused calls" in first
    assert reach in first and 'rel="next"' in first
    last = operator.open(f"{path}2").text
    assert "No call matches." in last and reach not in last and 'rel="next"' not in last


@pytest.mark.sqlite
def test_a_time_of_the_filter_is_in_the_zone_that_it_names_or_else_in_the_gateways() -> None:
    zone = SimpleNamespace(zone=ZoneInfo("Asia/Shanghai"))
    for text, hour in (("2026-01-31T20:00", 12), ("2026-01-31T20:00Z", 20)):
        context = SimpleNamespace(query=lambda _, text=text: text, web=zone)
        expected = datetime(2026, 1, 31, hour, tzinfo=UTC)
        assert moment_ms(cast(Context, context), "since") == expected.timestamp() * 1000

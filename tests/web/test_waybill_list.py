"""Waybills are found by their state, carrier, account, number and period; the address has all."""

import html
import re
from collections.abc import Iterator

import pytest

from tests.support.browsers import Browser
from tests.support.gateway import Gateway
from tests.support.ledger import Caller
from tests.support.stores import Store
from tests.support.waybills import issue, new_carrier, new_customer, request
from tollway.carriers import waybill_list
from tollway.carriers.waybill_list import WaybillFilter, waybills_page
from tollway.carriers.waybills import Waybill

_NUMBERS = 4


@pytest.fixture
def carrier(store: Store) -> str:
    return new_carrier(store, _NUMBERS)


@pytest.fixture
def customers(store: Store) -> list[Caller]:
    return [new_customer(store) for _ in range(2)]


def _orders(operator: Browser, **filters: str) -> list[str]:
    """The orders of all pages of the list."""
    operator.open("/operator/waybills")
    found: list[str] = []
    page = operator.client.get("/operator/waybills", params=filters).text
    while True:
        found += re.findall(r'data-label="Order">(?:<a [^>]*>)?([^<]+)<', page)
        older = re.search(r'href="([^"]+)" rel="next"', page)
        if older is None:
            return found
        page = operator.open(html.unescape(older[1])).text


def _issued(gateway: Gateway, customer: Caller, carrier: str, count: int) -> list[str]:
    """The orders of so many waybills, the newest first."""
    orders: list[str] = []
    for _ in range(count):
        body = request(carrier)
        assert issue(gateway, customer.token, body).data["code"] == 1
        orders.insert(0, body["order_sn"])
    return orders


def test_waybills_are_found_by_carrier_account_state_and_number(
    operator: Browser, gateway: Gateway, store: Store, carrier: str, customers: list[Caller]
) -> None:
    one, other = customers
    # Ends on the second of each: the list has an order for the waybills of one second too.
    of_one, of_other = (_issued(gateway, each, carrier, 2) for each in customers)
    store.run(
        "UPDATE waybill SET state = 'cancelled', cancelled_at_s = asked_at_s "
        f"WHERE order_sn = '{of_one[0]}'"
    )
    assert sorted(_orders(operator, carrier=carrier)) == sorted(of_one + of_other)
    assert _orders(operator, carrier=carrier, account=other.account_id) == of_other
    assert _orders(operator, account=one.account_id) == of_one
    ((name,),) = store.run(f"SELECT name FROM account WHERE id = '{one.account_id}'")
    assert _orders(operator, account=name, state="issued") == of_one[1:]
    assert _orders(operator, carrier=carrier, state="cancelled") == of_one[:1]
    assert _orders(operator, number=of_other[1]) == of_other[1:]
    assert _orders(operator, number=of_other[1], account=one.account_id) == []
    ((number,),) = store.run(f"SELECT number FROM waybill WHERE order_sn = '{of_other[1]}'")
    # Another carrier may have a waybill with this number.
    assert _orders(operator, carrier=carrier, number=number) == of_other[1:]
    assert _orders(operator, number=number, state="cancelled") == []
    assert f">{name}</a>" in operator.open(f"/operator/waybills?number={of_one[0]}").text
    assert "No waybill matches." in operator.open(f"/operator/waybills?carrier={carrier}-").text


def test_waybills_are_found_by_their_period(
    operator: Browser, gateway: Gateway, store: Store, carrier: str, customers: list[Caller]
) -> None:
    newer, older = _issued(gateway, customers[0], carrier, 2)
    at_s = 1_767_322_800  # 2026-01-02 03:00 UTC
    # As if it had been asked for then: its id begins with that time.
    store.run(
        f"UPDATE waybill SET asked_at_s = {at_s}, object_id = 'wb_{at_s * 1000:011x}{older}' "
        f"WHERE order_sn = '{older}'"
    )
    day = {"since": "2026-01-02T00:00Z", "until": "2026-01-03T00:00Z"}
    for its in ({"carrier": carrier}, {"account": customers[0].account_id}, {"number": older}):
        assert _orders(operator, **its, **day) == [older], its
        assert _orders(operator, **its, until="2026-01-02T03:00Z") == [], its
    assert _orders(operator, account=customers[0].account_id) == [newer, older]
    assert _orders(operator, carrier=carrier, since="2026-01-02T03:01Z") == [newer]
    assert _orders(operator, carrier=carrier, until="2999-01-01T00:00Z") == [newer, older]


def test_what_cannot_be_read_filters_nothing_and_is_marked(
    operator: Browser, gateway: Gateway, carrier: str, customers: list[Caller]
) -> None:
    orders = _issued(gateway, customers[0], carrier, 1)
    path = f"/operator/waybills?carrier={carrier}"
    for field, said in (
        ("account=no-such-account", "No account has this name or id: it filters nothing."),
        ("since=yesterday", "This is no time: it filters nothing."),
    ):
        page = operator.open(f"{path}&{field}").text
        assert said in page and orders[0] in page


def _every(store: Store, wanted: WaybillFilter, size: int) -> Iterator[list[Waybill]]:
    before = None
    while True:
        page = store.do(lambda database, b=before: waybills_page(database, wanted, size, b))
        yield list(page.waybills)
        before = page.before
        if before is None:
            return


def test_a_page_reads_a_bounded_number_of_rows_and_says_where_the_next_begins(
    gateway: Gateway,
    store: Store,
    carrier: str,
    customers: list[Caller],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    of_one, of_other = (_issued(gateway, each, carrier, 2) for each in customers)
    monkeypatch.setattr(waybill_list, "SCANNED_MAX", 2)
    # The newest two rows are of the other account.
    wanted = WaybillFilter(customers[0].account_id, carrier, number="")
    found = [each.order_sn for page in _every(store, wanted, 1) for each in page]
    assert found == of_one
    # By carrier alone, of all accounts: some pages may be empty, none is left out.
    pages = list(_every(store, WaybillFilter(wp_code=carrier), 1))
    assert sorted(each.order_sn for page in pages for each in page) == sorted(of_one + of_other)
    assert all(len(page) <= 1 for page in pages)

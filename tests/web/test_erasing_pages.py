"""Receivers that an owner or an operator has erased on a page."""

from itertools import count

from tests.support.browsers import Browser
from tests.support.consent import (
    PASSWORD,
    Person,
)
from tests.support.ledger import RUNTIME
from tests.support.orders import order, put_orders
from tests.support.remote import eventually
from tests.support.stores import Store
from tollway.consent.owners import Owner, add_owner
from tollway.store.database import Database

_numbers = count(1)


def _shop_with_an_order(store: Store) -> str:
    shop_id = f"9800{next(_numbers)}"

    async def work(database: Database) -> None:
        added = Owner("shop", shop_id, "Erasing <b>", None, f"login-{shop_id}", 0)
        await add_owner(database, RUNTIME, added, PASSWORD)

    store.do(work)
    put_orders(store, [order(f"er-{shop_id}", owner_id=shop_id)])
    return shop_id


def _until_erased(browser: Browser, path: str) -> None:
    eventually(lambda: browser.open(path).text, lambda page: "receivers: orders 1," in page)


def test_an_owner_types_the_shop_and_the_password_before_receivers_are_erased(
    store: Store, browser: Browser
) -> None:
    shop_id = _shop_with_an_order(store)
    browser.open("/owner")
    browser.sign_in(f"login-{shop_id}")
    assert "/owner/erase" in browser.page
    assert "cannot be undone" in browser.open("/owner/erase").text
    other = browser.send("/owner/erase", shop="1", password=PASSWORD)
    assert (other.status_code, "not the id of the shop" in other.text) == (400, True)
    wrong = browser.send("/owner/erase", shop=shop_id, password="wrong")
    assert (wrong.status_code, "password is wrong" in wrong.text) == (403, True)
    assert not store.run(f"SELECT 1 FROM receiver_erasure WHERE owner_id = '{shop_id}'")
    assert "are being erased" in browser.send("/owner/erase", shop=shop_id, password=PASSWORD).text
    _until_erased(browser, "/owner")
    rows = store.run(f"SELECT length(sealed) FROM shop_order WHERE owner_id = '{shop_id}'")
    assert [tuple(row) for row in rows] == [(0,)]
    # So an owner cannot fill the trail.
    again = browser.send("/owner/erase", shop=shop_id, password=PASSWORD)
    assert (again.status_code, "less than 10 minutes ago" in again.text) == (429, True)
    acts = f"SELECT 1 FROM operator_act WHERE subject = 'shop {shop_id}' AND act LIKE '%erase%'"
    assert len(store.run(acts)) == 2


def test_an_operator_erases_receivers_after_typing_the_shop(
    store: Store, operator: Browser
) -> None:
    shop_id = _shop_with_an_order(store)
    page = f"/operator/shop?kind=shop&shop={shop_id}"
    assert "/operator/shop/erase" in operator.open(page).text
    asked = operator.open(f"/operator/shop/erase?kind=shop&shop={shop_id}&typed={shop_id}")
    assert "cannot be undone" in asked.text
    assert operator.send("/operator/shop/erase", typed="1").status_code == 400
    operator.send("/operator/shop/erase", typed=shop_id)
    _until_erased(operator, page)
    assert "shop erase-receivers done" in operator.open("/operator/trail").text


def test_a_user_of_the_marketplace_has_no_receivers(browser: Browser, person: Person) -> None:
    browser.open("/owner")
    browser.sign_in(person.login)
    assert "/owner/erase" not in browser.page
    assert browser.open("/owner/erase").status_code == 404

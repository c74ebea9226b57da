"""Prices and rates that an operator sets on a page: no more than any account could ever pay, and
none replaced unasked."""

import re
from pathlib import Path

import pytest

import tollway.web
from tests.support.browsers import Browser
from tests.support.ledger import new_caller
from tests.support.stores import Store
from tollway.ledger import LedgerError
from tollway.ledger.permissions import (
    PRICE_MAX,
    RATE_MAX,
    Permission,
    add_permission,
    revoke_permission,
    set_closed,
    set_price,
)

_PRICE = "/operator/prices/price"
_PERMISSION = "/operator/account/permission"


def test_a_price_or_rate_that_is_too_large_is_refused_beside_its_field(
    operator: Browser, store: Store
) -> None:
    account = new_caller(store).account_id
    before = store.run("SELECT operation, price FROM operation_state")
    operator.open("/operator/prices")
    sent = operator.send(_PRICE, operation="orders", price=str(PRICE_MAX + 1))
    assert "Price can be 1,000,000,000,000 at most" in sent.text
    assert store.run("SELECT operation, price FROM operation_state") == before
    operator.open(f"/operator/account?id={account}")
    own = {"account": account, "operation": "orders", "state": "may"}
    for field, most, label in (("price", PRICE_MAX, "Price"), ("rate", RATE_MAX, "Calls a second")):
        sent = operator.send(_PERMISSION, **own, **{field: str(most + 1)})
        assert f"{label} can be {most:,} at most" in sent.text
    assert not store.run(
        f"SELECT 1 FROM permission WHERE account_id = '{account}' AND operation = 'orders'"
    )


def test_no_way_in_sets_a_price_or_rate_that_is_too_large(store: Store) -> None:
    account = new_caller(store).account_id
    for price, rate in ((PRICE_MAX + 1, None), (None, RATE_MAX + 1)):
        given = Permission("orders", price, rate)
        with pytest.raises(LedgerError, match="at most"):
            store.do(lambda database, given=given: add_permission(database, account, given))
    with pytest.raises(LedgerError, match="at most"):
        store.do(lambda database: set_price(database, "orders", PRICE_MAX + 1))


def _own(store: Store, account: str) -> list[tuple[object, ...]]:
    return [
        tuple(row)
        for row in store.run(
            "SELECT operation, price, rate_limit FROM permission "
            f"WHERE account_id = '{account}' ORDER BY operation"
        )
    ]


def test_what_was_agreed_with_an_account_is_not_replaced_unasked(
    operator: Browser, store: Store
) -> None:
    account = new_caller(store, price=3, rate_limit=50).account_id
    path, of = _PERMISSION, {"account": account}
    agreed = [("product_analysis", 3, 50)]
    for change, after in (
        # All operations are enabled, and those that were enabled already with the rest.
        ({"operation": "*", "state": "may"}, "1 call (list price), calls a second: 10 (default)"),
        # The price is left blank: it would be the list price again.
        (
            {"operation": "product_analysis", "state": "may", "rate": "20"},
            "1 call (list price), calls a second: 20",
        ),
        ({"operation": "*", "state": "not"}, "not enabled"),
    ):
        operator.open(f"/operator/account?id={account}")
        asked = operator.send(path, **of, **change).text
        assert "Are you sure" in asked
        assert f"Product analysis: 3 calls, calls a second: 50 → {after}" in asked
        assert _own(store, account) == agreed
    operator.send(path)
    assert _own(store, account) == []


def test_what_replaces_nothing_is_not_asked_about(operator: Browser, store: Store) -> None:
    account = new_caller(store, price=3, rate_limit=50).account_id
    operator.open(f"/operator/account?id={account}")
    same = {"operation": "product_analysis", "state": "may", "price": "3", "rate": "50"}
    new = {"operation": "orders", "state": "may", "price": "2"}
    for change in (same, new):
        done = operator.send(_PERMISSION, account=account, **change).text
        assert "Are you sure" not in done
    assert _own(store, account) == [("orders", 2, None), ("product_analysis", 3, 50)]


def test_a_list_price_is_shown_before_and_after_it_is_set(operator: Browser, store: Store) -> None:
    operator.open("/operator/prices")
    before = store.run("SELECT price FROM operation_state WHERE operation = 'coupon_claims'")
    asked = operator.send(_PRICE, operation="coupon_claims", price="1000").text
    assert "Coupon-claim query costs 1 credit. After this it costs 1,000 credits" in asked
    again = store.run("SELECT price FROM operation_state WHERE operation = 'coupon_claims'")
    assert again == before
    shown = operator.send(_PRICE).text
    assert "1,000 credits" in shown
    operator.send(_PRICE, operation="coupon_claims", price="1")
    operator.send(_PRICE)


def test_what_was_agreed_after_the_question_is_asked_about_too(
    operator: Browser, store: Store
) -> None:
    account = new_caller(store, price=3, rate_limit=50).account_id
    operator.open(f"/operator/account?id={account}")
    operator.send(_PERMISSION, account=account, operation="*", state="may")
    agreed = Permission("orders", 7, None)
    store.do(lambda database: add_permission(database, account, agreed))
    asked = operator.send(_PERMISSION).text
    assert "Paged order query: 7 credits, calls a second: 10 (default) → " in asked
    assert "Something has changed meanwhile" in asked
    assert _own(store, account) == [("orders", 7, None), ("product_analysis", 3, 50)]
    assert "Are you sure" not in operator.send(_PERMISSION).text
    assert ("orders", None, None) in _own(store, account)


def test_what_was_disabled_after_the_question_is_not_enabled_unasked(
    operator: Browser, store: Store
) -> None:
    account = new_caller(store, price=3, rate_limit=50).account_id
    operator.open(f"/operator/account?id={account}")
    change = {"operation": "product_analysis", "state": "may", "price": "4"}
    operator.send(_PERMISSION, account=account, **change)
    store.do(lambda database: revoke_permission(database, account, "product_analysis"))
    asked = operator.send(_PERMISSION).text
    assert "Product analysis: not enabled → 4 calls" in asked
    assert _own(store, account) == []
    operator.send(_PERMISSION)
    assert _own(store, account) == [("product_analysis", 4, None)]


def _list_price(store: Store, operation: str) -> object:
    found = store.run(f"SELECT price FROM operation_state WHERE operation = '{operation}'")
    return found[0][0] if found else None


def test_a_list_price_that_was_set_after_the_question_is_asked_about_too(
    operator: Browser, store: Store
) -> None:
    operator.open("/operator/prices")
    operator.send(_PRICE, operation="coupon_claims", price="1000")
    store.do(lambda database: set_price(database, "coupon_claims", 5))
    try:
        asked = operator.send(_PRICE).text
        assert "costs 5 credits. After this it costs 1,000 credits" in asked
        assert "Something has changed meanwhile" in asked
        assert _list_price(store, "coupon_claims") == 5
        operator.send(_PRICE)
        assert _list_price(store, "coupon_claims") == 1000
    finally:
        store.do(lambda database: set_price(database, "coupon_claims", 1))


def test_a_list_price_that_stays_is_not_asked_about(operator: Browser, store: Store) -> None:
    store.do(lambda database: set_price(database, "coupon_claims", 1))
    operator.open("/operator/prices")
    done = operator.send(_PRICE, operation="coupon_claims", price="1").text
    assert "Are you sure" not in done and "The price holds from the next call on" in done
    assert _list_price(store, "coupon_claims") == 1


def test_a_price_or_rate_that_cannot_be_is_refused_without_a_question(
    operator: Browser, store: Store
) -> None:
    account = new_caller(store, price=3, rate_limit=50).account_id
    operator.open("/operator/prices")
    refused = operator.send(_PRICE, operation="coupon_claims", price="-5")
    assert refused.status_code == 409 and "A price is a whole number, 0 or more" in refused.text
    for field, value, said in (
        ("price", "-5", "A price is a whole number, 0 or more"),
        ("rate", "0", "A rate is a whole number of calls a second, at least 1"),
    ):
        operator.open(f"/operator/account?id={account}")
        own = {"account": account, "operation": "product_analysis", "state": "may", field: value}
        refused = operator.send(_PERMISSION, **own)
        assert refused.status_code == 409 and said in refused.text
        assert "Are you sure" not in refused.text
    assert _own(store, account) == [("product_analysis", 3, 50)]


def test_what_is_enabled_along_with_what_is_replaced_is_listed_too(
    operator: Browser, store: Store
) -> None:
    account = new_caller(store, price=3, rate_limit=50).account_id
    operator.open(f"/operator/account?id={account}")
    asked = operator.send(_PERMISSION, account=account, operation="*", state="may", price="2").text
    assert "Product analysis: 3 calls, calls a second: 50 → 2 calls" in asked
    assert "Paged order query: not enabled → 2 credits, calls a second: 10 (default)" in asked


def test_line_breaks_are_kept_in_a_question_and_in_no_form(operator: Browser, store: Store) -> None:
    style = Path(tollway.web.__file__).with_name("pages.css").read_text(encoding="utf-8")
    kept = set(re.findall(r"\.([\w-]+) \{ white-space: pre-line", style))
    account = new_caller(store, price=3).account_id
    operator.open(f"/operator/account?id={account}")
    asked = operator.send(_PERMISSION, account=account, operation="*", state="not").text
    question = re.search(r'<p class="([^"]*)">This changes what', asked)
    assert question is not None and kept & set(question[1].split())
    forms = re.findall(r'<form [^>]*class="([^"]*)"', asked)
    assert forms and not any(kept & set(each.split()) for each in forms)


def test_an_operation_is_changed_from_its_row_with_what_it_is_now(
    operator: Browser, store: Store
) -> None:
    store.do(lambda database: set_price(database, "coupon_claims", 1))
    page = operator.open("/operator/prices").text
    path = "/operator/prices/operation?operation=coupon_claims"
    assert f'<a href="{path}" aria-label="Change Coupon-claim query">' in page
    assert "<form" not in page.split("<main", 1)[1].split("</main>")[0]
    form = operator.open(path).text
    assert 'name="price" value="1"' in form and ">open</span>" in form
    assert "costs 1 credit. After this it costs 7 credits" in operator.send(_PRICE, price="7").text
    done = operator.send(_PRICE)
    assert done.url.path == "/operator/prices" and "7 credits" in done.text
    operator.open(path)
    assert "Calls answer 203" in operator.send("/operator/prices/state").text
    assert ">closed</span>" in operator.send("/operator/prices/state").text
    try:
        assert "Open the operation" in operator.open(path).text
        assert ">closed</span>" not in operator.send("/operator/prices/state").text
    finally:
        store.do(lambda database: set_closed(database, "coupon_claims", is_closed=False))
        store.do(lambda database: set_price(database, "coupon_claims", 1))

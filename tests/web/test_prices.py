"""Prices and rates that an operator sets on a page: no more than any account could ever pay."""

import pytest

from tests.support.browsers import Browser
from tests.support.ledger import new_caller
from tests.support.stores import Store
from tollway.ledger import LedgerError
from tollway.ledger.permissions import PRICE_MAX, RATE_MAX, Permission, grant, set_price


def test_a_price_or_rate_that_is_too_large_is_refused_beside_its_field(
    operator: Browser, store: Store
) -> None:
    account = new_caller(store).account_id
    before = store.run("SELECT operation, price FROM operation_state")
    operator.open("/operator/prices")
    sent = operator.send("/operator/prices/price", operation="orders", price=str(PRICE_MAX + 1))
    assert "Price can be 1,000,000,000,000 at most" in sent.text
    assert store.run("SELECT operation, price FROM operation_state") == before
    operator.open(f"/operator/account?id={account}")
    own = {"account": account, "operation": "orders", "state": "may"}
    for field, most, label in (("price", PRICE_MAX, "Price"), ("rate", RATE_MAX, "Calls a second")):
        sent = operator.send("/operator/account/permission", **own, **{field: str(most + 1)})
        assert f"{label} can be {most:,} at most" in sent.text
    assert not store.run(
        f"SELECT 1 FROM permission WHERE account_id = '{account}' AND operation = 'orders'"
    )


def test_no_way_in_sets_a_price_or_rate_that_is_too_large(store: Store) -> None:
    account = new_caller(store).account_id
    for price, rate in ((PRICE_MAX + 1, None), (None, RATE_MAX + 1)):
        given = Permission("orders", price, rate)
        with pytest.raises(LedgerError, match="at most"):
            store.do(lambda database, given=given: grant(database, account, given))
    with pytest.raises(LedgerError, match="at most"):
        store.do(lambda database: set_price(database, "orders", PRICE_MAX + 1))

"""The account whose calls `python -m bench.page_times` makes beside pages."""

import pytest

from bench.paid_beside import paid_request
from tests.support.stores import Store
from tollway.ledger.permissions import RATE_MAX

pytestmark = pytest.mark.sqlite


def test_it_may_call_as_often_as_any_account_can(own_store: Store) -> None:
    assert paid_request(own_store.url).startswith(b"GET ")
    assert own_store.run("SELECT rate_limit FROM permission") == [(RATE_MAX,)]

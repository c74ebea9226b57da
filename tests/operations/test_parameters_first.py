"""Which refusal comes first: the balance before the parameters, unless the call may be free, and
the parameters before consent, since no consent could make them good."""

import pytest

from tests.support.all_operations import ask
from tests.support.gateway import Gateway
from tests.support.ledger import new_caller
from tests.support.orders import ask_orders
from tests.support.owners import authorize, shop
from tests.support.stores import Store
from tests.support.waybills import issue, request
from tollway.contract.operation import Operation
from tollway.operations.coupon_claims.operation import COUPON_CLAIMS
from tollway.operations.orders.operation import ORDERS
from tollway.operations.waybills.operation import WAYBILLS

KNOWN, UNKNOWN = "880012077", "880012078"


@pytest.fixture
def outsider(store: Store) -> str:
    """The token of an account that no shop has authorized, although one shop is known."""
    other = new_caller(store)
    store.do(lambda database: authorize(database, other.account_id, ORDERS, shop(KNOWN)))
    return new_caller(store, operations=(ORDERS, WAYBILLS), credits_=100, rate_limit=1000).token


def test_a_good_request_is_refused_for_the_missing_consent(gateway: Gateway, outsider: str) -> None:
    assert ask_orders(gateway, outsider, owner_id=KNOWN).code == 302
    assert ask_orders(gateway, outsider, owner_id=UNKNOWN).code == 103
    assert issue(gateway, outsider, request("YTO", owner_id=KNOWN)).code == 302


@pytest.mark.parametrize("owner_id", [KNOWN, UNKNOWN])
@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"start_time": "1768406400", "end_time": "1768406400"}, "end_time"),
        ({"start_time": "2026-01-15 00:00:00", "end_time": "2026-01-14 23:59:59"}, "end_time"),
        # The same moment, once as a timestamp and once by the clock of the gateway's time zone.
        ({"start_time": "1768406400000", "end_time": "2026-01-15 00:00:00"}, "end_time"),
        ({"vvtype": "2", "remark": "急"}, "remark"),
        ({"vvtype": "2", "remarkTag": "1"}, "remarkTag"),
        ({"vvtype": "2", "start_time": "1768406400"}, "start_time"),
    ],
)
def test_100_filters_of_orders(
    gateway: Gateway, outsider: str, owner_id: str, fields: dict[str, str], named: str
) -> None:
    reply = ask_orders(gateway, outsider, owner_id=owner_id, **fields)
    assert (reply.code, reply.data) == (100, {})
    assert f"Parameter {named} " in reply.msg


@pytest.mark.parametrize("owner_id", [KNOWN, UNKNOWN])
def test_100_shop_code_of_the_normal_edition(
    gateway: Gateway, outsider: str, owner_id: str
) -> None:
    reply = issue(gateway, outsider, request("YTO", owner_id=owner_id, vvtype=2))
    assert (reply.code, reply.data) == (100, {})
    assert "Parameter shopCode is missing" in reply.msg


def test_a_window_that_begins_a_moment_earlier_passes(gateway: Gateway, outsider: str) -> None:
    fields = {"start_time": "1768406399999", "end_time": "2026-01-15 00:00:00"}
    assert ask_orders(gateway, outsider, owner_id=KNOWN, **fields).code == 302


@pytest.mark.parametrize("operation", [COUPON_CLAIMS, ORDERS], ids=lambda each: each.name)
def test_204_comes_before_the_parameters(
    gateway: Gateway, store: Store, operation: Operation
) -> None:
    poor = new_caller(store, operations=(operation,), credits_=0).token
    assert ask(gateway, operation, poor, {"page": "wrong"}).code == 204


@pytest.mark.parametrize("operation", [COUPON_CLAIMS, WAYBILLS], ids=lambda each: each.name)
def test_100_comes_before_204_where_it_may_be_free(
    gateway: Gateway, store: Store, operation: Operation
) -> None:
    poor = new_caller(store, operations=(operation,), credits_=0).token
    key = {} if operation is WAYBILLS else {"Idempotency-Key": "new"}
    reply = ask(gateway, operation, poor, {"page": "wrong"}, key)
    assert reply.code == 100

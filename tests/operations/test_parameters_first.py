"""Which refusal comes first: the balance before the parameters, unless the call may be free, and
the parameters before consent, since no consent could make them good."""

import pytest

from tests.support.all_operations import ask
from tests.support.gateway import Gateway, Reply
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


WINDOW = {"start_time": "2020-01-01", "end_time": "2040-01-01"}


@pytest.mark.parametrize(
    ("path", "needed", "extras"),
    [
        ("/export", WINDOW, "remark remarkTag remark_tag pageSize"),
        ("/changed", {}, "start_time endTime remarkTagName"),
        ("/by-number", {"order_sn": ["1"]}, "remarkTag"),
    ],
)
def test_100_what_chooses_orders_in_the_paged_query_alone_is_not_ignored_elsewhere(
    gateway: Gateway, outsider: str, path: str, needed: dict[str, object], extras: str
) -> None:
    def ask_with(extra: str, value: str = "1") -> Reply:
        sent = {"owner_id": KNOWN, **needed, extra: value}
        return gateway.post_json(ORDERS.path + path, sent, token=outsider)

    for extra in extras.split():
        reply = ask_with(extra)
        assert (reply.code, reply.headers["x-tollway-reason"]) == (100, "PARAMETER_INVALID")
        assert reply.msg.startswith(f"Parameter {extra} is not valid: this call does not choose")
        assert ask_with(extra, " ").code == 302
    # The edition chooses nothing.
    assert ask_with("vvtype").code == 302


def test_100_an_export_of_claims_has_no_pages(gateway: Gateway, store: Store) -> None:
    caller = new_caller(store, operations=(COUPON_CLAIMS,), credits_=10)
    sent = {"startTime": "1768406400", "endTime": "1768492800", "sid": "s1", "type": "4"}
    for extra in ("page", "limit"):
        reply = gateway.post_json(
            f"{COUPON_CLAIMS.path}/export", {**sent, extra: "1"}, token=caller.token
        )
        assert reply.code == 100 and reply.msg.startswith(f"Parameter {extra} is not valid: this")


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

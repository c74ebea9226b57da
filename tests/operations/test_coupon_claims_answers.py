"""What the coupon-claim query answers: its fields, its window, its order, its charge."""

from collections.abc import Iterator

import pytest

from tests.support.coupons import COUPONS, NOON_S, WEEK_S, asked, claim, load_claims
from tests.support.gateway import Gateway
from tests.support.ledger import CREDITS, Caller, credits_left, new_caller, newest_entry
from tests.support.stores import Store
from tollway.ledger.usage import day_start_s
from tollway.operations.coupon_claims.demo import SIDS
from tollway.operations.coupon_claims.operation import COUPON_CLAIMS
from tollway.settings import Settings


@pytest.fixture
def buyer(store: Store) -> Iterator[Caller]:
    yield new_caller(store, operations=[COUPON_CLAIMS], credits_=50)


def codes(gateway: Gateway, buyer: Caller, **changes: object) -> list[str]:
    reply = gateway.post_form(COUPONS, asked(**changes), token=buyer.token)
    assert reply.code == 0, reply.msg
    return [record["couponCode"] for record in reply.data["dataList"]]


def test_every_field_is_there_with_its_type(gateway: Gateway, store: Store, buyer: Caller) -> None:
    load_claims(store, [claim("f4", NOON_S, sid="fields")])
    load_claims(store, [claim("f6", NOON_S, sid="fields", claim_type=6)])
    reply = gateway.post_form(COUPONS, asked(sid="fields"), token=buyer.token)
    assert reply.data == {
        "total": 1,
        "dataList": [
            {
                "couponTime": "2026-01-15 12:00:00",
                "money": "5.50",
                "minUseMoney": "20.00",
                "couponName": "外卖红包",
                "couponType": "WAIMAI_COUPON",
                "couponCode": "f4",
                "beginTime": "1768449600",
                "endTime": "1768536000",
                "appKey": "key",
                "sid": "fields",
            }
        ],
        "withholding_money": 1,
    }
    assert codes(gateway, buyer, sid="fields", type=6) == ["f6"]


def test_the_time_is_in_the_settings_time_zone(own_store: Store) -> None:
    load_claims(own_store, [claim("z", NOON_S)])
    caller = new_caller(own_store, operations=[COUPON_CLAIMS], credits_=1)
    gateway = Gateway(own_store, timezone="America/New_York")
    (record,) = gateway.post_form(COUPONS, asked(), token=caller.token).data["dataList"]
    assert record["couponTime"] == "2026-01-14 23:00:00"
    gateway.stop()


def test_the_start_of_the_window_is_in_it_and_its_end_is_not(
    gateway: Gateway, store: Store, buyer: Caller
) -> None:
    load_claims(store, [claim(f"w{at}", at, sid="window") for at in (NOON_S, NOON_S + 59)])

    def within(start_s: int, end_s: int) -> list[str]:
        return codes(gateway, buyer, sid="window", startTime=start_s, endTime=end_s)

    first, second = f"w{NOON_S}", f"w{NOON_S + 59}"
    assert within(NOON_S, NOON_S + 60) == [second, first]
    assert within(NOON_S, NOON_S + 59) == [first]
    assert within(NOON_S + 1, NOON_S + 60) == [second]
    assert within(NOON_S, NOON_S + 1) == [first]
    assert within(NOON_S - 1, NOON_S) == []
    assert within(NOON_S, NOON_S + WEEK_S) == [second, first]
    assert within(NOON_S + 60 - WEEK_S, NOON_S + 60) == [second, first]


def test_the_newest_come_first_and_then_the_codes_decide(
    gateway: Gateway, store: Store, buyer: Caller
) -> None:
    times = {"b": 10, "a": 10, "d": 20, "c": 5}
    load_claims(store, [claim(f"o{code}", NOON_S + at, sid="order") for code, at in times.items()])
    assert codes(gateway, buyer, sid="order") == ["od", "oa", "ob", "oc"]
    assert codes(gateway, buyer, sid="order", page=2, limit=3) == ["oc"]


def test_an_empty_page_is_a_success_with_the_exact_total_and_is_charged(
    gateway: Gateway, store: Store, buyer: Caller
) -> None:
    load_claims(store, [claim(f"e{n}", NOON_S + n, sid="far") for n in range(5)])
    fields = asked(sid="far", page=2_147_483_647, limit=1000)
    reply = gateway.post_form(COUPONS, fields, token=buyer.token)
    assert (reply.code, reply.data) == (0, {"total": 5, "dataList": [], "withholding_money": 1})
    reply = gateway.post_form(COUPONS, asked(sid="unheard of"), token=buyer.token)
    assert (reply.code, reply.data) == (0, {"total": 0, "dataList": [], "withholding_money": 1})
    assert credits_left(store, buyer) == 48


def test_the_charge_agrees_with_the_ledger(gateway: Gateway, store: Store) -> None:
    caller = new_caller(store, operations=[COUPON_CLAIMS], credits_=50, price=7)
    reply = gateway.post_form(COUPONS, asked(), token=caller.token)
    entry = newest_entry(store, caller, CREDITS)
    assert reply.data["withholding_money"] == 7 == -entry.amount
    assert (entry.operation, entry.request_id) == (
        COUPON_CLAIMS.name,
        reply.headers["x-request-id"],
    )
    assert credits_left(store, caller) == entry.balance_after == 43


def test_claims_that_are_loaded_are_seen_on_the_next_call(
    gateway: Gateway, store: Store, buyer: Caller
) -> None:
    assert codes(gateway, buyer, sid="fresh") == []
    load_claims(store, [claim("new", NOON_S, sid="fresh")])
    assert codes(gateway, buyer, sid="fresh") == ["new"]
    load_claims(store, [claim("new", NOON_S, sid="fresh elsewhere")])
    assert codes(gateway, buyer, sid="fresh") == []


def test_a_test_token_sees_the_sandbox_for_nothing(gateway: Gateway, store: Store, today) -> None:
    caller = new_caller(store, operations=[COUPON_CLAIMS], kind="test")
    end_s = day_start_s(today, Settings().zone)
    fields = asked(sid=SIDS[0], startTime=end_s - WEEK_S, endTime=end_s, limit=1000)
    reply = gateway.post_form(COUPONS, fields, token=caller.token)
    assert reply.data["total"] == len(reply.data["dataList"]) > 0
    assert reply.data["withholding_money"] == 0

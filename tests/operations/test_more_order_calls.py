"""Orders by their numbers, and orders changed since a cursor: through real HTTP."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest

from tests.support.gateway import Gateway, Reply
from tests.support.ledger import CREDITS as UNIT
from tests.support.ledger import RUNTIME, Caller, credits_left, newest_entry
from tests.support.orders import CREDITS, OWNER, START_MS, new_shopper, order, put_orders, sealer_of
from tests.support.pushes import EVERYONE, SOURCE, push
from tests.support.stores import Store
from tollway.contract.receipt import RECEIPTS_PATH
from tollway.intake.sources import add_source
from tollway.operations.orders.more_calls import ORDERS_BY_NUMBER, ORDERS_CHANGED


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, engine: str) -> Iterator[Gateway]:
    store = Store(tmp_path_factory.mktemp("more_calls") / "tollway.db")
    put_orders(store, [order(f"sn-{n:03}", confirm_time=START_MS + n * 60_000) for n in range(150)])
    with Gateway(store) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def secret(served: Gateway) -> str:
    store = served.store
    made = store.do(lambda db: add_source(db, sealer_of(store), SOURCE, EVERYONE, RUNTIME))
    return made.secret


@pytest.fixture
def shopper(served: Gateway) -> Caller:
    return new_shopper(served.store)


def by_number(served: Gateway, token: str, *numbers: str, **headers: str) -> Reply:
    sent = {"owner_id": OWNER, "order_sn": list(numbers)}
    return served.post_json(ORDERS_BY_NUMBER.path, sent, token=token, headers=headers)


def changed(served: Gateway, token: str, **sent: Any) -> Reply:
    return served.post_json(ORDERS_CHANGED.path, {"owner_id": OWNER, **sent}, token=token)


def numbers_of(reply: Reply) -> list[str]:
    return [each["order_sn"] for each in reply.data["content"]]


@pytest.mark.parametrize("number", ["\ufeffsn-007", "sn-007\u200b"])
def test_100_a_number_with_a_character_that_cannot_be_seen(
    served: Gateway, shopper: Caller, number: str
) -> None:
    reply = by_number(served, shopper.token, "sn-001", number)
    assert (reply.code, reply.data) == (100, {})
    assert "order_sn" in reply.msg and "cannot be seen, U+" in reply.msg
    assert credits_left(served.store, shopper) == CREDITS


def test_0_orders_come_in_the_order_of_their_numbers_masked_and_paid_as_one_page(
    served: Gateway, shopper: Caller
) -> None:
    reply = by_number(served, shopper.token, "sn-007", "none-1", "sn-101", "sn-007")
    assert (reply.code, numbers_of(reply)) == (0, ["sn-007", "sn-101"])
    assert reply.data["missing"] == ["none-1"]
    first = reply.data["content"][0]
    assert (first["receiver_name"], first["receiver_phone"]) == ("张**", "138****1234")
    assert (reply.data["withholding_money"], first["withholding_money"]) == (1, 1)
    assert credits_left(served.store, shopper) == CREDITS - 1
    entry = newest_entry(served.store, shopper, UNIT)
    assert (entry.operation, entry.request_id) == ("orders", reply.headers["x-request-id"])
    receipt = served.get(f"{RECEIPTS_PATH}{entry.request_id}", token=shopper.token)
    assert (receipt.data["operation"], receipt.data["amount"]) == ("orders", 1)


def test_0_a_hundred_numbers_are_one_call(served: Gateway, shopper: Caller) -> None:
    wanted = [f"sn-{n:03}" for n in range(40, 140)]
    assert numbers_of(by_number(served, shopper.token, *wanted)) == wanted
    assert credits_left(served.store, shopper) == CREDITS - 1


@pytest.mark.parametrize("numbers", [[], ["x"] * 101, "sn-007", [["sn-007"]], [""]])
def test_100_what_is_no_list_of_numbers_is_named(
    served: Gateway, shopper: Caller, numbers: object
) -> None:
    sent = {"owner_id": OWNER, "order_sn": numbers}
    reply = served.post_json(ORDERS_BY_NUMBER.path, sent, token=shopper.token)
    assert (reply.code, "order_sn" in reply.msg) == (100, True)
    assert credits_left(served.store, shopper) == CREDITS


def test_302_the_shop_must_have_authorized_the_caller(served: Gateway) -> None:
    outsider = new_shopper(served.store, granted=False)
    assert by_number(served, outsider.token, "sn-007").code == 204
    other = {"owner_id": "1", "order_sn": ["sn-007"]}
    asker = new_shopper(served.store)
    assert served.post_json(ORDERS_BY_NUMBER.path, other, token=asker.token).code == 103


def test_0_the_same_key_is_answered_again_for_nothing(served: Gateway, shopper: Caller) -> None:
    key = {"Idempotency-Key": "k-1"}
    first = by_number(served, shopper.token, "sn-001", **key)
    again = by_number(served, shopper.token, "sn-001", **key)
    assert (first.data["withholding_money"], again.data["withholding_money"]) == (1, 0)
    assert by_number(served, shopper.token, "sn-002", **key).code == 100
    assert changed(served, shopper.token, pageSize=1).code == 0
    assert credits_left(served.store, shopper) == CREDITS - 2


def test_0_it_counts_against_the_limit_of_the_paged_query(served: Gateway) -> None:
    shopper = new_shopper(served.store, rate_limit=2)
    replies = [by_number(served, shopper.token, "sn-001") for _ in range(3)]
    assert [each.code for each in replies] == [0, 0, 202]
    assert replies[0].headers["ratelimit-policy"] == '"orders";q=2;w=1'


def test_0_changes_are_read_in_pages_to_their_end_and_from_there(
    served: Gateway, shopper: Caller
) -> None:
    found, cursor, has_more = [], None, True
    while has_more:
        page = changed(served, shopper.token, pageSize=70, **({"cursor": cursor} if cursor else {}))
        found += numbers_of(page)
        cursor, has_more = page.data["next_cursor"], page.data["has_more"]
    assert len(found) == len(set(found)) and {f"sn-{n:03}" for n in range(150)} <= set(found)
    nothing = changed(served, shopper.token, cursor=cursor)
    assert (numbers_of(nothing), nothing.data["next_cursor"]) == ([], cursor)
    later = {"confirm_time": START_MS + 600_000, "updated_at": START_MS + 5}
    # One that changes, one that is new though it was updated earlier, and one that stays.
    put_orders(
        served.store,
        [
            order("sn-010", order_status=2, **later),
            order("late-1", updated_at=START_MS - 5),
            order("sn-011", confirm_time=START_MS + 660_000),
        ],
    )
    page = changed(served, shopper.token, cursor=cursor)
    assert sorted(numbers_of(page)) == ["late-1", "sn-010"]


@pytest.mark.parametrize("cursor", ["x", "1-00000000", "zz-ffffffff", "-", "1" * 64])
def test_100_a_cursor_of_another_shop_or_none_is_refused(
    served: Gateway, shopper: Caller, cursor: str
) -> None:
    reply = changed(served, shopper.token, cursor=cursor)
    assert (reply.code, "cursor" in reply.msg) == (100, True)


def test_0_the_cursor_is_taken_under_the_name_of_the_answer(
    served: Gateway, shopper: Caller
) -> None:
    first = changed(served, shopper.token, pageSize=3)
    wanted = changed(served, shopper.token, pageSize=3, cursor=first.data["next_cursor"])
    again = changed(served, shopper.token, pageSize=3, next_cursor=first.data["next_cursor"])
    assert numbers_of(again) == numbers_of(wanted) != numbers_of(first)


@pytest.mark.parametrize("name", ["page", "page_num", "offset", "current"])
def test_100_the_number_of_a_page_is_no_cursor(served: Gateway, shopper: Caller, name: str) -> None:
    reply = changed(served, shopper.token, **{name: 2})
    assert (reply.code, reply.data) == (100, {})
    assert name in reply.msg and "cursor" in reply.msg
    assert credits_left(served.store, shopper) == CREDITS


def test_0_no_change_is_missed_or_given_twice_while_others_are_pushed(
    served: Gateway, secret: str
) -> None:
    shopper = new_shopper(served.store, credits_=100_000, rate_limit=100_000)
    _, cursor = _read_on(served, shopper, None)
    with ThreadPoolExecutor(2) as pushing:
        pushes = [pushing.submit(_push_many, served, secret, name) for name in "ab"]
        seen: list[tuple[str, int]] = []
        is_last = False
        while not is_last:
            is_last = all(each.done() for each in pushes)
            found, cursor = _read_on(served, shopper, cursor)
            seen += found
    for each in pushes:
        each.result()
    assert len(seen) == len(set(seen))
    assert dict(seen) == {f"both-{name}-{n:02}": 3 for name in "ab" for n in range(30)}


def _read_on(
    served: Gateway, shopper: Caller, cursor: str | None
) -> tuple[list[tuple[str, int]], str | None]:
    found: list[tuple[str, int]] = []
    while True:
        page = changed(served, shopper.token, pageSize=7, **({"cursor": cursor} if cursor else {}))
        found += [(each["order_sn"], each["order_status"]) for each in page.data["content"]]
        cursor = page.data["next_cursor"]
        if not page.data["has_more"]:
            return found, cursor


def _push_many(served: Gateway, secret: str, name: str) -> None:
    """Thirty orders, each of which changes twice."""
    for status in (1, 2, 3):
        for first in range(0, 30, 5):
            orders = [
                order(f"both-{name}-{n:02}", order_status=status, updated_at=START_MS + status)
                for n in range(first, first + 5)
            ]
            message_id = f"{name}-{status}-{first}"
            body = msgspec.json.encode(orders)
            assert push(served, secret, body, message_id=message_id).status_code == 200

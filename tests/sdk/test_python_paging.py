"""Loops over orders with the Python SDK, while orders arrive, change and leave."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.gateway import Gateway
from tests.support.orders import OWNER, START_MS, new_shopper, order, put_orders
from tests.support.stores import Store
from tollway_client import Client

_MINUTE_MS = 60_000


@pytest.fixture
def shop(tmp_path: Any) -> Iterator[Gateway]:
    gateway = Gateway(Store(tmp_path / "tollway.db"))
    yield gateway
    assert gateway.stop() == 0


def _orders(numbers: range, **changes: Any) -> list[dict[str, Any]]:
    """Orders a minute apart, oldest first."""
    return [
        order(f"order-{n:06}", **{"confirm_time": START_MS + n * _MINUTE_MS, **changes})
        for n in numbers
    ]


def _numbers(gateway: Gateway, at: dict[int, Callable[[], object]], **filters: Any) -> list[str]:
    """The order numbers that a loop gives; `at` has what happens after so many of them."""
    caller = new_shopper(gateway.store)
    found = []
    with Client(caller.token, gateway.base_url) as client:
        for each in client.iter_orders(owner_id=OWNER, **filters):
            found.append(each.order_sn)
            if len(found) in at:
                at[len(found)]()
    return found


def test_ten_thousand_orders_are_given_once_each_while_others_arrive_and_change(
    shop: Gateway,
) -> None:
    store = shop.store
    for first in range(0, 10_000, 5000):
        put_orders(store, _orders(range(first, first + 5000)))
    batches = {
        # Newer ones arrive, late ones arrive among those already given, some change.
        150: lambda: put_orders(store, _orders(range(10_000, 10_130))),
        2_500: lambda: put_orders(
            store,
            [order(f"late-{n}", confirm_time=START_MS + 9_000 * _MINUTE_MS) for n in range(7)],
        ),
        5_000: lambda: put_orders(
            store, _orders(range(0, 6000, 50), order_status=2, updated_at=START_MS + 1)
        ),
        7_500: lambda: put_orders(store, _orders(range(10_130, 10_200))),
    }
    found = _numbers(shop, batches)
    assert len(found) == len(set(found))
    assert {f"order-{n:06}" for n in range(10_000)} <= set(found)
    assert [each for each in found if each.startswith("order")] == sorted(
        (each for each in found if each.startswith("order")), reverse=True
    )


def test_an_order_that_moves_up_while_the_loop_runs_is_not_missed(shop: Gateway) -> None:
    put_orders(shop.store, _orders(range(350)))
    moved = _orders(range(1), updated_at=START_MS + 1, confirm_time=START_MS + 340 * _MINUTE_MS)
    found = _numbers(shop, {100: lambda: put_orders(shop.store, moved)})
    assert sorted(found) == [f"order-{n:06}" for n in range(350)]


def test_more_orders_of_one_millisecond_than_a_page_has_are_all_given(shop: Gateway) -> None:
    put_orders(shop.store, _orders(range(50)))
    put_orders(shop.store, _orders(range(50, 300), confirm_time=START_MS + 50 * _MINUTE_MS))
    put_orders(shop.store, _orders(range(300, 350)))
    found = _numbers(shop, {})
    assert sorted(found) == [f"order-{n:06}" for n in range(350)]
    start, end = START_MS + 10 * _MINUTE_MS, START_MS + 51 * _MINUTE_MS
    assert len(_numbers(shop, {}, start_time=start, end_time=end)) == 290

"""A page of an embedded database is read in steps; a commit between them is not seen by half."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence

import pytest

from tests.support.coupons import NOON_S, claim, load_claims
from tests.support.orders import OWNER, START_MS, order, put_orders
from tests.support.stores import Store
from tollway.operations.coupon_claims.queries import ClaimPages, JoinedPage, Window
from tollway.operations.orders.positions import Filter
from tollway.operations.orders.queries import OrderPages
from tollway.store.sqlite.database import SqliteDatabase
from tollway.telemetry.metrics import Metrics

pytestmark = pytest.mark.sqlite

_HOUR_MS = 3_600_000
_EVERY_ORDER = Filter(OWNER, 0, START_MS * 2, None, None)
_HOUR_OF_CLAIMS = Window("s1", 4, NOON_S, NOON_S + 3600)


@pytest.mark.parametrize("step", [1, 2, 3])
def test_a_page_of_orders_during_a_push_is_of_one_moment(own_store: Store, step: int) -> None:
    put_orders(own_store, [order("a"), order("b")])

    def push() -> None:
        later = [
            order(f"new-{hours}", confirm_time=START_MS + hours * _HOUR_MS) for hours in range(30)
        ]
        put_orders(own_store, later)

    async def read(database: SqliteDatabase) -> tuple[int, Sequence[object]]:
        total, (joined,) = await OrderPages(database).read(_EVERY_ORDER, 0, 100)
        return total, joined.split(b'"order_sn"')[1:]

    total, listed = _read(own_store, step, push, read)
    assert (total, listed) in [(2, 2), (32, 32)]


@pytest.mark.parametrize("step", [1, 2])
def test_a_page_of_claims_during_a_push_is_of_one_moment(own_store: Store, step: int) -> None:
    load_claims(own_store, [claim("a", NOON_S), claim("b", NOON_S)])

    def push() -> None:
        load_claims(own_store, [claim(f"new-{second}", NOON_S + second) for second in range(30)])

    total, listed = _read(
        own_store, step, push, lambda db: ClaimPages(db).read(_HOUR_OF_CLAIMS, 0, 100)
    )
    assert (total, listed) in [(2, 2), (32, 32)]


def _read(
    store: Store,
    step: int,
    push: Callable[[], None],
    read: Callable[[SqliteDatabase], Awaitable[tuple[int, Sequence[object]]]],
) -> tuple[int, int]:
    """The total and the number of rows of a page, with a push just before a step of reading it."""
    selects = 0

    def before_each(_cursor: object, statement: str, _values: object) -> bool:
        nonlocal selects
        selects += statement.startswith("SELECT")
        if selects == step:
            selects += 1
            # In a thread: this one runs an event loop.
            pushing = threading.Thread(target=push)
            pushing.start()
            pushing.join()
        return True

    async def work() -> tuple[int, int]:
        database = SqliteDatabase(str(store.path), 10, Metrics())
        assert database._records is not None
        for connection in (database._reader, database._records.opened()):
            connection.raw.exec_trace = before_each
        total, rows = await read(database)
        assert selects > step, "it was read in fewer steps"
        await database.close()
        return total, len(rows)

    return asyncio.run(work())


def test_joined_claims_follow_what_another_process_stores(own_store: Store) -> None:
    """The positions in memory are found again once their version has changed."""
    load_claims(own_store, [claim("a", NOON_S), claim("b", NOON_S)])

    async def work() -> list[tuple[int, int]]:
        database = SqliteDatabase(str(own_store.path), 10, Metrics())
        pages, found = ClaimPages(database), []
        for _ in range(2):
            page = await pages.read_joined(_HOUR_OF_CLAIMS, JoinedPage(0, 100, 0, b"|"))
            assert page is not None
            found.append((page[0], len(page[1].split(b"|"))))
            await asyncio.to_thread(load_claims, own_store, [claim("c", NOON_S + 1)])
        await database.close()
        return found

    assert asyncio.run(work()) == [(2, 2), (3, 3)]

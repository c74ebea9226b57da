"""Where pages begin is kept in memory: what changes after that is seen by the next page."""

import asyncio
import json
import sys
from functools import partial
from itertools import count
from types import SimpleNamespace
from typing import cast
from zoneinfo import ZoneInfo

import pytest

from tests.support.coupons import NOON_S, claim, load_claims, put_claims
from tests.support.handlers import result_of
from tests.support.orders import OWNER, START_MS, order, put_orders
from tests.support.stores import Store
from tests.support.work import work_of
from tollway.contract.operation import CallInfo
from tollway.operations.coupon_claims import queries
from tollway.operations.coupon_claims.counts import forget_hours
from tollway.operations.coupon_claims.handler import CouponClaimsHandler
from tollway.operations.coupon_claims.operation import CouponClaimsRequest
from tollway.operations.coupon_claims.queries import ClaimPages, JoinedPage, Window
from tollway.operations.orders import day_counts, positions
from tollway.operations.orders.counted_hours import hours_of
from tollway.operations.orders.counts import forget_days
from tollway.operations.orders.day_counts import DayCounts
from tollway.operations.orders.positions import Filter
from tollway.operations.orders.queries import OrderPages
from tollway.operations.orders.schema import DAY_MS, HOUR_MS
from tollway.store.database import Database, Row, StoreBusyError
from tollway.store.open import OpenDatabase

FIRST_MS = START_MS // DAY_MS * DAY_MS
DAYS = 40
BUSY = 400
WINDOWS = {
    "whole days": (FIRST_MS, FIRST_MS + DAYS * DAY_MS),
    "whole hours": (FIRST_MS + 5 * HOUR_MS, FIRST_MS + DAYS * DAY_MS - 3 * HOUR_MS),
    "any": (FIRST_MS + 12_345, FIRST_MS + DAYS * DAY_MS - 54_321),
    "to a whole hour": (FIRST_MS + 12_345, FIRST_MS + DAYS * DAY_MS - 3 * HOUR_MS),
}


async def order_numbers(pages: OrderPages, window: tuple[int, int], size: int) -> list[str]:
    """All orders of a window, page by page."""
    found: list[str] = []
    while True:
        wanted = Filter(OWNER, *window, None, None)
        total, ready = await pages.read(wanted, len(found), size, b"0},")
        text = b"".join(ready).decode()
        coming = [part.split('"')[0] for part in text.split('"order_sn":"')[1:]]
        found += coming
        if not coming:
            assert len(found) == total
            return found


@pytest.mark.postgresql
def test_a_page_that_was_read_is_answered_if_the_counts_cannot_be_learnt(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_orders(store, [order("learnt-later")])

    async def fail(*_: object) -> None:
        raise StoreBusyError("all connections for reads are in use")

    monkeypatch.setattr(positions.Positions, "learn", fail)

    async def work(database: Database) -> tuple[int, int]:
        wanted = Filter(OWNER, FIRST_MS, FIRST_MS + DAY_MS, None, None)
        total, ready = await OrderPages(database).read(wanted, 0, 1)
        return total, len(ready)

    total, read = store.do(work)
    assert total >= read == 1


@pytest.mark.parametrize("window", WINDOWS)
def test_pages_of_orders_follow_every_change(own_store: Store, window: str) -> None:
    start, end = WINDOWS[window]
    # Three on each day, at times that no two days share.
    times = {
        f"sn-{day:02}-{number}": FIRST_MS + day * DAY_MS + number * 7 * HOUR_MS + day * 61_000
        for day in range(DAYS)
        for number in range(3)
    }

    def expected() -> list[str]:
        asked = [sn for sn, time in times.items() if start <= time < end]
        return sorted(asked, key=lambda sn: (-times[sn], sn))

    versions = count(START_MS)

    def put(*numbers: str) -> None:
        updated_at = next(versions)
        put_orders(
            own_store,
            [order(sn, confirm_time=times[sn], updated_at=updated_at) for sn in numbers],
        )

    put(*times)

    async def work(database: Database) -> None:
        pages = OrderPages(database)
        for size in (7, 50, 50):
            assert await order_numbers(pages, (start, end), size) == expected()
        times["new"] = FIRST_MS + 20 * DAY_MS + 1
        await asyncio.to_thread(put, "new")
        assert await order_numbers(pages, (start, end), 50) == expected()
        # From one side of the beginning of a window to the other: its hour has as many as before.
        times["moves"] = FIRST_MS + 1
        await asyncio.to_thread(put, "moves")
        assert await order_numbers(pages, (start, end), 50) == expected()
        times["moves"] = FIRST_MS + 20_000
        await asyncio.to_thread(put, "moves")
        assert await order_numbers(pages, (start, end), 50) == expected()

    own_store.do(work)


def test_pages_within_a_busy_hour_follow_every_change(own_store: Store) -> None:
    """Also those that leave the number of orders as it is: one changes its place in the hour."""
    # Every eighth has the same time as the one before.
    times = {f"sn-{n:03}": FIRST_MS + n * 9000 - n % 8 // 7 * 9000 for n in range(BUSY)}
    day = FIRST_MS, FIRST_MS + DAY_MS

    def expected() -> list[str]:
        return sorted(times, key=lambda sn: (-times[sn], sn))

    put_orders(own_store, [order(sn, confirm_time=time) for sn, time in times.items()])

    def move(changes: dict[str, int]) -> None:
        times.update(changes)
        again = [
            order(sn, confirm_time=time, updated_at=START_MS + DAY_MS)
            for sn, time in changes.items()
        ]
        put_orders(own_store, again)

    async def work(database: Database) -> None:
        pages = OrderPages(database)
        for size in (50, 50, 7, 20, 33, 1):
            assert await order_numbers(pages, day, size) == expected()
        # To the other side of all marks.
        await asyncio.to_thread(move, {"sn-001": FIRST_MS + 3_590_000})
        for size in (50, 7):
            assert await order_numbers(pages, day, size) == expected()

    own_store.do(work)


async def test_a_claim_that_moves_within_its_hour_is_counted_again(own_database: Database) -> None:
    """The counts of hours stay as they are, but not that of the part in which a window begins."""
    handler = CouponClaimsHandler(own_database, ZoneInfo("Asia/Shanghai"))

    async def found() -> list[tuple[int, list[str]]]:
        answers = [
            json.loads(await result_of(handler(request, CallInfo("acc", 1))))
            for request in (
                CouponClaimsRequest(NOON_S + 1800, NOON_S + 7200, page, 1, "s1", 4)
                for page in (1, 2)
            )
        ]
        return [
            (each["total"], [claim["couponCode"] for claim in each["dataList"]]) for each in answers
        ]

    await put_claims(own_database, [claim("stays", NOON_S + 3600), claim("moves", NOON_S + 60)])
    for _ in range(2):
        assert await found() == [(1, ["stays"]), (1, [])]
    await put_claims(own_database, [claim("moves", NOON_S + 3000)])
    assert await found() == [(2, ["stays"]), (2, ["moves"])]


@pytest.mark.sqlite
def test_a_page_that_was_read_before_skips_few_orders(own_store: Store) -> None:
    put_orders(own_store, [order(f"{n:03}", confirm_time=FIRST_MS + n) for n in range(BUSY)])
    wanted = Filter(OWNER, FIRST_MS, FIRST_MS + DAY_MS, None, None)

    async def work(database: OpenDatabase) -> None:
        pages = OrderPages(database)

        async def steps(offset: int) -> int:
            return await work_of(database, lambda: pages.read(wanted, offset, 5))

        await steps(0)
        first, far = await steps(0), await steps(BUSY - 50)
        assert far > 2 * first
        again, following = await steps(BUSY - 50), await steps(BUSY - 45)
        # As many as a mark may be away, and one look at the times of the page's ends.
        assert max(again, following) < 2 * first < far

    own_store.do(work)


@pytest.mark.sqlite
def test_orders_of_one_moment_are_not_all_counted(own_store: Store) -> None:
    wanted = Filter(OWNER, FIRST_MS, FIRST_MS + DAY_MS, None, None)

    async def steps(database: OpenDatabase) -> int:
        pages = OrderPages(database)
        await pages.read(wanted, 0, 50)
        return await work_of(database, lambda: pages.read(wanted, 0, 50))

    def put(first: int, end: int) -> None:
        put_orders(own_store, [order(f"{n:04}", confirm_time=FIRST_MS) for n in range(first, end)])

    put(0, BUSY)
    few = own_store.do(steps)
    put(BUSY, 4 * BUSY)
    assert own_store.do(steps) < 1.5 * few


@pytest.mark.postgresql
def test_pages_follow_counts_that_are_removed_for_all_at_once(own_store: Store) -> None:
    hours = Window("s1", 4, NOON_S, NOON_S + 48 * 3600)
    put_orders(own_store, [order(f"{n}", confirm_time=FIRST_MS + n * DAY_MS) for n in range(2)])
    load_claims(own_store, [claim("old", NOON_S), claim("b", NOON_S + 86_400)])

    async def work(database: Database) -> None:
        orders, claims = OrderPages(database), ClaimPages(database)

        async def totals() -> tuple[int, int]:
            wanted = Filter(OWNER, *WINDOWS["whole days"], None, None)
            of_orders, _ = await orders.read(wanted, 0, 9)
            joined = await claims.read_joined(hours, JoinedPage(0, 9, 0, b"|"))
            of_claims = joined[0] if joined else (await claims.read(hours, 0, 9))[0]
            return of_orders, of_claims

        for _ in range(3):
            assert await totals() == (2, 2)
        await database.write(partial(forget_days, start_ms=FIRST_MS, end_ms=FIRST_MS + DAY_MS))
        await database.write(partial(forget_hours, start_s=NOON_S, end_s=NOON_S + 3600))
        assert await totals() == (1, 1)

    own_store.do(work)


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
@pytest.mark.sqlite
def test_lists_that_do_not_exist_take_no_memory_for_ever(dialect: str) -> None:
    async def no_rows(*_: object, **_values: object) -> list[Row]:
        return []

    async def ask(count: int) -> int:
        """How many things are in memory after so many calls."""
        pages = ClaimPages(
            cast(Database, SimpleNamespace(dialect=dialect, row_at_once=None, fetch_all=no_rows))
        )
        for number in range(count):
            window = Window(f"invented {number}", 4, NOON_S, NOON_S + 3600)
            assert await pages.read_joined(window, JoinedPage(0, 9, 0, b"|")) is None
        return sum(len(kept) for kept in vars(pages).values() if isinstance(kept, dict))

    assert asyncio.run(ask(40_000)) <= 10_000


@pytest.mark.sqlite
def test_of_more_days_than_are_kept_the_last_ones_read_stay() -> None:
    most = day_counts._HOURS_OF_DAYS_MAX
    known = DayCounts(1, [])
    for day in range(most):
        known.keep_hours(day, hours_of([]))
    # It is read again, and so no longer the first to go.
    known.keep_hours(0, hours_of([]))
    for day in range(most, most + 10):
        known.keep_hours(day, hours_of([]))
    assert set(known.hours) == {0, *range(11, most + 10)}


@pytest.mark.sqlite
def test_hours_count_as_what_they_take(monkeypatch: pytest.MonkeyPatch) -> None:
    units = 10_000
    monkeypatch.setattr(positions, "_KEPT_MAX", units)
    hours = hours_of([(number, 1) for number in range(24)])
    # With its place in a dict, whose table is at least a third empty.
    size_of_day = sys.getsizeof(hours) + 2 * 3 * 8 + sys.getsizeof(2**40)
    kept, most = positions.Positions(), 0
    for number in range(100):
        known = kept._known["shop", f"tag {number}"] = DayCounts(1, [])
        for day in range(32):
            known.keep_hours(day, hours)
        kept._forget_if_many(known)
        most = max(most, sum(len(each.hours) for each in kept._known.values()))
    assert most * size_of_day < units * 16 + 32 * size_of_day
    # Nor is the cache emptied long before.
    assert most * size_of_day > units * 16 / 2


def test_any_number_of_windows_leaves_the_counts_in_memory(
    own_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who asks for what came since the last time has another window each time."""
    monkeypatch.setattr(positions, "_KEPT_MAX", 10_000)
    monkeypatch.setattr(queries, "_KEPT_MAX", 10_000)
    put_orders(own_store, [order(f"{n}", confirm_time=FIRST_MS + n * DAY_MS) for n in range(9)])
    load_claims(own_store, [claim(f"{n}", NOON_S + n * 3600) for n in range(9)])

    async def work(database: Database) -> None:
        orders, claims = OrderPages(database), ClaimPages(database)
        for n in range(1000):
            wanted = Filter(OWNER, FIRST_MS + n + 1, FIRST_MS + 9 * DAY_MS - n - 1, None, None)
            assert (await orders.read(wanted, 0, 9))[0] == 8
            window = Window("s1", 4, NOON_S + n + 1, NOON_S + 9 * 3600 - n - 1)
            page = await claims.read_joined(window, JoinedPage(0, 9, 0, b"|"))
            assert page is not None and page[0] == 8
            if n == 0:
                known = *orders._positions._known.values(), *claims._known.values()
        assert known == (*orders._positions._known.values(), *claims._known.values())

    own_store.do(work)

"""Any page at the cost of the first: counted in work that the machine's mood does not change."""

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import msgspec
import pytest
from sqlalchemy import bindparam, select

from tests.support.coupons import NOON_S, WEEK_S, claim, put_claims
from tests.support.handlers import result_of
from tests.support.orders import OWNER, START_MS, order, put_orders
from tests.support.stores import Store
from tests.support.work import work_of
from tollway.contract.operation import CallInfo
from tollway.operations.coupon_claims.handler import CouponClaimsHandler
from tollway.operations.coupon_claims.operation import CouponClaimsRequest
from tollway.operations.orders.handler import OrdersHandler
from tollway.operations.orders.operation import OrdersRequest
from tollway.operations.orders.schema import shop_order
from tollway.store.open import OpenDatabase
from tollway.store.query import Query

SHANGHAI = ZoneInfo("Asia/Shanghai")
CALLER = CallInfo("acc", 1)
ROWS = 10_000
PAGE = 50
RATIO_MAX = 1.5
# The rows of one hour that come before the page, and where a block happens to end. In steps, this
# is nothing.
BLOCKS_MORE = 4
# Neither the first nor the last order stands at the beginning of an hour.
APART_MS = 300_007
FIRST_MS = START_MS + 1_234_567
NAMED_EVERY = 5
# Its key is found in an index, and then the order itself, which takes 30; sorting takes 13 more.
STEPS_PER_TAGGED_ORDER = 36
NAIVE = Query(
    select(shop_order.c.order_sn)
    .where(shop_order.c.owner_id == bindparam("owner"))
    .order_by(shop_order.c.newest_first, shop_order.c.order_sn)
    .limit(bindparam("take"))
    .offset(bindparam("skip"))
)


class Case(NamedTuple):
    title: str
    filters: dict[str, Any]
    total: int


def at_ms(number: int) -> int:
    return FIRST_MS + number * APART_MS


CUT = {"start_time": at_ms(150), "end_time": at_ms(ROWS - 150)}
CASES = [
    Case("all", {}, ROWS),
    Case("window", CUT, ROWS - 300),
    Case("tag", {"remarkTag": 1}, ROWS),
    Case("tag name", {"remarkTagName": "急"}, ROWS // NAMED_EVERY),
    Case(
        "tag, name and window",
        {**CUT, "remarkTag": 1, "remarkTagName": "急"},
        (ROWS - 300) // NAMED_EVERY,
    ),
]


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory, engine: str) -> Store:
    """A shop with many orders, and a sid with many claims."""
    store = Store(tmp_path_factory.mktemp("costs") / "tollway.db")
    put_orders(
        store,
        (
            order(
                f"sn-{n:06}",
                confirm_time=at_ms(n),
                remark_tag=1,
                remark_tag_name=None if n % NAMED_EVERY else "急",
            )
            for n in range(ROWS)
        ),
    )
    claims = [claim(f"c{n:06}", NOON_S + n * WEEK_S // ROWS) for n in range(ROWS)]
    store.do(lambda database: put_claims(database, claims))
    if store.is_shared:
        store.run("VACUUM ANALYZE")
    return store


def assert_even(work: Sequence[int]) -> None:
    assert max(work) <= RATIO_MAX * work[0] + BLOCKS_MORE, work


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_the_last_page_of_orders_is_as_much_work_as_the_first(full: Store, case: Case) -> None:
    last = case.total // PAGE - 1

    async def measure(database: OpenDatabase) -> list[int]:
        handler = OrdersHandler(database, SHANGHAI)
        work = []
        for page in (0, last // 2, last):
            request = OrdersRequest(OWNER, page=page, pageSize=PAGE, **case.filters)
            data = msgspec.json.decode((await result_of(handler(request, CALLER))).data)
            assert (data["totalElements"], len(data["content"])) == (case.total, PAGE)
            work.append(
                await work_of(database, lambda asked=request: result_of(handler(asked, CALLER)))
            )
        return work

    assert_even(full.do(measure))


@pytest.mark.sqlite
@pytest.mark.parametrize(
    "filters",
    [{"remarkTag": 1}, {"remarkTagName": "急"}, {"remarkTag": 1, "remarkTagName": "急"}],
    ids=["tag", "tag name", "both"],
)
def test_a_page_by_tag_sorts_no_orders(full: Store, filters: dict[str, Any]) -> None:
    async def measure(database: OpenDatabase) -> int:
        handler = OrdersHandler(database, SHANGHAI)
        request = OrdersRequest(OWNER, page=0, pageSize=PAGE, **filters)
        await result_of(handler(request, CALLER))
        return await work_of(database, lambda: result_of(handler(request, CALLER)))

    assert full.do(measure) <= STEPS_PER_TAGGED_ORDER * PAGE


@pytest.mark.parametrize("cut_s", [0, 1800])
def test_the_last_page_of_claims_is_as_much_work_as_the_first(full: Store, cut_s: int) -> None:
    async def measure(database: OpenDatabase) -> list[int]:
        handler = CouponClaimsHandler(database, SHANGHAI)

        def asked(page: int) -> CouponClaimsRequest:
            start_s, end_s = NOON_S + cut_s, NOON_S + WEEK_S - cut_s
            return CouponClaimsRequest(start_s, end_s, page, PAGE, "s1", 4)

        total = msgspec.json.decode(await result_of(handler(asked(1), CALLER)))["total"]
        last = total // PAGE
        return [
            await work_of(database, lambda page=page: result_of(handler(asked(page), CALLER)))
            for page in (1, last // 2, last)
        ]

    assert_even(full.do(measure))


@pytest.mark.postgresql
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_pages_of_orders_that_are_read_together_are_no_more_work_than_alone(
    full: Store, case: Case
) -> None:
    pages = range(0, case.total // PAGE, max(1, case.total // PAGE // 8))

    async def measure(database: OpenDatabase) -> tuple[int, int]:
        handler = OrdersHandler(database, SHANGHAI)

        async def ask(page: int) -> None:
            await handler(OrdersRequest(OWNER, page=page, pageSize=PAGE, **case.filters), CALLER)

        async def ask_at_once() -> None:
            await asyncio.gather(*map(ask, pages))

        # By then it knows where they begin.
        await ask_at_once()
        alone = [await work_of(database, lambda page=page: ask(page)) for page in pages]
        return sum(alone), await work_of(database, ask_at_once)

    alone, together = full.do(measure)
    assert together <= alone + BLOCKS_MORE * len(pages)


def test_skipping_rows_would_be_noticed(full: Store) -> None:
    async def measure(database: OpenDatabase) -> list[int]:
        return [
            await work_of(
                database,
                lambda skip=skip: database.fetch_all(NAIVE, owner=OWNER, take=PAGE, skip=skip),
            )
            for skip in (0, ROWS - PAGE)
        ]

    with pytest.raises(AssertionError):
        assert_even(full.do(measure))

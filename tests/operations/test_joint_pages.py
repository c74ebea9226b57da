"""Calls that read at the same moment share a statement: each answers as it would alone."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import date, timedelta
from random import Random
from typing import Any

import pytest

from tests.support.all_operations import SHANGHAI, small_world
from tests.support.stores import Store
from tollway.contract.operation import CallInfo
from tollway.demo.owners import SHOP
from tollway.ledger.usage import day_start_s
from tollway.operations.coupon_claims.demo import SIDS
from tollway.operations.coupon_claims.handler import CouponClaimsHandler
from tollway.operations.coupon_claims.operation import CouponClaimsRequest
from tollway.operations.orders.handler import OrdersHandler
from tollway.operations.orders.operation import OrdersRequest
from tollway.operations.product_analysis.demo import fill_figures, product_ids
from tollway.operations.product_analysis.queries import FigureCache
from tollway.operations.product_analysis.series import series_of
from tollway.operations.promotion_material.queries import read_page
from tollway.store.cache_versions import Versions
from tollway.store.database import Row
from tollway.store.postgresql.database import PostgresqlDatabase
from tollway.store.postgresql.joint_reads import JointReads

pytestmark = pytest.mark.postgresql

CALLER = CallInfo("acc", 1)
DAYS = 12
READS = 24
Ask = Callable[[], Awaitable[object]]
Statement = tuple[str, tuple[Any, ...]]


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory, today: date, engine: str) -> Store:
    store = small_world(Store(tmp_path_factory.mktemp("joint") / "tollway.db"), today)
    store.do(lambda database: fill_figures(database, products=3, days=DAYS, last=today))
    return store


def order_pages(database: PostgresqlDatabase, _: date, random: Random) -> list[Ask]:
    handler = OrdersHandler(database, SHANGHAI)

    def ask(filters: dict[str, Any], page: int, size: int) -> Ask:
        return lambda: handler(OrdersRequest(SHOP.id, page=page, pageSize=size, **filters), CALLER)

    filters: list[dict[str, Any]] = [
        {},
        {"remarkTag": 2},
        {"remarkTagName": "加急"},
        {"remarkTag": 2, "remarkTagName": "加急"},
    ]
    return [ask(each, random.randrange(4), random.choice((1, 3, 5))) for each in filters * 6]


def claim_pages(database: PostgresqlDatabase, today: date, random: Random) -> list[Ask]:
    handler = CouponClaimsHandler(database, SHANGHAI)

    def ask(sid: str, claim_type: int, back: int, page: int) -> Ask:
        start_s, end_s = (day_start_s(today - timedelta(days=n), SHANGHAI) for n in (back, 0))
        asked = CouponClaimsRequest(start_s, end_s, page, 3, sid, claim_type)
        return lambda: handler(asked, CALLER)

    sids = (*SIDS[:2], "unknown")
    return [
        ask(random.choice(sids), random.choice((4, 6)), random.choice((1, 2)), random.randint(1, 3))
        for _ in range(READS)
    ]


def material_pages(database: PostgresqlDatabase, today: date, random: Random) -> list[Ask]:
    def ask(promotion: int, now_s: int, page: int, size: int) -> Ask:
        return lambda: read_page(database, promotion, now_s * 1000, page=page, size=size)

    now_s = day_start_s(today, SHANGHAI)
    promotions = (37104, 37116, 99)
    return [
        ask(random.choice(promotions), now_s + random.choice((0, 86_400 * 900)), page, size)
        for page in (1, 2, 3)
        for size in (1, 2)
        for _ in range(READS // 6)
    ]


def figures(database: PostgresqlDatabase, today: date, random: Random) -> list[Ask]:
    versions = Versions(database)
    known: list[FigureCache] = []

    def ask(product_id: str, day: date) -> Ask:
        async def read() -> object:
            if not known:
                await versions.refresh()
                known.append(FigureCache(versions.figures))
            found = await known[0].read(database, product_id, day, series_of(day))
            return found and (found.product, found.parts, found.days.figures.get(day.toordinal()))

        return read

    ids = (*product_ids(3), "unknown")
    days = [today - timedelta(days=random.randrange(DAYS + 2)) for _ in range(READS)]
    return [ask(random.choice(ids), day) for day in days]


OPERATIONS = [order_pages, claim_pages, material_pages, figures]


class Watched:
    """What a database is asked by joint reads."""

    def __init__(self, database: PostgresqlDatabase) -> None:
        self.statements: list[Statement] = []
        self._database = database
        database._joint_reads = JointReads(self._send, None)

    async def _send(
        self, text: str, arguments: tuple[Any, ...], within_s: float | None = None
    ) -> list[Row]:
        self.statements.append((text, arguments))
        return await self._database._send_read(text, arguments, within_s)

    def taken(self) -> list[Statement]:
        statements, self.statements = self.statements, []
        return statements


async def one_by_one(asks: Sequence[Ask]) -> list[object]:
    return [await ask() for ask in asks]


async def at_once(asks: Sequence[Ask]) -> list[object]:
    return list(await asyncio.gather(*(ask() for ask in asks)))


def is_joint(statement: Statement) -> bool:
    return "unnest" in statement[0]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.__name__)
def test_calls_that_read_together_answer_as_each_alone(
    full: Store, today: date, operation: Callable[..., list[Ask]], seed: int
) -> None:
    async def work(database: PostgresqlDatabase) -> None:
        watched = Watched(database)
        asks = operation(database, today, Random(seed))
        # What is learnt with the first answers is known by then.
        await one_by_one(asks)
        watched.taken()
        alone = await one_by_one(asks)
        assert not any(map(is_joint, watched.taken()))
        assert await at_once(asks) == alone
        assert any(map(is_joint, watched.taken()))

    full.do(work)

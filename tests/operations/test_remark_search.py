"""A search in remarks reads few pages, although long remarks are not in its index."""

from zoneinfo import ZoneInfo

import msgspec
import pytest

from tests.support.handlers import result_of
from tests.support.orders import OWNER, START_MS, order, put_orders
from tests.support.stores import Store
from tests.support.work import work_of
from tollway.contract.operation import CallInfo
from tollway.operations.orders.handler import OrdersHandler
from tollway.operations.orders.operation import OrdersRequest
from tollway.store.open import OpenDatabase

pytestmark = pytest.mark.postgresql

ORDERS = 15_000
LONG_EVERY = 1000
# The orders of a shop lie between those of others.
SHOPS = 5


def long_remark(number: int) -> str:
    return f"缺货{number}" + "".join(map(chr, range(0x4E00 + number, 0x4E00 + number + 900)))


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory, engine: str) -> Store:
    store = Store(tmp_path_factory.mktemp("remarks") / "tollway.db")
    put_orders(
        store,
        (
            order(
                f"sn-{n:06}",
                owner_id=OWNER if n % SHOPS == 0 else f"shop-{n % SHOPS}",
                confirm_time=START_MS + n * 60_000,
                remark=f"周末送货 {n}" if n % LONG_EVERY else long_remark(n),
            )
            for n in range(ORDERS)
        ),
    )
    store.run("VACUUM ANALYZE")
    return store


def test_a_search_looks_at_far_fewer_blocks_than_there_are_remarks(full: Store) -> None:
    remarks, long_ones = ORDERS // SHOPS, ORDERS // LONG_EVERY

    async def measure(database: OpenDatabase) -> int:
        handler = OrdersHandler(database, ZoneInfo("Asia/Shanghai"))

        async def found(part: str) -> int:
            request = OrdersRequest(OWNER, remark=part)
            answer = await result_of(handler(request, CallInfo("acc", 1)))
            return int(msgspec.json.decode(answer.data)["totalElements"])

        assert await found("送货") == remarks - long_ones
        assert await found("缺货") == long_ones
        return await work_of(database, lambda: found("没有"))

    # For the total and for the page: the index of short remarks, and each long one where it lies.
    most = 2 * (remarks // 30 + 6 * long_ones)
    assert full.do(measure) <= most
    full.run("DROP INDEX shop_order_remark")
    assert full.do(measure) > most, "the control looks at the orders themselves"

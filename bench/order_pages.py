"""Does any page of orders cost as much as the first?

Loads many orders into one shop of a scratch database and reads its first, middle and last full
page, as the operation's handler does: without a filter, within time windows, and by tags. With the
4,000,000 orders of the default the last full page is page 39,999. Every order has tag 1, so that
this page exists with a tag as well; every tenth has a tag name. Totals and what the pages hold
are checked. On SQLite what is measured is the processor time of this process, which other users of
the machine change least; on PostgreSQL it is the time on the clock, since the server does the
reading. Ends with status 1 if a page takes 1.5 times the first one or more than the
goal, which is 400 µs.

`--database postgresql://…` measures on PostgreSQL instead; the database must be a new one, and
keeps the orders.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from decimal import Decimal
from typing import NamedTuple
from zoneinfo import ZoneInfo

import msgspec

from tests.support.handlers import result_of
from tollway.contract.operation import CallInfo
from tollway.operations.orders.handler import OrdersHandler
from tollway.operations.orders.operation import OrdersRequest
from tollway.operations.orders.records import OrderRecord, rows_of
from tollway.operations.orders.storage import CHUNK_ORDERS, OrderLoader
from tollway.store.migrate import migrate
from tollway.store.open import OpenDatabase, open_database, open_sealer
from tollway.store.sealing import Sealer
from tollway.telemetry.metrics import Metrics

OWNER = "301580001"
Clock = Callable[[], float]
# Neither the first nor the last order is at the beginning of an hour.
START_MS = 1_735_660_800_000 + 1_234_567
SPAN_MS = 365 * 86_400_000
PAGE_SIZE = 100
COST_US_MAX, RATIO_MAX = 400, 1.5
TAG_NAME = "加急"
_NAMED_EVERY = 10


class Case(NamedTuple):
    """A query, and the numbers of the orders that it must find, the oldest first."""

    title: str
    filters: dict[str, object]
    found: range


class Highest(NamedTuple):
    """What the dearest page took, and the highest ratio to the first page."""

    cost_us: float
    ratio: float


def at_ms(number: int, count: int) -> int:
    """When an order was confirmed: they are spread evenly over a year."""
    return START_MS + number * SPAN_MS // count


def order_sn(number: int) -> str:
    return f"25-{number:013}"


def order_record(number: int, time_ms: int) -> OrderRecord:
    return OrderRecord(
        owner_id=OWNER,
        order_sn=order_sn(number),
        updated_at=time_ms,
        confirm_time=time_ms,
        order_status=3,
        receiver_name="王小明",
        receiver_phone="13812345678",
        receiver_address="文三路478号3幢1201室",
        goods_name="加厚纯棉四件套",
        pay_amount=Decimal("259"),
        goods_img="https://img.tollway.example/goods/1.jpg",
        goods_spec="1.8m 床 雾蓝",
        province="浙江省",
        city="杭州市",
        town="西湖区",
        remark_tag=1,
        remark_tag_name=TAG_NAME if number % _NAMED_EVERY == 0 else None,
    )


def cases(count: int) -> list[Case]:
    """What is asked. A window's end is not in it, so one past the last order takes all of them."""
    every, named = range(count), range(0, count, _NAMED_EVERY)
    cut = range(count // 1000, count - count // 1000)
    around = {"start_time": at_ms(0, count), "end_time": at_ms(count - 1, count) + 1}
    within = {"start_time": at_ms(cut.start, count), "end_time": at_ms(cut.stop, count)}
    named_in_cut = range(-(-cut.start // _NAMED_EVERY) * _NAMED_EVERY, cut.stop, _NAMED_EVERY)
    return [
        Case("all", {}, every),
        Case("window around all", around, every),
        Case("window that cuts", within, cut),
        Case("tag", {"remarkTag": 1}, every),
        Case("tag and window around all", {**around, "remarkTag": 1}, every),
        Case("tag name", {"remarkTagName": TAG_NAME}, named),
        Case(
            "tag, name and window that cuts",
            {**within, "remarkTag": 1, "remarkTagName": TAG_NAME},
            named_in_cut,
        ),
    ]


async def load(
    database: OpenDatabase, sealer: Sealer, numbers: range, time_ms: Callable[[int], int]
) -> None:
    """Stores the orders with these numbers, in as large pieces as an import."""
    loader = OrderLoader(sealer)
    for first in range(0, len(numbers), CHUNK_ORDERS):
        piece = numbers[first : first + CHUNK_ORDERS]
        rows = rows_of([order_record(number, time_ms(number)) for number in piece], sealer)
        await database.write(lambda tx, rows=rows: loader.store(tx, rows))


async def costs(
    handler: OrdersHandler, requests: list[OrdersRequest], rounds: int, clock: Clock
) -> list[float]:
    """The median cost of each request in microseconds; alternating, so that changes of the
    machine affect all of them."""
    taken: list[list[float]] = [[] for _ in requests]
    for _ in range(rounds):
        for request, times in zip(requests, taken, strict=True):
            began_s = clock()
            await result_of(handler(request, CallInfo("bench", 1)))
            times.append((clock() - began_s) * 1e6)
    return [statistics.median(times) for times in taken]


async def check(handler: OrdersHandler, case: Case, page: int) -> None:
    """The total is exact, and the page holds exactly the right orders."""
    request = OrdersRequest(OWNER, page=page, **case.filters)
    answer = msgspec.json.decode((await result_of(handler(request, CallInfo("bench", 1)))).data)
    total, listed = answer["totalElements"], [each["order_sn"] for each in answer["content"]]
    assert total == len(case.found), f"{case.title}: the total is {total}, not {len(case.found)}"
    newest_first = case.found[::-1][page * PAGE_SIZE : (page + 1) * PAGE_SIZE]
    assert listed == [order_sn(number) for number in newest_first], f"{case.title}: page {page}"


async def measure(handler: OrdersHandler, case: Case, rounds: int, clock: Clock) -> Highest:
    """Prints what the pages cost."""
    last_full = len(case.found) // PAGE_SIZE - 1
    pages = [0, last_full // 2, last_full]
    for page in pages:
        await check(handler, case, page)
    asked = [OrdersRequest(OWNER, page=page, **case.filters) for page in pages]
    cost = await costs(handler, asked, rounds, clock)
    shown = ", ".join(
        f"page {page:,} {each:.0f} µs (x{each / cost[0]:.2f})"
        for page, each in zip(pages, cost, strict=True)
    )
    print(f"{case.title}: total {len(case.found):,}; {shown}", flush=True)
    return Highest(max(cost), max(cost) / cost[0])


async def main(url: str, count: int, rounds: int) -> Highest:
    with tempfile.TemporaryDirectory(prefix="tollway-bench-") as folder:
        url = url or f"sqlite:///{folder}/orders.db"
        database = open_database(url, Metrics())
        await migrate(database)
        sealer = open_sealer(url, f"{folder}/keys")
        began_s = time.perf_counter()
        await load(database, sealer, range(count), lambda number: at_ms(number, count))
        taken_s = time.perf_counter() - began_s
        print(f"{count:,} orders in one shop, made and stored in {taken_s:.0f} s", flush=True)
        handler = OrdersHandler(database, ZoneInfo("Asia/Shanghai"))
        clock = time.process_time if url.startswith("sqlite") else time.perf_counter
        found = [await measure(handler, case, rounds, clock) for case in cases(count)]
        await database.close()
        return Highest(*map(max, zip(*found, strict=True)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", default="", help="a temporary file by default")
    parser.add_argument("--orders", type=int, default=4_000_000, help="2,000 or more")
    parser.add_argument("--rounds", type=int, default=300)
    options = parser.parse_args()
    found = asyncio.run(main(options.database, options.orders, options.rounds))
    if found.cost_us > COST_US_MAX or found.ratio > RATIO_MAX:
        sys.exit(
            f"A page takes {found.cost_us:.0f} µs, and {found.ratio:.2f} times the first one; "
            f"{COST_US_MAX} and {RATIO_MAX} are the most."
        )

"""Does any page of orders cost as much as the first?

Loads many orders into one shop of a scratch database and reads its first, middle and last page, as
the operation's handler does: without a filter, within a time window, and with a tag. What counts
are the ratios to the first page; absolute times move from hour to hour.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Iterator
from decimal import Decimal
from itertools import islice
from zoneinfo import ZoneInfo

from tollway.contract.operation import Caller
from tollway.intake.order_record import OrderRecord, OrderRow, row_of
from tollway.intake.orders import CHUNK_ORDERS, Orders
from tollway.operations.orders.handler import OrdersHandler
from tollway.operations.orders.request import OrdersRequest
from tollway.store.migrate import migrate
from tollway.store.open import open_database, open_sealer
from tollway.store.sealing import Sealer
from tollway.store.sqlite.database import SqliteDatabase
from tollway.telemetry.metrics import Metrics

OWNER = "301580001"
START_MS = 1_735_660_800_000
YEAR_MS = 365 * 86_400_000
PAGE_SIZE = 100


def rows(count: int, sealer: Sealer) -> Iterator[OrderRow]:
    """Orders spread over a year; every tenth has a tag."""
    for number in range(count):
        at_ms = START_MS + number * YEAR_MS // count
        tag = 1 + number // 10 % 5 if number % 10 == 0 else None
        record = OrderRecord(
            owner_id=OWNER,
            order_sn=f"25-{number:013}",
            updated_at=at_ms,
            confirm_time=at_ms,
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
            remark_tag=tag,
            remark_tag_name=None if tag is None else "加急",
        )
        yield row_of(record, sealer)


async def load(database: SqliteDatabase, sealer: Sealer, count: int) -> float:
    loader, waiting = Orders(sealer), rows(count, sealer)
    began_s = time.perf_counter()
    while chunk := list(islice(waiting, CHUNK_ORDERS)):
        await database.write(lambda tx, chunk=chunk: loader.store(tx, chunk))
    return time.perf_counter() - began_s


async def costs(handler: OrdersHandler, requests: list[OrdersRequest], rounds: int) -> list[float]:
    """The median cost of each request in microseconds; asked in turns, so that all share the
    machine's moods."""
    taken: list[list[float]] = [[] for _ in requests]
    for _ in range(rounds):
        for request, times in zip(requests, taken, strict=True):
            began_s = time.perf_counter()
            await handler(request, Caller("bench", 1))
            times.append((time.perf_counter() - began_s) * 1e6)
    return [statistics.median(times) for times in taken]


async def main(count: int, rounds: int) -> None:
    with tempfile.TemporaryDirectory(prefix="tollway-bench-") as folder:
        url = f"sqlite:///{folder}/orders.db"
        database = open_database(url, Metrics())
        await migrate(database)
        sealer = open_sealer(url, "")
        taken_s = await load(database, sealer, count)
        print(f"{count:,} orders in one shop, made and stored in {taken_s:.0f} s")
        handler = OrdersHandler(database, sealer, ZoneInfo("Asia/Shanghai"))
        # Neither end of the window is the beginning of an hour.
        window = {"start_time": START_MS + 1_234_567, "end_time": START_MS + YEAR_MS - 7_654_321}
        inside = sum(
            window["start_time"] <= START_MS + n * YEAR_MS // count < window["end_time"]
            for n in range(count)
        )
        tagged = len(range(0, count, 50))
        for title, filters, total in (
            ("all", {}, count),
            ("time window", window, inside),
            ("tag", {"remarkTag": 1}, tagged),
            ("tag, name and window", {**window, "remarkTag": 3, "remarkTagName": "加急"}, None),
        ):
            first = OrdersRequest(OWNER, **filters)
            answer = await handler(first, Caller("bench", 1))
            found = int(answer.rsplit(b'"totalElements":', 1)[1].split(b",")[0])
            assert total in (found, None), f"the total is {found}, not {total}"
            last = (found - 1) // PAGE_SIZE
            pages = [0, last // 2, last - 1]
            asked = [OrdersRequest(OWNER, page=page, **filters) for page in pages]
            cost = await costs(handler, asked, rounds)
            told = ", ".join(
                f"page {page:,} {each:.0f} µs (x{each / cost[0]:.2f})"
                for page, each in zip(pages, cost, strict=True)
            )
            print(f"{title}: total {found:,}; {told}")
        await database.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--orders", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=300)
    options = parser.parse_args()
    asyncio.run(main(options.orders, options.rounds))

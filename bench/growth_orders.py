"""How the cost of a page of orders grows: with the orders stored, the page number, the length of
the time window, and filters.

Orders are read as the operation's handler reads them, from one shop in a file that grows. What is
measured is the processor time of this process, which neighbours on the machine hardly change.
"""

import gc
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from itertools import islice
from random import Random
from time import process_time
from zoneinfo import ZoneInfo

from bench.growth_curves import Curve
from bench.order_pages import OWNER, START_MS, TAG_NAME, order_record
from tests.support.handlers import result_of
from tollway.contract.operation import CallInfo
from tollway.operations.orders.handler import OrdersHandler
from tollway.operations.orders.operation import OrdersRequest
from tollway.operations.orders.records import OrderRow, row_of
from tollway.operations.orders.storage import CHUNK_ORDERS, OrderLoader
from tollway.store.migrate import migrate
from tollway.store.open import OpenDatabase, open_database, open_sealer
from tollway.store.sealing import Sealer
from tollway.telemetry.metrics import Metrics

PAGE = 20
# 10,000,000 orders take a year.
_SPACING_MS = 3153
_HOUR_MS = 3_600_000
_ROUNDS, _CALLS = 7, 100


def _rows(first: int, last: int, sealer: Sealer) -> Iterator[OrderRow]:
    for number in range(first, last):
        yield row_of(order_record(number, START_MS + number * _SPACING_MS), sealer)


async def _grow(database: OpenDatabase, sealer: Sealer, first: int, last: int) -> None:
    loader, waiting = OrderLoader(sealer), _rows(first, last, sealer)
    while chunk := list(islice(waiting, CHUNK_ORDERS)):
        await database.write(lambda tx, chunk=chunk: loader.store(tx, chunk))


async def _costs(handler: OrdersHandler, kinds: Sequence[Sequence[OrdersRequest]]) -> list[float]:
    """Microseconds per call of each kind of request; alternating, the median of the rounds."""
    taken: list[list[float]] = [[] for _ in kinds]
    info = CallInfo("bench", 1)
    gc.collect()
    for _ in range(_ROUNDS):
        for requests, times in zip(kinds, taken, strict=True):
            began_s = process_time()
            for request in requests:
                await result_of(handler(request, info))
            times.append((process_time() - began_s) / len(requests) * 1e6)
    return [statistics.median(times) for times in taken]


def _pages(count: int, **filters: object) -> list[OrdersRequest]:
    """Random pages of a list of so many orders."""
    last, chance = max(1, count // PAGE), Random(7)
    return [
        OrdersRequest(OWNER, page=chance.randrange(last), pageSize=PAGE, **filters)
        for _ in range(_CALLS)
    ]


async def order_curves(sizes: Sequence[int]) -> list[Curve]:
    with tempfile.TemporaryDirectory(prefix="tollway-bench-") as folder:
        url = f"sqlite:///{folder}/orders.db"
        database = open_database(url, Metrics())
        await migrate(database)
        sealer = open_sealer(url, f"{folder}/keys")
        handler = OrdersHandler(database, ZoneInfo("Asia/Shanghai"))
        stored, by_size = 0, []
        for size in sizes:
            await _grow(database, sealer, stored, size)
            stored = size
            by_size += await _costs(handler, [_pages(size)])
        curves = [
            Curve(
                "orders",
                "Orders stored in the shop that is read",
                "orders",
                "A page begins at a position that an index of counts knows, so what is stored "
                "before it is not read.",
                list(map(float, sizes)),
                {"page of 20 orders, random pages": by_size},
            ),
            await _by_page(handler, stored),
            await _by_window(handler, stored),
            await _by_filter(handler, stored),
        ]
        await database.close()
        return curves


async def _by_page(handler: OrdersHandler, count: int) -> Curve:
    last = count // PAGE - 1
    pages = sorted({min(last, 10**power) for power in range(8)} | {last})
    kinds = [[OrdersRequest(OWNER, page=page, pageSize=PAGE)] * _CALLS for page in [0, *pages]]
    return Curve(
        "page",
        f"Page number, of {count:,} orders",
        "page",
        "Where a page begins is found in the counts, whatever its number.",
        [0.0, *map(float, pages)],
        {"page of 20 orders": await _costs(handler, kinds)},
    )


async def _by_window(handler: OrdersHandler, count: int) -> Curve:
    """Windows around the middle that cut hours at both ends; pages within them at random."""
    span_ms = count * _SPACING_MS
    hours = [each for each in (1, 6, 24, 168, 720, 2160, 8760) if each * _HOUR_MS < span_ms]
    kinds = []
    for each in hours:
        start_ms = START_MS + (span_ms - each * _HOUR_MS) // 2 + 777
        window = {"start_time": start_ms, "end_time": start_ms + each * _HOUR_MS}
        kinds.append(_pages(each * _HOUR_MS // _SPACING_MS, **window))
    return Curve(
        "window",
        f"Length of the time window, of {count:,} orders",
        "hours",
        "Whole hours of a window are counted without being read; only its two ends are.",
        list(map(float, hours)),
        {"page of 20 orders in the window": await _costs(handler, kinds)},
    )


async def _by_filter(handler: OrdersHandler, count: int) -> Curve:
    window = {"start_time": START_MS + 777, "end_time": START_MS + count * _SPACING_MS - 777}
    filters: dict[str, tuple[int, dict[str, object]]] = {
        "none": (count, {}),
        "window": (count, window),
        "flag": (count, {"remarkTag": 1}),
        "text of the flag": (count // 10, {"remarkTagName": TAG_NAME}),
        "flag and window": (count, {"remarkTag": 1, **window}),
        "all three": (count // 10, {"remarkTag": 1, "remarkTagName": TAG_NAME, **window}),
    }
    kinds = [_pages(found - PAGE, **asked) for found, asked in filters.values()]
    return Curve(
        "filters",
        f"Filters, of {count:,} orders",
        "",
        "Flags have counts of their own. A search in remarks is left out: remarks are sealed, and "
        "such a search opens every remark of the window.",
        [],
        {"page of 20 orders, random pages": await _costs(handler, kinds)},
        list(filters),
    )

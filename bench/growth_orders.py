"""How the cost of a page of orders grows: with the orders stored, the page number, the length of
the time window, and filters.

Orders are read by the operation's handler alone, without the rest of a call, from one shop in a
file of each size. What is measured is the processor time of this process, in turns, so that a
change of the machine's speed affects all points of a curve.
"""

import gc
import shutil
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from random import Random
from time import process_time
from typing import NamedTuple
from zoneinfo import ZoneInfo

from bench.growth_curves import Curve
from bench.order_pages import OWNER, START_MS, TAG_NAME, load
from tests.support.handlers import result_of
from tollway.contract.operation import CallInfo
from tollway.operations.orders.handler import OrdersHandler
from tollway.operations.orders.operation import OrdersRequest
from tollway.store.migrate import migrate
from tollway.store.open import OpenDatabase, open_database, open_sealer
from tollway.telemetry.metrics import Metrics

PAGE = 20
# 10,000,000 orders take a year.
_SPACING_MS = 3153
_HOUR_MS = 3_600_000
_ROUNDS, _CALLS = 15, 100


class Kind(NamedTuple):
    """Requests of one kind, and what answers them."""

    handler: OrdersHandler
    requests: Sequence[OrdersRequest]


async def _costs(kinds: Sequence[Kind]) -> list[float]:
    """Microseconds per call of each kind: that of the first, times the median of each one's ratio
    to it in the rounds."""
    rounds: list[list[float]] = []
    info = CallInfo("bench", 1)
    gc.collect()
    for _ in range(_ROUNDS + 1):
        rounds.append([])
        for handler, requests in kinds:
            began_s = process_time()
            for request in requests:
                await result_of(handler(request, info))
            rounds[-1].append((process_time() - began_s) / len(requests) * 1e6)
    # The first round warms everything up.
    first = statistics.median(each[0] for each in rounds[1:])
    return [
        first * statistics.median(each[number] / each[0] for each in rounds[1:])
        for number in range(len(kinds))
    ]


def _pages(count: int, **filters: object) -> list[OrdersRequest]:
    """Random pages of a list of so many orders."""
    last, chance = max(1, count // PAGE), Random(7)
    return [
        OrdersRequest(OWNER, page=chance.randrange(last), pageSize=PAGE, **filters)
        for _ in range(_CALLS)
    ]


async def order_curves(sizes: Sequence[int]) -> list[Curve]:
    with tempfile.TemporaryDirectory(prefix="tollway-bench-") as folder:
        databases = await _grown(Path(folder), sizes)
        handlers = [OrdersHandler(each, ZoneInfo("Asia/Shanghai")) for each in databases]
        by_size = [
            Kind(handler, _pages(size)) for handler, size in zip(handlers, sizes, strict=True)
        ]
        stored, largest = sizes[-1], handlers[-1]
        curves = [
            Curve(
                "orders",
                "Orders stored in the shop that is read",
                "orders",
                "A page begins at a position that an index of counts knows, so what is stored "
                "before it is not read. The handler takes about a third of a call's time; the rest "
                "does not depend on what is stored.",
                list(map(float, sizes)),
                {"handler of a page of 20 orders, random pages": await _costs(by_size)},
            ),
            await _by_page(largest, stored),
            await _by_window(largest, stored),
            await _by_filter(largest, stored),
        ]
        for each in databases:
            await each.close()
        return curves


async def _grown(folder: Path, sizes: Sequence[int]) -> list[OpenDatabase]:
    """A database of each size: a copy of the one before, with more orders."""
    stored, before = 0, None
    for size in sizes:
        file = folder / f"{size}.db"
        if before is not None:
            shutil.copy(before, file)
        database = open_database(f"sqlite:///{file}", Metrics())
        await migrate(database)
        sealer = open_sealer(f"sqlite:///{file}", str(folder / "keys"))
        numbers = range(stored, size)
        await load(database, sealer, numbers, lambda number: START_MS + number * _SPACING_MS)
        await database.close()
        stored, before = size, file
    return [open_database(f"sqlite:///{folder / f'{size}.db'}", Metrics()) for size in sizes]


async def _by_page(handler: OrdersHandler, count: int) -> Curve:
    last = count // PAGE - 1
    pages = sorted({min(last, 10**power) for power in range(8)} | {last})
    kinds = [
        Kind(handler, [OrdersRequest(OWNER, page=page, pageSize=PAGE)] * _CALLS)
        for page in [0, *pages]
    ]
    return Curve(
        "page",
        f"Page number, of {count:,} orders",
        "page",
        "Where a page begins is found in the counts, whatever its number.",
        [0.0, *map(float, pages)],
        {"handler of a page of 20 orders": await _costs(kinds)},
    )


async def _by_window(handler: OrdersHandler, count: int) -> Curve:
    """Windows around the middle that cut hours at both ends; pages within them at random."""
    span_ms = count * _SPACING_MS
    hours = [each for each in (1, 6, 24, 168, 720, 2160, 8760) if each * _HOUR_MS < span_ms]
    kinds = []
    for each in hours:
        start_ms = START_MS + (span_ms - each * _HOUR_MS) // 2 + 777
        window = {"start_time": start_ms, "end_time": start_ms + each * _HOUR_MS}
        kinds.append(Kind(handler, _pages(each * _HOUR_MS // _SPACING_MS, **window)))
    return Curve(
        "window",
        f"Length of the time window, of {count:,} orders",
        "hours",
        "Whole hours of a window are counted without being read; only its two ends are.",
        list(map(float, hours)),
        {"handler of a page of 20 orders in the window": await _costs(kinds)},
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
    kinds = [Kind(handler, _pages(found - PAGE, **asked)) for found, asked in filters.values()]
    return Curve(
        "filters",
        f"Filters, of {count:,} orders",
        "",
        "Flags have counts of their own. A search in remarks is left out: remarks are sealed, and "
        "such a search opens every remark of the window.",
        [],
        {"handler of a page of 20 orders, random pages": await _costs(kinds)},
        list(filters),
    )

"""The work of the paged order query: reads one page of ready orders, and joins them."""

from collections.abc import Awaitable, Sequence
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from tollway.contract.envelope import LIST_TO_COME, NUMBER_TO_COME, encoded_list, parts_around
from tollway.contract.operation import CallInfo
from tollway.contract.time_fields import milliseconds_of
from tollway.operations.orders.operation import OrderPage, OrdersRequest
from tollway.operations.orders.positions import Filter
from tollway.operations.orders.queries import OrderPages, search_page
from tollway.operations.orders.schema import DAY_MS
from tollway.operations.subject import Counted
from tollway.store.concurrency import read_at_once
from tollway.store.database import Database

# The first day of the year 10000: later than any order, and the end of a day.
_FOREVER_MS = 253_402_300_800_000
assert _FOREVER_MS % DAY_MS == 0


class OrdersHandler:
    def __init__(self, database: Database, zone: ZoneInfo) -> None:
        self._database = database
        self._pages = OrderPages(database)
        self._zone = zone

    def __call__(self, request: OrdersRequest, call: CallInfo) -> Awaitable[Counted] | Counted:
        if request.remark is not None:
            return self._search(request, request.remark, call)
        wanted, offset, size = (
            self._filter(request),
            request.page * request.pageSize,
            request.pageSize,
        )
        between = b"%d}," % call.price
        page = self._pages.read_at_once(wanted, offset, size, between)
        if page is not None:
            return _page(request, call, *page)
        return read_at_once(self._database, self._read(request, call, wanted, between))

    async def _read(
        self, request: OrdersRequest, call: CallInfo, wanted: Filter, between: bytes
    ) -> Counted:
        offset, size = request.page * request.pageSize, request.pageSize
        total, orders = await self._pages.read(wanted, offset, size, between)
        return _page(request, call, total, orders)

    async def _search(self, request: OrdersRequest, remark: str, call: CallInfo) -> Counted:
        offset, size = request.page * request.pageSize, request.pageSize
        wanted = self._filter(request)
        total, orders = await search_page(
            self._database, call.account_id, wanted, remark, offset, size
        )
        return _page(request, call, total, orders)

    def _filter(self, request: OrdersRequest) -> Filter:
        start, end = request.start_time, request.end_time
        return Filter(
            request.owner_id,
            0 if start is None else self._milliseconds(start),
            _FOREVER_MS if end is None else self._milliseconds(end),
            request.remarkTag,
            request.remarkTagName,
        )

    def _milliseconds(self, moment: int | datetime) -> int:
        # No order is outside these bounds, and the engines' integers are limited.
        return min(max(milliseconds_of(moment, self._zone), 0), _FOREVER_MS)


def joined_orders(ready: Sequence[bytes], price: int) -> Any:
    """The list of a page: each order ends with the price of the call."""
    end = b"%d}" % price
    return encoded_list([order + end for order in ready])


_BEFORE, _AFTER = parts_around(
    OrderPage(
        content=LIST_TO_COME,
        page=NUMBER_TO_COME,
        pageSize=NUMBER_TO_COME,
        page_size=NUMBER_TO_COME,
        totalElements=NUMBER_TO_COME,
        total_elements=NUMBER_TO_COME,
        withholding_money=NUMBER_TO_COME,
    )
)


def _page(request: OrdersRequest, call: CallInfo, total: int, orders: Sequence[bytes]) -> Counted:
    page, size, price = request.page, request.pageSize, call.price
    # Each order ends with the price of the call.
    end = b"%d}" % price
    joined = orders[0] if len(orders) == 1 else (end + b",").join(orders)
    after = _AFTER % (page, size, size, total, total, price)
    data = b"".join((_BEFORE, joined, end if orders else b"", after))
    # Several orders may have come in one piece.
    return Counted(data, min(max(total - page * size, 0), size))

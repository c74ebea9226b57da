"""The work of the paged order query: reads one page, and masks the receivers."""

from datetime import datetime
from zoneinfo import ZoneInfo

from tollway.contract.envelope import encode_data
from tollway.contract.fields import milliseconds_of
from tollway.contract.operation import CallInfo
from tollway.operations.orders.masking import (
    masked_address,
    masked_name,
    masked_phone,
    masked_remark,
)
from tollway.operations.orders.operation import OrderEntry, OrderPage, OrdersRequest
from tollway.operations.orders.queries import Filter, OrderFacts, read_page, search_page
from tollway.operations.orders.records import open_receiver
from tollway.operations.orders.schema import DAY_MS
from tollway.store.database import Database
from tollway.store.sealing import Sealer

# The first day of the year 10000: later than any order, and the end of a day.
_FOREVER_MS = 253_402_300_800_000
assert _FOREVER_MS % DAY_MS == 0


class OrdersHandler:
    """Answers the paged order query from one database."""

    def __init__(self, database: Database, sealer: Sealer, zone: ZoneInfo) -> None:
        self._database = database
        self._sealer = sealer
        self._zone = zone

    async def __call__(self, request: OrdersRequest, call: CallInfo) -> bytes:
        wanted = self._filter(request)
        offset, size = request.page * request.pageSize, request.pageSize
        if request.remark is not None:
            total, orders = await search_page(
                self._database, call.account_id, wanted, request.remark, offset, size
            )
        else:
            total, orders = await read_page(self._database, wanted, offset, size)
        return encode_data(
            OrderPage(
                content=[self._entry(request.owner_id, order, call.price) for order in orders],
                page=request.page,
                pageSize=size,
                page_size=size,
                totalElements=total,
                total_elements=total,
                withholding_money=call.price,
            )
        )

    def _filter(self, request: OrdersRequest) -> Filter:
        start_ms = self._milliseconds(request.start_time, 0)
        end_ms = self._milliseconds(request.end_time, _FOREVER_MS)
        # No order is outside of these bounds, and the engines' integers are bounded.
        start_ms, end_ms = (min(max(each, 0), _FOREVER_MS) for each in (start_ms, end_ms))
        return Filter(request.owner_id, start_ms, end_ms, request.remarkTag, request.remarkTagName)

    def _milliseconds(self, moment: int | datetime | None, otherwise: int) -> int:
        return otherwise if moment is None else milliseconds_of(moment, self._zone)

    def _entry(self, owner_id: str, order: OrderFacts, price: int) -> OrderEntry:
        receiver = open_receiver(self._sealer, owner_id, order.order_sn, order.sealed)
        address = masked_address(receiver.address)
        return OrderEntry(
            receiver_name=masked_name(receiver.name),
            receiver_phone=masked_phone(receiver.phone),
            province=order.province,
            city=order.city,
            town=order.town,
            receiver_address=address,
            address=address,
            order_sn=order.order_sn,
            goods_name=order.goods_name,
            goods_img=order.goods_img,
            goods_spec=order.goods_spec,
            is_pre_sale=bool(order.is_pre_sale),
            last_ship_time=order.last_ship_ms,
            confirm_time=-order.newest_first,
            remark=masked_remark(order.remark or ""),
            goods_count=order.goods_count,
            pay_amount=order.pay_fen / 100,
            order_status=order.status,
            remark_tag=None if order.remark_tag is None else str(order.remark_tag),
            remark_tag_name=order.remark_tag_name,
            withholding_money=price,
        )

"""The export of a shop's orders, and its file."""

from datetime import datetime
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import msgspec
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Select,
    bindparam,
    cast,
    func,
    select,
    union_all,
)

from tollway.contract.fields import Field, Text
from tollway.contract.operation import CallInfo, Encoding, Operation, Unit
from tollway.contract.reasons import Reason, Refusal
from tollway.contract.time_fields import Moment, milliseconds_of
from tollway.operations.exports import (
    Export,
    Line,
    Position,
    changed_line,
    lines_after,
    lines_values,
    not_a_line,
    not_an_export,
    priced_export,
    stream_of,
    window_of,
)
from tollway.operations.orders.more_calls import cursor_of
from tollway.operations.orders.operation import ORDERS, OrderEntry
from tollway.operations.orders.positions import Filter, window_values
from tollway.operations.orders.queries import window_counts
from tollway.operations.orders.schema import ALL, order_change, shop_order
from tollway.operations.subject import Handler, MoreCall, Priced, Services, Stream
from tollway.store.query import Query, equals

_ID = Text(max_length=64)


class OrdersExportRequest(msgspec.Struct, frozen=True):
    owner_id: Annotated[str, Field(_ID, "Shop owner id.")]
    start_time: Annotated[
        int | datetime, Field(Moment(), "Only orders confirmed at this time or later.")
    ]
    end_time: Annotated[int | datetime, Field(Moment(), "Only orders confirmed before this time.")]


class OrdersFileRequest(msgspec.Struct, frozen=True):
    owner_id: Annotated[str, Field(_ID, "Shop owner id.")]
    export_id: Annotated[str, Field(Text(max_length=1000), "The export_id of the export.")]
    after: Annotated[
        str | None,
        Field(_ID, "The order_sn of the last whole line that arrived; from the first if left out."),
    ] = None


def _check(request: OrdersExportRequest, zone: ZoneInfo) -> None:
    if milliseconds_of(request.end_time, zone) <= milliseconds_of(request.start_time, zone):
        raise Refusal(Reason.WINDOW_BACKWARDS, start="start_time", end="end_time")


ORDERS_EXPORT = Operation(
    name="orders_export",
    title="Export of orders",
    method="POST",
    path=f"{ORDERS.path}/export",
    encoding=Encoding.JSON,
    request_type=OrdersExportRequest,
    response_type=Export,
    unit=Unit.CREDITS,
    default_price=ORDERS.default_price,
    consent=ORDERS.consent,
    count_records=lambda data: msgspec.json.decode(data, type=Export).records,
    check=_check,
    own_reasons=(Reason.WINDOW_BACKWARDS,),
    belongs_to=ORDERS.name,
    not_taken=("page", "pageSize", "remark", "remarkTag", "remarkTagName"),
    is_measured=True,
)
ORDERS_FILE = Operation(
    name="orders_export_file",
    title="The file of an export of orders",
    method="GET",
    path=f"{ORDERS_EXPORT.path}/file",
    encoding=Encoding.QUERY,
    request_type=OrdersFileRequest,
    response_type=OrderEntry,
    unit=Unit.CREDITS,
    default_price=0,
    consent=ORDERS.consent,
    belongs_to=ORDERS.name,
    is_file=True,
)


def _count() -> Select[Any]:
    """How many orders a window has, and the number of the shop's last change, by one statement: no
    import can come between them."""
    counts = union_all(*window_counts(with_tag=False, with_name=False)).subquery()
    # PostgreSQL's sum of bigints is numeric.
    total: ColumnElement[Any] = cast(func.sum(counts.c[1]), BigInteger)
    change_no = select(order_change.c.change_no).where(
        order_change.c.owner_id == bindparam("owner")
    )
    return select(total, func.coalesce(change_no.scalar_subquery(), 0))


_COUNT = Query(_count)
_LINES = Query(
    lambda: lines_after(
        *(shop_order.c[name] for name in ("newest_first", "order_sn", "ready")),
        of=[
            shop_order.c.owner_id == bindparam("owner"),
            # What was stored later is not paid for. A sum, so that the planner does not choose the
            # index of changes.
            shop_order.c.change_no + 0 <= bindparam("last_change", type_=BigInteger),
        ],
    )
)
_POSITION = Query(
    lambda: select(shop_order.c.newest_first, shop_order.c.change_no).where(
        equals(shop_order, owner_id="owner", order_sn="wanted")
    )
)


def _export_handler(services: Services) -> Handler:
    async def handle(request: OrdersExportRequest, call: CallInfo) -> Priced:
        owner_id, zone = request.owner_id, services.zone
        start_ms, end_ms = (
            min(max(milliseconds_of(each, zone), 0), 2**53)
            for each in (request.start_time, request.end_time)
        )
        # What changes later comes after this cursor, and neither is paid nor in the file.
        window = Filter(owner_id, start_ms, end_ms, None, None)
        row = await services.database.fetch_one(_COUNT, **window_values(window, ALL))
        assert row is not None
        records, change_no = row
        return priced_export(
            services,
            call,
            ORDERS_FILE.path,
            [owner_id, start_ms, end_ms, change_no],
            records,
            {"owner_id": owner_id},
            cursor_of(owner_id, change_no),
        )

    return handle


def _file_handler(services: Services) -> Handler:
    # Not a replica: if it lags behind the cursor, the file would lack orders that the cursor skips.
    database = services.database

    async def handle(request: OrdersFileRequest, call: CallInfo) -> Stream:
        owner_id, start_ms, end_ms, change_no = window_of(
            services, call, ORDERS_FILE.path, request.export_id
        )
        if owner_id != request.owner_id:
            raise not_an_export()
        after = None
        if request.after is not None:
            row = await database.fetch_one(_POSITION, owner=owner_id, wanted=request.after)
            if row is None:
                raise not_a_line()
            if row[1] > change_no:
                raise changed_line()
            if not start_ms <= -row[0] < end_ms:
                raise not_a_line()
            after = Position(row[0], request.after)

        async def read(position: Position | None, most: int) -> list[Line]:
            span = lines_values(start_ms, end_ms, position, most)
            rows = await database.fetch_long(
                _LINES, call.account_id, owner=owner_id, last_change=change_no, **span
            )
            return [Line(Position(time, sn), ready + b"0}\n") for time, sn, ready in rows]

        return stream_of(read, after)

    return handle


EXPORTS = (MoreCall(ORDERS_EXPORT, _export_handler), MoreCall(ORDERS_FILE, _file_handler))

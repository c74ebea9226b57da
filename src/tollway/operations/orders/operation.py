"""The paged order query: its request, its response, and its descriptor."""

from datetime import datetime
from typing import Annotated
from zoneinfo import ZoneInfo

import msgspec

from tollway.contract.fields import Choice, Field, Text, Whole
from tollway.contract.language import Phrase
from tollway.contract.operation import (
    EDITIONS,
    ENHANCED,
    NORMAL,
    PAGE_MAX,
    ConsentNeed,
    Encoding,
    Operation,
    OwnerKind,
    Unit,
    records_with,
)
from tollway.contract.reasons import Reason, Refusal
from tollway.contract.time_fields import Moment, milliseconds_of

_TAGS = Choice(
    (
        (1, Phrase("red", "红")),
        (2, Phrase("yellow", "黄")),
        (3, Phrase("green", "绿")),
        (4, Phrase("blue", "蓝")),
        (5, Phrase("purple", "紫")),
    )
)


class OrdersRequest(msgspec.Struct, frozen=True):
    owner_id: Annotated[str, Field(Text(max_length=64), "Shop owner id.")]
    vvtype: Annotated[
        int,
        Field(
            EDITIONS,
            "Edition; the enhanced one if left out. Filters are for the enhanced one only.",
        ),
    ] = ENHANCED
    page: Annotated[
        int, Field(Whole(0, PAGE_MAX), "Page number; the first page is 0, and the default.")
    ] = 0
    pageSize: Annotated[int, Field(Whole(1, 100), "Orders per page; 100 if left out.")] = 100
    start_time: Annotated[
        int | datetime | None,
        Field(Moment(), "Only orders confirmed at this time or later; enhanced edition."),
    ] = None
    end_time: Annotated[
        int | datetime | None,
        Field(Moment(), "Only orders confirmed before this time; enhanced edition."),
    ] = None
    remark: Annotated[
        str | None,
        Field(
            Text(200, keeps_spaces=True),
            "Only orders whose remark contains this; enhanced edition.",
        ),
    ] = None
    remarkTag: Annotated[
        int | None, Field(_TAGS, "Only orders with this flag; enhanced edition.")
    ] = None
    remarkTagName: Annotated[
        str | None,
        Field(Text(64), "Only orders whose flag has this text; enhanced edition."),
    ] = None


# In the order in which they are listed; the first one sent with the normal edition is named.
ENHANCED_ONLY = ("start_time", "end_time", "remark", "remarkTag", "remarkTagName")


class OrderEntry(msgspec.Struct, frozen=True, gc=False):
    """One order. Times are in milliseconds. `order_status` is 1 to be shipped, 2 shipped or 3
    received; `remark_tag` 1 red, 2 yellow, 3 green, 4 blue or 5 purple."""

    receiver_name: str
    receiver_phone: str
    province: str
    city: str
    town: str
    receiver_address: str
    address: str
    order_sn: str
    goods_name: str
    goods_img: str
    goods_spec: str
    is_pre_sale: bool
    last_ship_time: int
    confirm_time: int
    remark: str
    goods_count: int
    pay_amount: float
    order_status: int
    remark_tag: str | None
    remark_tag_name: str | None
    withholding_money: int


class OrderPage(msgspec.Struct, frozen=True):
    """The payload."""

    content: list[OrderEntry]
    page: int
    pageSize: int
    page_size: int
    totalElements: int
    total_elements: int
    withholding_money: int


def check_filters(request: OrdersRequest, zone: ZoneInfo) -> None:
    if request.vvtype == NORMAL:
        for field in ENHANCED_ONLY:
            if getattr(request, field) is not None:
                raise Refusal(Reason.FILTER_NEEDS_ENHANCED, field=field)
    start, end = request.start_time, request.end_time
    if start is None or end is None:
        return
    if milliseconds_of(end, zone) <= milliseconds_of(start, zone):
        raise Refusal(Reason.WINDOW_BACKWARDS, start="start_time", end="end_time")


ORDERS = Operation(
    name="orders",
    count_records=records_with('"order_sn":'),
    title="Paged order query",
    method="POST",
    path="/papi/tool/erps/paging-orders",
    encoding=Encoding.FORM,
    request_type=OrdersRequest,
    response_type=OrderPage,
    unit=Unit.CREDITS,
    default_price=1,
    consent=ConsentNeed(
        whose=OwnerKind.SHOP,
        field="owner_id",
        scope="orders",
        asks="read the orders of your shop, with the receivers masked",
    ),
    check=check_filters,
    own_reasons=(Reason.FILTER_NEEDS_ENHANCED, Reason.WINDOW_BACKWARDS),
    note="The newest order comes first. Times are in milliseconds. order_status is 1 to be "
    "shipped, 2 shipped or 3 received; remark_tag 1 red, 2 yellow, 3 green, 4 blue or 5 purple.",
)

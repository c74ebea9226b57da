"""The answers of the operations, in the spellings of the wire.

Made by `make sdk` from the gateway's descriptors: do not edit."""

from dataclasses import dataclass
from typing import Optional

from tollway_client._json import Payload


@dataclass(frozen=True)
class TrafficEntry:
    """One traffic source."""

    pageName: str
    payByrCntIndex: int
    crtByrCntIndex: int
    uvIndex: int
    payRateIndex: float


@dataclass(frozen=True)
class KeywordEntry:
    """One keyword that brought visitors."""

    pageName: str
    payByrCntIndex: int
    crtByrCntIndex: int
    uvIndex: int
    payRateIndex: float
    pv: int


@dataclass(frozen=True)
class SearchEntry:
    """One search term."""

    pageName: str
    uvIndex: int
    payRateIndex: float
    payByrCntIndex: int


@dataclass(frozen=True)
class DailySeries:
    """Five parallel lists, oldest day first."""

    paymentConversionRate: list[float]
    date: list[str]
    paymentAmount: list[float]
    paidNum: list[int]
    visitorNum: list[int]


@dataclass(frozen=True)
class DateData:
    data: DailySeries


@dataclass(frozen=True)
class ProductAnalysis(Payload):
    """The payload. The last three are sent for today only."""

    trafficSource: list[TrafficEntry]
    keywords: list[KeywordEntry]
    searchKeywords: list[SearchEntry]
    dateData: DateData
    itemId: str
    itemName: str
    pic: str
    shopName: str
    shop_name: str
    itemCltByrCnt: Optional[int] = None
    payItmCnt: Optional[int] = None
    itemCartCnt: Optional[int] = None


@dataclass(frozen=True)
class CouponRecord:
    """One claimed coupon; every field is a string."""

    couponTime: str
    money: str
    minUseMoney: str
    couponName: str
    couponType: str
    couponCode: str
    beginTime: str
    endTime: str
    appKey: str
    sid: str


@dataclass(frozen=True)
class CouponClaims(Payload):
    """The payload."""

    total: int
    dataList: list[CouponRecord]
    withholding_money: int


@dataclass(frozen=True)
class Benefit:
    """One benefit. Times are milliseconds; amounts are cents, all as strings."""

    entry_used_start_time: str
    entry_used_end_time: str
    entry_condition: str
    entry_discount: str


@dataclass(frozen=True)
class Benefits:
    promotion_list: list[Benefit]


@dataclass(frozen=True)
class RecommendedItem:
    item_id: int
    url: str


@dataclass(frozen=True)
class RecommendedItems:
    recommend_item_list: list[RecommendedItem]


@dataclass(frozen=True)
class PaidCoupon:
    """Both are empty where the benefit is not a paid coupon."""

    item_id: str
    url: str


@dataclass(frozen=True)
class Extension:
    recommend_item_list: RecommendedItems
    youjia_coupon_info: PaidCoupon
    promotion_url: str


@dataclass(frozen=True)
class Material:
    """One material record."""

    promotion_type: str
    condition_type: str
    discount_type: str
    total_count: int
    remain_count: int
    display_start_time: str
    display_end_time: str
    promotion_list: Benefits
    promotion_extend: Extension
    seller_id: str
    nick: str
    shop_title: str
    shop_picture_url: str


@dataclass(frozen=True)
class Materials:
    map_data: list[Material]


@dataclass(frozen=True)
class Result:
    result_list: Materials


@dataclass(frozen=True)
class PromotionMaterial(Payload):
    """The payload."""

    withholding_money: int
    affiliate_sc_optimus_promotion_response: Result


@dataclass(frozen=True)
class WaybillResult(Payload):
    """The payload. `code` is the carrier's verdict: 1 issued, 0 refused, for which see errorMsg."""

    orderSn: Optional[str]
    objectId: str
    printData: str
    waybillCode: str
    parentWaybillCode: Optional[str]
    code: int
    errorMsg: Optional[str]
    withholding_money: int


@dataclass(frozen=True)
class OrderEntry:
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
    remark_tag: Optional[str]
    remark_tag_name: Optional[str]
    withholding_money: int


@dataclass(frozen=True)
class OrderPage(Payload):
    """The payload."""

    content: list[OrderEntry]
    page: int
    pageSize: int
    page_size: int
    totalElements: int
    total_elements: int
    withholding_money: int


@dataclass(frozen=True)
class Export(Payload):
    """An export that is paid. `cursor` is where orders_changed goes on from; null for claims."""

    export_id: str
    records: int
    download_url: str
    expires_at: int
    cursor: Optional[str]
    withholding_money: int


@dataclass(frozen=True)
class WaybillBatchItem:
    """What became of one waybill: code, reason and msg as a call of its own would have them.
    `waybill` is null unless the code is 0; `authorize_url` is there if the code is 302."""

    order_sn: Optional[str]
    request_id: str
    code: int
    reason: str
    msg: str
    waybill: Optional[WaybillResult]
    authorize_url: Optional[str]


@dataclass(frozen=True)
class WaybillBatch(Payload):
    """The results in the order of the request, and what all of them took together."""

    results: list[WaybillBatchItem]
    withholding_money: int


@dataclass(frozen=True)
class OrdersByNumber(Payload):
    """The orders in the order of the numbers asked for; `missing` are the numbers without one."""

    content: list[OrderEntry]
    missing: list[str]
    withholding_money: int


@dataclass(frozen=True)
class OrdersChanged(Payload):
    """The orders changed after the cursor, in the order of their changes."""

    content: list[OrderEntry]
    next_cursor: str
    has_more: bool
    withholding_money: int

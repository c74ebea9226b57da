"""The answers of the operations, in the spellings of the wire.

Made by `make sdk` from the gateway's descriptors: do not edit."""

from dataclasses import dataclass
from typing import Optional, TypedDict, Union

from tollway_client._json import Payload


@dataclass(frozen=True)
class TrafficEntry:
    """One traffic source."""

    pageName: str
    """The source, keyword or search term."""
    payByrCntIndex: int
    """Buyers who paid."""
    crtByrCntIndex: int
    """Pieces ordered."""
    uvIndex: int
    """Visitors."""
    payRateIndex: float
    """Payment conversion rate in percent, two decimals; at least 0.01."""


@dataclass(frozen=True)
class KeywordEntry:
    """One keyword that brought visitors."""

    pageName: str
    """The source, keyword or search term."""
    payByrCntIndex: int
    """Buyers who paid."""
    crtByrCntIndex: int
    """Pieces ordered."""
    uvIndex: int
    """Visitors."""
    payRateIndex: float
    """Payment conversion rate in percent, two decimals; at least 0.01."""
    pv: int
    """Page views."""


@dataclass(frozen=True)
class SearchEntry:
    """One search term."""

    pageName: str
    """The source, keyword or search term."""
    uvIndex: int
    """Visitors."""
    payRateIndex: float
    """Payment conversion rate in percent, two decimals; at least 0.01."""
    payByrCntIndex: int
    """Buyers who paid."""


@dataclass(frozen=True)
class DailySeries:
    """Five parallel lists, oldest day first."""

    paymentConversionRate: list[float]
    """Payment conversion rate of the day in percent; 0 without data."""
    date: list[str]
    """The day, as MM-DD."""
    paymentAmount: list[float]
    """Amount paid on the day, in yuan."""
    paidNum: list[int]
    """Buyers who paid on the day."""
    visitorNum: list[int]
    """Visitors of the day."""


@dataclass(frozen=True)
class DateData:
    data: DailySeries
    """Five lists of 30 entries each, the oldest day first; the last is the queried date."""


@dataclass(frozen=True)
class ProductAnalysis(Payload):
    """The payload. The last three are sent for today only."""

    trafficSource: list[TrafficEntry]
    """Where the visitors came from."""
    keywords: list[KeywordEntry]
    """The keywords that brought visitors."""
    searchKeywords: list[SearchEntry]
    """The search terms."""
    dateData: DateData
    """The figures by day."""
    itemId: str
    """Product id."""
    itemName: str
    """Product name."""
    pic: str
    """Address of its picture."""
    shopName: str
    """Name of the shop. The same as shop_name."""
    shop_name: str
    """Name of the shop. The same as shopName."""
    itemCltByrCnt: Optional[int] = None
    """Collections; sent for today only."""
    payItmCnt: Optional[int] = None
    """Pieces purchased; sent for today only."""
    itemCartCnt: Optional[int] = None
    """Pieces added to cart; sent for today only."""


@dataclass(frozen=True)
class CouponRecord:
    """One claimed coupon; every field is a string."""

    couponTime: str
    """When it was claimed, as yyyy-MM-dd HH:mm:ss."""
    money: str
    """Its discount, in yuan."""
    minUseMoney: str
    """The least amount that it can be used for, in yuan."""
    couponName: str
    """Its name."""
    couponType: str
    """Its type; WAIMAI_COUPON for food delivery."""
    couponCode: str
    """Its id; no two are alike."""
    beginTime: str
    """From when it is valid, in seconds since 1970."""
    endTime: str
    """Until when it is valid, in seconds since 1970."""
    appKey: str
    """Key of the medium that the channel belongs to."""
    sid: str
    """Channel user identifier."""


@dataclass(frozen=True)
class CouponClaims(Payload):
    """The payload."""

    total: int
    """How many coupons were claimed in the window, on all pages."""
    dataList: list[CouponRecord]
    """The claims of this page, the newest first."""
    withholding_money: int
    """Credits that this call took; 0 for a repetition."""


@dataclass(frozen=True)
class Benefit:
    """One benefit. Times are milliseconds; amounts are cents, all as strings."""

    entry_used_start_time: str
    """From when it can be used, in milliseconds since 1970."""
    entry_used_end_time: str
    """Until when it can be used, in milliseconds since 1970."""
    entry_condition: str
    """The threshold, in fen; in pieces if condition_type is 2."""
    entry_discount: str
    """The amount off, in fen; a percentage if discount_type is 2."""


@dataclass(frozen=True)
class Benefits:
    promotion_list: list[Benefit]
    """The benefits."""


@dataclass(frozen=True)
class RecommendedItem:
    item_id: int
    """Id of the item."""
    url: str
    """Link of the item, with your promotion slot."""


@dataclass(frozen=True)
class RecommendedItems:
    recommend_item_list: list[RecommendedItem]
    """The recommended items."""


@dataclass(frozen=True)
class PaidCoupon:
    """Both are empty where the benefit is not a paid coupon."""

    item_id: str
    """Id of the item to buy."""
    url: str
    """Link of the item to buy."""


@dataclass(frozen=True)
class Extension:
    recommend_item_list: RecommendedItems
    """A wrapper of the recommended items."""
    youjia_coupon_info: PaidCoupon
    """The paid coupon; its fields are empty if it is none."""
    promotion_url: str
    """Link of the benefit, with your promotion slot."""


@dataclass(frozen=True)
class Material:
    """One material record."""

    promotion_type: str
    """1 paid coupon, 2 public coupon, 3 affiliate-channel coupon, 4 category coupon."""
    condition_type: str
    """The threshold: 1 an amount, 2 a number of pieces."""
    discount_type: str
    """The discount: 1 an amount off, 2 a percentage."""
    total_count: int
    """Its stock at first."""
    remain_count: int
    """What is left of the stock."""
    display_start_time: str
    """From when it is displayed, in milliseconds since 1970."""
    display_end_time: str
    """Until when it is displayed, in milliseconds since 1970."""
    promotion_list: Benefits
    """A wrapper of the benefits."""
    promotion_extend: Extension
    """Items and links."""
    seller_id: str
    """Seller id of the shop."""
    nick: str
    """Nickname of the seller."""
    shop_title: str
    """Name of the shop."""
    shop_picture_url: str
    """Address of the shop's logo."""


@dataclass(frozen=True)
class Materials:
    map_data: list[Material]
    """The material of this page; [] if there is none."""


@dataclass(frozen=True)
class Result:
    result_list: Materials
    """A wrapper of the list."""


@dataclass(frozen=True)
class PromotionMaterial(Payload):
    """The payload."""

    withholding_money: int
    """Credits that this call took; 0 for a repetition."""
    affiliate_sc_optimus_promotion_response: Result
    """The result."""


@dataclass(frozen=True)
class WaybillResult(Payload):
    """The payload. `code` is the carrier's verdict: 1 issued, 0 refused, for which see errorMsg."""

    orderSn: Optional[str]
    """Order number of the request."""
    objectId: str
    """Task id, unique: the other calls for a waybill take it as object_id."""
    printData: str
    """What the label says, as a JSON text with its template and signature, or as the carrier
    writes it."""
    waybillCode: str
    """Waybill number; empty if the carrier refused."""
    parentWaybillCode: Optional[str]
    """Waybill number of the order's first parcel; null for a single parcel."""
    code: int
    """The carrier's answer: 1 issued, 0 refused."""
    errorMsg: Optional[str]
    """Why the carrier refused; null if it issued."""
    withholding_money: int
    """Credits that this call took; 0 if refused or repeated."""


@dataclass(frozen=True)
class OrderEntry:
    """One order. Times are in milliseconds. `order_status` is 1 to be shipped, 2 shipped or 3
    received; `remark_tag` 1 red, 2 yellow, 3 green, 4 blue or 5 purple."""

    receiver_name: str
    """Receiver name, masked."""
    receiver_phone: str
    """Receiver phone, masked."""
    province: str
    """Receiver province."""
    city: str
    """Receiver city."""
    town: str
    """Receiver district."""
    receiver_address: str
    """Receiver street address, its numbers masked. The same as address."""
    address: str
    """Receiver street address, its numbers masked. The same as receiver_address."""
    order_sn: str
    """Order number."""
    goods_name: str
    """Name of the goods."""
    goods_img: str
    """Address of their picture."""
    goods_spec: str
    """Which variant of the goods."""
    is_pre_sale: bool
    """Whether the goods are sold before they are in stock."""
    last_ship_time: int
    """Until when to ship, in milliseconds since 1970; 0 if it is not known."""
    confirm_time: int
    """When the order was confirmed, in milliseconds since 1970."""
    remark: str
    """Remark, its phone numbers masked; may be empty."""
    goods_count: int
    """How many pieces."""
    pay_amount: float
    """Amount paid, in yuan."""
    order_status: int
    """1 to be shipped, 2 shipped, 3 received."""
    remark_tag: Optional[str]
    """Flag: 1 red, 2 yellow, 3 green, 4 blue, 5 purple; null without one."""
    remark_tag_name: Optional[str]
    """Text of the flag; null without one."""
    withholding_money: int
    """Credits of the whole call, the same in each order; 0 in the file of an export."""


@dataclass(frozen=True)
class OrderPage(Payload):
    """The payload."""

    content: list[OrderEntry]
    """The orders of this page, the newest first."""
    page: int
    """Page number; the first page is 0."""
    pageSize: int
    """Orders per page, 1 to 100. The same as page_size."""
    page_size: int
    """Orders per page, 1 to 100. The same as pageSize."""
    totalElements: int
    """How many orders there are on all pages; exact. The same as total_elements."""
    total_elements: int
    """How many orders there are on all pages; exact. The same as totalElements."""
    withholding_money: int
    """Credits that this call took; 0 for a repetition."""


@dataclass(frozen=True)
class Export(Payload):
    """An export that is paid. `cursor` is where orders_changed goes on from; null for claims."""

    export_id: str
    """Its id, for the call that reads the file."""
    records: int
    """How many records the file has; the price is taken for each started 100."""
    download_url: str
    """Address of the file; send the same Authorization header."""
    expires_at: int
    """Until when the file can be read, in seconds since 1970: a day."""
    cursor: Optional[str]
    """The cursor from which orders_changed goes on after this export; null for claims."""
    withholding_money: int
    """Credits that this call took; 0 for a repetition."""


@dataclass(frozen=True)
class WaybillBatchItem:
    """What became of one waybill: code, reason and msg as a call of its own would have them.
    `waybill` is null unless the code is 0; `authorize_url` and `expires_at` are there if it is
    302."""

    order_sn: Optional[str]
    """Order number of the request; null if it has none."""
    request_id: str
    """Id of this waybill's own call, and of its receipt."""
    code: int
    """Code of the answer; 0 means success."""
    reason: str
    """Name of the reason; SUCCESS with code 0."""
    msg: str
    """What happened, in a sentence."""
    waybill: Optional[WaybillResult]
    """As of waybill issuing; null unless the code is 0."""
    authorize_url: Optional[str]
    """With code 302: where the owner can approve; null otherwise."""
    expires_at: Optional[int]
    """With code 302: until when the link works, in seconds since 1970; null otherwise."""


@dataclass(frozen=True)
class WaybillBatch(Payload):
    """The results in the order of the request, and what all of them took together."""

    results: list[WaybillBatchItem]
    """A result for each waybill, in the order of the request."""
    withholding_money: int
    """Credits that all of them took together."""


@dataclass(frozen=True)
class OrdersByNumber(Payload):
    """The orders in the order of the numbers asked for; `missing` are the numbers without one."""

    content: list[OrderEntry]
    """The orders, in the order of the numbers."""
    missing: list[str]
    """The numbers that no order of the shop has."""
    withholding_money: int
    """Credits that this call took; 0 for a repetition."""


@dataclass(frozen=True)
class OrdersChanged(Payload):
    """The orders changed after the cursor, in the order of their changes."""

    content: list[OrderEntry]
    """The orders that changed, in the order of their changes."""
    next_cursor: str
    """The cursor of the next call; it does not expire."""
    has_more: bool
    """Whether more orders have changed by now."""
    withholding_money: int
    """Credits that this call took; 0 for a repetition."""


class _WaybillsNeeds(TypedDict):
    owner_id: str
    """Shop owner id. Send a text of 1 to 64 characters."""
    order_sn: str
    """Order number, as the caller defines it. Send a text of 8 to 64 characters."""
    sender_name: str
    """Sender name. Send a text of 1 to 39 characters."""
    sender_mobile: str
    """Sender mobile. Send a mobile number, or a fixed line with its area code."""
    sender_province: str
    """Sender province. Send a text of 1 to 64 characters."""
    sender_city: str
    """Sender city. Send a text of 1 to 64 characters."""
    sender_town: str
    """Sender district. Send a text of 1 to 64 characters."""
    sender_detail: str
    """Sender street address, without province, city and district. Send a text of 1 to 255
    characters."""
    wp_code: str
    """Carrier short code. Send a text of 1 to 32 characters."""
    waybill_type: Union[int, str]
    """Kind of label. Send one of 1 (single-part waybill, 76×130 mm), 2 (two-part waybill,
    100×180 mm), 3 (other, 100×150 mm)."""
    receiver_province: str
    """Receiver province. Send a text of 1 to 64 characters."""
    receiver_city: str
    """Receiver city. Send a text of 1 to 64 characters."""
    receiver_town: str
    """Receiver district. Send a text of 1 to 64 characters."""
    receiver_address: str
    """Receiver street address. Send a text of 1 to 255 characters."""
    receiver_phone: str
    """Receiver phone. Send a mobile number, or a fixed line with its area code."""
    receiver_name: str
    """Receiver name. Send a text of 1 to 39 characters."""


class WaybillsRequest(_WaybillsNeeds, total=False):
    """One waybill of issue_waybills, with what issue_waybill takes."""

    shopCode: str
    """Shop association code; required when vvtype is 2. Send a text of 1 to 64 characters."""
    vvtype: Union[int, str]
    """Edition; the enhanced one when left out. Send one of 1 (enhanced), 2 (normal)."""
    parentWaybillCode: str
    """For a further parcel of an order: the waybill number of its first one. Send a text of 1 to
    64 characters."""
    goods_name: str
    """What is in the parcel, for its label. Send a text of 1 to 100 characters."""
    weight_g: Union[int, str]
    """The parcel's weight in grams, for its label. Send a whole number from 1 to 1000000."""

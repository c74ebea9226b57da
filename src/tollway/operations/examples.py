"""One example of each built-in operation, for the reference and the OpenAPI document.

The requests work in the sandbox; a test sends them there. The answers are made up.
"""

from collections.abc import Callable, Mapping
from datetime import date
from typing import Any, NamedTuple

import msgspec

from tollway.operations.coupon_claims.demo import SIDS
from tollway.operations.coupon_claims.operation import CouponClaims, CouponRecord
from tollway.operations.demo_data import SHOPS
from tollway.operations.exports import Export
from tollway.operations.orders.more_calls import OrdersByNumber, OrdersChanged
from tollway.operations.orders.operation import OrderEntry, OrderPage
from tollway.operations.product_analysis.demo import product_ids
from tollway.operations.product_analysis.operation import (
    DailySeries,
    DateData,
    KeywordEntry,
    ProductAnalysis,
    SearchEntry,
    TrafficEntry,
)
from tollway.operations.promotion_material.operation import (
    Benefit,
    Benefits,
    Extension,
    Material,
    Materials,
    PaidCoupon,
    PromotionMaterial,
    RecommendedItem,
    RecommendedItems,
    Result,
)
from tollway.operations.waybills.demo import WP_CODE
from tollway.operations.waybills.more_calls import WaybillBatch, WaybillBatchItem
from tollway.operations.waybills.operation import WaybillResult

_DAY_S = 86_400
_EPOCH = date(1970, 1, 1)
# A test replaces it by a real one.
EXPORT_ID = "gAFh7Zq2"


class Example(NamedTuple):
    """A request by the day it is sent, and an answer; in Chinese too if it has a sentence."""

    request: Callable[[date], Mapping[str, Any]]
    answer: msgspec.Struct
    answer_zh: msgspec.Struct | None = None

    def answer_in(self, language: str) -> msgspec.Struct:
        return self.answer_zh if language == "zh" and self.answer_zh is not None else self.answer


def _claims_request(today: date) -> Mapping[str, Any]:
    end_s = (today - _EPOCH).days * _DAY_S
    return {
        "startTime": str(end_s - 6 * _DAY_S),
        "endTime": str(end_s),
        "page": "1",
        "limit": "20",
        "sid": SIDS[0],
        "type": "4",
    }


_ANALYSIS = ProductAnalysis(
    trafficSource=[TrafficEntry("手淘搜索", 18, 21, 402, 4.48)],
    keywords=[KeywordEntry("保温杯", 6, 7, 131, 4.58, 260)],
    searchKeywords=[SearchEntry("保温杯 500ml", 44, 2.27, 1)],
    dateData=DateData(
        DailySeries([3.9, 4.48], ["01-30", "01-31"], [1180.0, 1421.5], [15, 18], [385, 402])
    ),
    itemId=product_ids(1)[0],
    itemName="便携保温杯 500ml",
    pic="https://img.tollway.example/goods/2.jpg",
    shopName="青禾生活旗舰店",
    shop_name="青禾生活旗舰店",
)
_CLAIMS = CouponClaims(
    total=1,
    dataList=[
        CouponRecord(
            couponTime="2026-01-31 12:30:05",
            money="5.00",
            minUseMoney="30.00",
            couponName="外卖满 30 减 5",
            couponType="WAIMAI_COUPON",
            couponCode="TWC0000000001",
            beginTime="1769832000",
            endTime="1770436800",
            appKey="tw_demo_app",
            sid=SIDS[0],
        )
    ],
    withholding_money=1,
)
_MATERIAL = PromotionMaterial(
    withholding_money=1,
    affiliate_sc_optimus_promotion_response=Result(
        Materials(
            [
                Material(
                    promotion_type="1",
                    condition_type="1",
                    discount_type="1",
                    total_count=1000,
                    remain_count=640,
                    display_start_time="1769788800000",
                    display_end_time="1770393600000",
                    promotion_list=Benefits(
                        [Benefit("1769788800000", "1770393600000", "10000", "2000")]
                    ),
                    promotion_extend=Extension(
                        RecommendedItems([RecommendedItem(620145000100, "https://…")]),
                        PaidCoupon("620145000100", "https://…"),
                        "https://…",
                    ),
                    seller_id="880012001",
                    nick="青禾生活",
                    shop_title="青禾生活旗舰店",
                    shop_picture_url="https://img.tollway.example/shops/1.jpg",
                )
            ]
        )
    ),
)
_WAYBILL = WaybillResult(
    orderSn="TRIAL-000001",
    objectId="wb_7f3k9d2m5q8r",
    printData='{"templateURL": "…", "data": {…}, "signature": "…"}',
    waybillCode="YT8800000000042",
    parentWaybillCode=None,
    code=1,
    errorMsg=None,
    withholding_money=10,
)
_ORDERS = OrderPage(
    content=[
        OrderEntry(
            receiver_name="张**",
            receiver_phone="138****1234",
            province="浙江省",
            city="杭州市",
            town="西湖区",
            receiver_address="文三路***",
            address="文三路***",
            order_sn="260131-000000042",
            goods_name="便携保温杯 500ml",
            goods_img="https://img.tollway.example/goods/2.jpg",
            goods_spec="燕麦色",
            is_pre_sale=False,
            last_ship_time=1_770_004_800_000,
            confirm_time=1_769_832_000_000,
            remark="请放门口",
            goods_count=2,
            pay_amount=157.5,
            order_status=1,
            remark_tag="1",
            remark_tag_name="红色",
            withholding_money=1,
        )
    ],
    page=0,
    pageSize=20,
    page_size=20,
    totalElements=1,
    total_elements=1,
    withholding_money=1,
)
_WAYBILL_REQUEST = {
    "owner_id": SHOPS[0].owner_id,
    "order_sn": "TRIAL-000001",
    "sender_name": "青禾仓库",
    "sender_mobile": "13800001111",
    "sender_province": "浙江省",
    "sender_city": "杭州市",
    "sender_town": "余杭区",
    "sender_detail": "仓前街道 1 号",
    "wp_code": WP_CODE,
    "waybill_type": "1",
    "receiver_province": "上海市",
    "receiver_city": "上海市",
    "receiver_town": "徐汇区",
    "receiver_address": "漕溪北路 18 号",
    "receiver_phone": "13912345678",
    "receiver_name": "李雷",
}

EXAMPLES: Mapping[str, Example] = {
    "product_analysis": Example(
        lambda today: {"product_id": product_ids(1)[0], "query_date": today.isoformat()},
        _ANALYSIS,
    ),
    "coupon_claims": Example(_claims_request, _CLAIMS),
    "promotion_material": Example(
        lambda _: {
            "promotion_id": 37104,
            "platform_user_id": 116385041,
            "site_id": 45928134,
            "adzone_id": 110358026,
        },
        _MATERIAL,
    ),
    "waybills": Example(lambda _: _WAYBILL_REQUEST, _WAYBILL),
    "waybills_batch": Example(
        lambda _: {"waybills": [{**_WAYBILL_REQUEST, "order_sn": "TRIAL-000002"}]},
        WaybillBatch(
            [
                WaybillBatchItem(
                    order_sn="TRIAL-000002",
                    request_id="649a71fadf2403f9c2b7e1d058",
                    code=0,
                    reason="SUCCESS",
                    msg="Success",
                    waybill=msgspec.structs.replace(_WAYBILL, orderSn="TRIAL-000002"),
                    authorize_url=None,
                    expires_at=None,
                )
            ],
            10,
        ),
    ),
    "orders": Example(lambda _: {"owner_id": SHOPS[0].owner_id, "pageSize": "20"}, _ORDERS),
    "orders_by_number": Example(
        lambda _: {"owner_id": SHOPS[0].owner_id, "order_sn": ["260131-000000042"]},
        OrdersByNumber(_ORDERS.content, [], 1),
    ),
    "orders_export": Example(
        lambda today: {
            "owner_id": SHOPS[0].owner_id,
            "start_time": "2026-01-01",
            "end_time": today.isoformat(),
        },
        Export(EXPORT_ID, 1042, "https://…", 1_769_918_400, "65a4b1c2d3e4f-9ae0daaf", 11),
    ),
    "coupon_claims_export": Example(
        lambda today: {
            "startTime": "2026-01-01",
            "endTime": today.isoformat(),
            "sid": SIDS[0],
            "type": 4,
        },
        Export(EXPORT_ID, 205, "https://…", 1_769_918_400, None, 3),
    ),
    # The answer of a file is one of its lines.
    "orders_export_file": Example(
        lambda _: {"owner_id": SHOPS[0].owner_id, "export_id": EXPORT_ID},
        msgspec.structs.replace(_ORDERS.content[0], withholding_money=0),
    ),
    "coupon_claims_export_file": Example(lambda _: {"export_id": EXPORT_ID}, _CLAIMS.dataList[0]),
    "orders_changed": Example(
        lambda _: {"owner_id": SHOPS[0].owner_id, "pageSize": 20},
        OrdersChanged(
            _ORDERS.content, "65a4b1c2d3e4f-9ae0daaf", has_more=False, withholding_money=1
        ),
    ),
}

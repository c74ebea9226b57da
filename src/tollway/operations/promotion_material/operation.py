"""Promotion material: its request, its response, and its descriptor."""

from typing import Annotated

import msgspec

from tollway.contract.fields import Field, Whole
from tollway.contract.operation import (
    PAGE_MAX,
    ConsentNeed,
    Encoding,
    Operation,
    OwnerKind,
    Unit,
    records_with,
)

_ID = Whole(least=1, most=10**18 - 1)


class PromotionMaterialRequest(msgspec.Struct, frozen=True):
    adzone_id: Annotated[
        int, Field(_ID, "Third segment of the promotion slot code, which has the form mm_x_x_x.")
    ]
    promotion_id: Annotated[
        int,
        Field(
            _ID,
            "Official benefit material id: 37104 paid coupon, 37116 large shop coupon, "
            "62191 mall shop coupon, 61809 stacked coupon.",
            other_spelling="material_id",
        ),
    ]
    site_id: Annotated[int, Field(_ID, "Second segment of the promotion slot code.")]
    platform_user_id: Annotated[
        int, Field(_ID, "Id of the authorizing user.", other_spelling="taobao_user_id")
    ]
    page_size: Annotated[int, Field(Whole(least=1, most=10), "Page size; default 10.")] = 10
    page_num: Annotated[
        int, Field(Whole(least=1, most=PAGE_MAX), "Page number; the first page is 1, the default.")
    ] = 1


class Benefit(msgspec.Struct, frozen=True):
    """One benefit. Times are milliseconds; amounts are cents, all as strings."""

    entry_used_start_time: str
    entry_used_end_time: str
    entry_condition: str
    entry_discount: str


class Benefits(msgspec.Struct, frozen=True):
    promotion_list: list[Benefit]


class RecommendedItem(msgspec.Struct, frozen=True):
    item_id: int
    url: str


class RecommendedItems(msgspec.Struct, frozen=True):
    recommend_item_list: list[RecommendedItem]


class PaidCoupon(msgspec.Struct, frozen=True):
    """Both are empty where the benefit is not a paid coupon."""

    item_id: str
    url: str


class Extension(msgspec.Struct, frozen=True):
    recommend_item_list: RecommendedItems
    youjia_coupon_info: PaidCoupon
    promotion_url: str


class Material(msgspec.Struct, frozen=True):
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


class Materials(msgspec.Struct, frozen=True):
    map_data: list[Material]


class Result(msgspec.Struct, frozen=True):
    result_list: Materials


class PromotionMaterial(msgspec.Struct, frozen=True):
    """The payload."""

    withholding_money: int
    affiliate_sc_optimus_promotion_response: Result


PROMOTION_MATERIAL = Operation(
    name="promotion_material",
    count_records=records_with('"promotion_type":'),
    title="Affiliate promotion material",
    method="POST",
    path="/papi/tool/affiliate/promotion",
    encoding=Encoding.JSON,
    request_type=PromotionMaterialRequest,
    response_type=PromotionMaterial,
    unit=Unit.CREDITS,
    default_price=1,
    consent=ConsentNeed(
        whose=OwnerKind.USER,
        field="platform_user_id",
        scope="promotion",
        asks="look up promotion material with links that carry your promotion slots",
    ),
)

"""What an answer has, in the spellings of the wire."""

import msgspec


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

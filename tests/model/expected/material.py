"""All promotion material at one moment, and any page of what is on display."""

from collections.abc import Mapping, Sequence
from typing import Any

Record = Mapping[str, Any]


class Materials:
    """Material by promotion and id; never changed, but replaced by others."""

    def __init__(self, materials: Mapping[tuple[int, str], Record]) -> None:
        self.materials = materials

    def with_records(self, records: Sequence[Record]) -> tuple["Materials", int]:
        """The material after records came in, and how many that changed: a later one replaces."""
        known = dict(self.materials)
        known.update({(each["promotion_id"], each["id"]): each for each in records})
        changed = sum(self.materials.get(key) != record for key, record in known.items())
        return Materials(known), changed

    def moments_ms(self, promotion_id: int, first_ms: int, last_ms: int) -> list[int]:
        """The moments of a span between which what is on display stays the same."""
        ends = {
            moment_ms
            for each in self.materials.values()
            if each["promotion_id"] == promotion_id
            for moment_ms in (each["display_start_ms"], each["display_end_ms"])
            if first_ms < moment_ms <= last_ms
        }
        return sorted({first_ms, *ends})

    def page(self, asked: Mapping[str, Any], price: int, now_ms: int) -> dict[str, Any]:
        """The answer's data."""
        found = [
            each
            for each in self.materials.values()
            if each["promotion_id"] == asked["promotion_id"]
            and each["display_start_ms"] <= now_ms < each["display_end_ms"]
        ]
        found.sort(key=lambda each: -each["display_start_ms"])
        first = (asked["page_num"] - 1) * asked["page_size"]
        slot = f"mm_{asked['platform_user_id']}_{asked['site_id']}_{asked['adzone_id']}"
        page = [_shown(each, slot) for each in found[first : first + asked["page_size"]]]
        return {
            "withholding_money": price,
            "affiliate_sc_optimus_promotion_response": {"result_list": {"map_data": page}},
        }


def _shown(material: Record, slot: str) -> dict[str, Any]:
    benefits = [
        {
            "entry_used_start_time": str(each["start_ms"]),
            "entry_used_end_time": str(each["end_ms"]),
            "entry_condition": str(each["condition"]),
            "entry_discount": str(each["discount"]),
        }
        for each in material.get("benefits", [])
    ]
    items = [
        {"item_id": each["item_id"], "url": _with_slot(each["url"], slot)}
        for each in material.get("items", [])
    ]
    return {
        "promotion_type": material["promotion_type"],
        "condition_type": material["condition_type"],
        "discount_type": material["discount_type"],
        "total_count": material["total_count"],
        "remain_count": material["remain_count"],
        "display_start_time": str(material["display_start_ms"]),
        "display_end_time": str(material["display_end_ms"]),
        "promotion_list": {"promotion_list": benefits},
        "promotion_extend": {
            "recommend_item_list": {"recommend_item_list": items},
            "youjia_coupon_info": {
                "item_id": material.get("paid_coupon_item_id", ""),
                "url": _with_slot(material.get("paid_coupon_url", ""), slot),
            },
            "promotion_url": _with_slot(material["promotion_url"], slot),
        },
        "seller_id": material["seller_id"],
        "nick": material["nick"],
        "shop_title": material["shop_title"],
        "shop_picture_url": material.get("shop_picture_url", ""),
    }


def _with_slot(link: str, slot: str) -> str:
    """The slot is the link's parameter `pid`; a link that is empty stays so."""
    if not link:
        return ""
    address, mark, part = link.partition("#")
    return f"{address}{'&' if '?' in address else '?'}pid={slot}{mark}{part}"

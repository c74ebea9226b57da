"""Random records: new, updated, older and wrong versions of what is stored."""

import time
from collections.abc import Mapping
from datetime import date, timedelta
from random import Random
from typing import Any

from tests.model.expected.claims import Claims
from tests.model.expected.orders import Shop

# 2026-01-15 00:00 in Shanghai; not the beginning of a day in UTC.
START_MS = 1_768_406_400_000
HOUR_MS = 3_600_000
DAYS = 5
ORDERS_MAX = 700
CLAIMS_MAX = 1500
SIDS = ("channel-1", "channel-2", "渠道三")
PRODUCTS = ("910000000001", "910000000002", "910000000003")
PROMOTIONS = (37104, 37116, 62191)
REMARKS = (None, None, None, "", "请尽快发货", "Quick 100%", "quick_one", "it's 'fine'", "🎁 礼物")
TAG_NAMES = (None, None, "加急", "退款", "vip")
_WRONG_OF_ORDER: tuple[dict[str, Any], ...] = (
    {"order_status": 4},
    {"pay_amount": "1.005"},
    {"receiver_name": None},
    {"remark_tag": 6},
)
_WRONG_OF_CLAIM: tuple[dict[str, Any], ...] = (
    {"type": 5},
    {"money": "-1"},
    {"sid": None},
    {"end_time": 0},
)


def confirm_ms(chance: Random) -> int:
    """Often at the very edge of an hour or a day, and many at the same moment."""
    hour = chance.randrange(DAYS * 24)
    within_ms = chance.choice((0, 1, HOUR_MS // 2, HOUR_MS - 1, chance.randrange(HOUR_MS)))
    return START_MS + hour * HOUR_MS + within_ms


def order(chance: Random, owner_id: str, shop: Shop) -> dict[str, Any]:
    """A version of an order, of one that is known or not."""
    order_sn = f"SN{chance.randrange(ORDERS_MAX):04}"
    known = shop.orders.get(order_sn)
    before_ms = START_MS if known is None else known.updated_ms
    record: dict[str, Any] = {
        "owner_id": owner_id,
        "order_sn": order_sn,
        "updated_at": before_ms + chance.choice((-1, 0, 1, 1, 1, 60_000)),
        "confirm_time": known.confirm_ms if known and chance.random() < 0.5 else confirm_ms(chance),
        "order_status": chance.randint(1, 3),
        "receiver_name": chance.choice(("张小明", "欧阳静", "Li Lei")),
        "receiver_phone": chance.choice(("13812341234", "0571-88886666")),
        "receiver_address": _address(chance),
        "goods_name": chance.choice(("折叠露营椅", "便携保温杯 500ml", 'A "chair", folding')),
        "pay_amount": chance.choice((0, 89, 157.5, "89.90", 0.01, 12345.67)),
    }
    optional: dict[str, Any] = {
        "province": "浙江省",
        "city": "杭州市",
        "town": "西湖区",
        "goods_img": "https://img.tollway.example/goods/2.jpg",
        "goods_spec": "燕麦色",
        "goods_count": chance.randint(0, 9),
        "is_pre_sale": chance.random() < 0.5,
        "last_ship_time": chance.choice((None, START_MS + chance.randrange(HOUR_MS))),
        "remark": chance.choice(REMARKS),
        "remark_tag": chance.choice((None, 1, 2, 3, 4, 5)),
        "remark_tag_name": chance.choice(TAG_NAMES),
    }
    record |= {name: value for name, value in optional.items() if chance.random() < 0.8}
    return record | chance.choice(_WRONG_OF_ORDER) if chance.random() < 0.01 else record


def _address(chance: Random) -> str:
    street = chance.choice(("文三路", "粤海街道高新南七道", "Long Street "))
    flat = (
        f"{chance.randint(1, 30)}幢{chance.randint(101, 2901)}室" if chance.random() < 0.5 else ""
    )
    return f"{street}{chance.randint(1, 999)}号{flat}"


def claim(chance: Random, claims: Claims) -> dict[str, Any]:
    """A record of a claim: a new one, or one that replaces or moves a known one."""
    code = f"C{chance.randrange(CLAIMS_MAX):05}"
    known = claims.claims.get(code)
    if known is not None and chance.random() < 0.2:
        # The same again.
        return {**known, "money": str(known["money"]), "min_use_money": str(known["min_use_money"])}
    kind = chance.choice((4, 4, 6))
    claimed_s = confirm_ms(chance) // 1000 + chance.randrange(2) * 7 * 86_400
    record: dict[str, Any] = {
        "coupon_code": code,
        "sid": chance.choice(SIDS),
        "app_key": "9f3c2d7b61e84a05",
        "type": kind,
        "claim_time": claimed_s,
        "begin_time": claimed_s,
        "end_time": claimed_s + 86_400,
        "coupon_name": chance.choice(("外卖通用红包", "天天神券", "O'Neil")),
        "money": chance.choice((5, "8.50", 3.1, "0")),
        "min_use_money": chance.choice((20, "35.00", 0.01)),
    }
    if kind == 6:
        record["coupon_type"] = chance.choice(("SHANGOU_COUPON", "鲜果券"))
    elif chance.random() < 0.5:
        record["coupon_type"] = "WAIMAI_COUPON"
    return record | chance.choice(_WRONG_OF_CLAIM) if chance.random() < 0.01 else record


def figures(chance: Random, today: date, count: int) -> list[dict[str, Any]]:
    """Records of products and their days, each thing at most once."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for _ in range(count):
        record = _figure(chance, today)
        key = (record["kind"], record["product_id"], record.get("day"), record.get("name"))
        found[key] = record
    return list(found.values())


def _figure(chance: Random, today: date) -> dict[str, Any]:
    kind = chance.choice(("product", "day", "day", "source", "keyword", "search"))
    record: dict[str, Any] = {"kind": kind, "product_id": chance.choice(PRODUCTS)}
    if kind == "product":
        record |= {"title": f"折叠椅 {chance.randrange(9)}", "shop_name": "青禾生活旗舰店"}
        return record | chance.choice(({}, {"picture_url": "https://img.tollway.example/1.jpg"}))
    visitors = chance.choice((0, 1, 8, 800, chance.randrange(5000)))
    record |= {
        "day": str(today - timedelta(days=chance.choice((0, 0, 1, 2, chance.randrange(45))))),
        "visitors": visitors,
        "buyers": chance.randint(0, visitors),
    }
    if kind == "day":
        record["payment"] = chance.choice((0, 267, 9324.5, 0.01))
        return record | _some(chance, "collections", "pieces_paid", "pieces_carted")
    record["name"] = f"{kind} {chance.randrange(6)}"
    return record | _some(chance, "pieces_ordered", "page_views")


def _some(chance: Random, *names: str) -> dict[str, int]:
    return {name: chance.randrange(100) for name in names if chance.random() < 0.7}


def materials(chance: Random, count: int, known: Mapping[Any, Any]) -> list[dict[str, Any]]:
    """Material that is on display now, or was, or is in the next seconds; no two began at once."""
    now_ms = int(time.time() * 1000)
    starts_ms = {each["display_start_ms"] for each in known.values()}
    found: dict[tuple[int, str], dict[str, Any]] = {}
    for _ in range(count):
        start_ms = now_ms + chance.randrange(-3_600_000, 10_000)
        while start_ms in starts_ms:
            start_ms += 1
        starts_ms.add(start_ms)
        record = _material(chance, start_ms)
        found[record["promotion_id"], record["id"]] = record
    return list(found.values())


def _material(chance: Random, start_ms: int) -> dict[str, Any]:
    name = f"m{chance.randrange(30)}"
    record: dict[str, Any] = {
        "promotion_id": chance.choice(PROMOTIONS),
        "id": name,
        "promotion_type": chance.choice("1234"),
        "condition_type": chance.choice("12"),
        "discount_type": chance.choice("12"),
        "total_count": 1000,
        "remain_count": chance.randrange(1001),
        "display_start_ms": start_ms,
        "display_end_ms": start_ms + chance.choice((5_000, 3_700_000, 10**11)),
        "seller_id": "2206501001",
        "nick": "青禾生活",
        "shop_title": "青禾生活旗舰店",
        "promotion_url": chance.choice(
            (f"https://promo.example/c/{name}#now", f"https://promo.example/c?c={name}")
        ),
        "benefits": [
            {"start_ms": start_ms, "end_ms": start_ms + 9, "condition": 9900, "discount": number}
            for number in range(chance.randrange(3))
        ],
        "items": [
            {"item_id": 620_145_007_337 + number, "url": f"https://promo.example/i?id={number}"}
            for number in range(chance.randrange(3))
        ],
    }
    if chance.random() < 0.3:
        record |= {"paid_coupon_item_id": "77", "paid_coupon_url": "https://promo.example/buy"}
    return record

"""Promotion material, made up: the same for one seed and day."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from random import Random

from tollway.operations.demo_data import DEMO_SEED, DemoTarget, no_progress, store_all
from tollway.operations.promotion_material.records import (
    BenefitRecord,
    ItemRecord,
    MaterialRecord,
    PromotionType,
)
from tollway.operations.promotion_material.storage import MaterialLoader
from tollway.store.database import Database

_DAY_MS = 86_400_000
_SITE = "https://promo.tollway.example"
# Promotion id, benefit type, and what a coupon of it is called in its link.
_KINDS: tuple[tuple[int, PromotionType, str], ...] = (
    (37104, "1", "paid"),
    (37116, "2", "shop"),
    (62191, "3", "mall"),
    (61809, "4", "stack"),
)
_SHOPS = (
    ("2206501001", "青禾生活", "青禾生活旗舰店"),
    ("2206501002", "北山户外", "北山户外专营店"),
    ("2206501003", "小满母婴", "小满母婴官方店"),
    ("2206501004", "拾光家居", "拾光家居"),
)


def make_materials(seed: int, per_promotion: int, today: date) -> Iterator[MaterialRecord]:
    """So many materials on display today for every known id, and two more that are not."""
    # A day back, so that it has begun in every time zone.
    yesterday = datetime(today.year, today.month, today.day, tzinfo=UTC) - timedelta(days=1)
    begun_ms = int(yesterday.timestamp() * 1000)
    for promotion_id, kind, word in _KINDS:
        for number in range(per_promotion):
            start_ms = begun_ms - (1 + number % 7) * _DAY_MS
            yield _material(seed, promotion_id, kind, word, number, start_ms)
        # One that is over and one that is still to come: neither may ever be listed.
        for number, days in ((per_promotion, -400), (per_promotion + 1, 200)):
            yield _material(seed, promotion_id, kind, word, number, begun_ms + days * _DAY_MS)


def _material(
    seed: int, promotion_id: int, kind: PromotionType, word: str, number: int, start_ms: int
) -> MaterialRecord:
    chance = Random(f"{seed}/{promotion_id}/{number}")  # noqa: S311 - made-up data, no secret
    seller_id, nick, title = _SHOPS[number % len(_SHOPS)]
    name = f"{word}{number + 1:03d}"
    total = chance.randrange(1, 51) * 1000
    end_ms = start_ms + 180 * _DAY_MS
    condition = chance.choice((9900, 19900, 29900))
    items = [chance.randrange(620_145_000_100, 620_145_009_999) for _ in range(number % 4)]
    return MaterialRecord(
        promotion_id=promotion_id,
        id=name,
        promotion_type=kind,
        condition_type="1",
        discount_type="1",
        total_count=total,
        remain_count=chance.randrange(total),
        display_start_ms=start_ms,
        display_end_ms=end_ms,
        seller_id=seller_id,
        nick=nick,
        shop_title=title,
        shop_picture_url=f"https://img.tollway.example/shop/{seller_id}.png",
        promotion_url=f"{_SITE}/coupon?c={name}",
        paid_coupon_item_id=str(620_145_020_000 + number) if kind == "1" else "",
        paid_coupon_url=f"{_SITE}/buy/{name}" if kind == "1" else "",
        benefits=[BenefitRecord(start_ms, end_ms, condition, condition // 10)],
        items=[ItemRecord(item, f"{_SITE}/item?id={item}") for item in items],
    )


# How many materials each promotion id has.
WORLD, SANDBOX = 24, 3


async def fill(target: DemoTarget) -> None:
    per_promotion = SANDBOX if target.is_sandbox else WORLD
    await fill_materials(target.database, per_promotion=per_promotion, today=target.today)


async def fill_materials(database: Database, *, per_promotion: int, today: date) -> None:
    """Stores promotion material; what is stored already gets the display times of today."""
    records = make_materials(DEMO_SEED, per_promotion, today)
    await store_all(database, MaterialLoader(), records, no_progress)

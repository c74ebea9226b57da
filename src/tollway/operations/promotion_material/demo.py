"""Made-up promotion material: the same for the same seed and day."""

from collections.abc import Iterator
from random import Random

from tollway.operations.demo_data import (
    BUY_PATH,
    COUPON_PATH,
    DEMO_SEED,
    ITEM_PATH,
    PICTURES_PATH,
    PRODUCTS,
    SHOPS,
    DemoTarget,
    no_progress,
    store_all,
)
from tollway.operations.promotion_material.records import (
    BenefitRecord,
    ItemRecord,
    MaterialRecord,
    PromotionType,
)
from tollway.operations.promotion_material.storage import MaterialLoader

_DAY_MS = 86_400_000
# Promotion id, benefit type, and what a coupon of it is called in its link.
_KINDS: tuple[tuple[int, PromotionType, str], ...] = (
    (37104, "1", "paid"),
    (37116, "2", "shop"),
    (62191, "3", "mall"),
    (61809, "4", "stack"),
)
# Fen off a sum in fen, for one or several sums; and per cent off for so many pieces.
_MONEY_STEPS = (
    ((9900, 1000),),
    ((19900, 2000), (39900, 5000)),
    ((9900, 800), (19900, 2000), (29900, 4500)),
)
_PIECE_STEPS = (((2, 10),), ((2, 5), (3, 10)), ((1, 5), (2, 12), (3, 20)))


def make_materials(
    seed: int, per_promotion: int, now_s: float, products: int, site: str
) -> Iterator[MaterialRecord]:
    """So many materials on display today for every known id, and two more that are not."""
    # Yesterday, so that it has begun in every time zone.
    begun_ms = (int(now_s) // 86_400 - 1) * _DAY_MS
    for promotion_id, kind, word in _KINDS:
        for number in range(per_promotion):
            start_ms = begun_ms - (1 + number % 7) * _DAY_MS
            yield _material(seed, promotion_id, kind, word, number, start_ms, products, site)
        # One that is over and one that is still to come: neither may be listed.
        for number, days in ((per_promotion, -400), (per_promotion + 1, 200)):
            start_ms = begun_ms + days * _DAY_MS
            yield _material(seed, promotion_id, kind, word, number, start_ms, products, site)


def _material(
    seed: int,
    promotion_id: int,
    kind: PromotionType,
    word: str,
    number: int,
    start_ms: int,
    products: int,
    site: str,
) -> MaterialRecord:
    chance = Random(f"{seed}/{promotion_id}/{number}")  # noqa: S311 - made-up data, no secret
    shop = SHOPS[number % len(SHOPS)]
    sold = [each for each in PRODUCTS[:products] if each.shop == shop]
    promoted = chance.sample(sold, min(number % 4, len(sold)))
    name = f"{word}{number + 1:03d}"
    total = chance.randrange(1, 51) * 1000
    end_ms = start_ms + 180 * _DAY_MS
    # Every third is for pieces, in per cent.
    is_by_pieces = number % 3 == 1
    steps = (_PIECE_STEPS if is_by_pieces else _MONEY_STEPS)[number // 3 % 3]
    is_paid = kind == "1"
    return MaterialRecord(
        promotion_id=promotion_id,
        id=name,
        promotion_type=kind,
        condition_type="2" if is_by_pieces else "1",
        discount_type="2" if is_by_pieces else "1",
        total_count=total,
        remain_count=chance.randrange(total),
        display_start_ms=start_ms,
        display_end_ms=end_ms,
        seller_id=shop.seller_id,
        nick=shop.nick,
        shop_title=shop.name,
        shop_picture_url=f"{site}{PICTURES_PATH}/{shop.seller_id}.png",
        promotion_url=f"{site}{COUPON_PATH}?c={name}",
        paid_coupon_item_id=chance.choice(sold).id if is_paid else "",
        paid_coupon_url=f"{site}{BUY_PATH}?c={name}" if is_paid else "",
        benefits=[BenefitRecord(start_ms, end_ms, least, off) for least, off in steps],
        items=[ItemRecord(int(each.id), f"{site}{ITEM_PATH}?id={each.id}") for each in promoted],
    )


# How many materials each promotion id has.
WORLD, SANDBOX = 24, 3


async def fill(target: DemoTarget) -> None:
    await fill_materials(target, SANDBOX if target.is_sandbox else WORLD)


async def fill_materials(target: DemoTarget, per_promotion: int) -> None:
    """Stores promotion material; what is stored already gets the display times of today."""
    products, site = target.products, target.site
    records = make_materials(DEMO_SEED, per_promotion, target.now_s, products, site)
    await store_all(target.database, MaterialLoader(), records, no_progress)

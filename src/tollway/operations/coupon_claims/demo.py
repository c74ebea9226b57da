"""Made-up coupon claims. The claims of a day depend only on the seed and the day, so a world that
is continued day by day is the same as one made at once."""

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from random import Random
from struct import Struct
from typing import NamedTuple
from zoneinfo import ZoneInfo

from tollway.ledger.usage import day_start_s
from tollway.operations.coupon_claims.records import DELIVERY, DELIVERY_COUPON, FLASH, ClaimRow
from tollway.operations.coupon_claims.storage import ClaimLoader
from tollway.operations.demo_data import (
    DEMO_SEED,
    DemoTarget,
    store_all,
)

SIDS = ("tw_demo_channel", "tw_demo_group", "tw_demo_live", "tw_demo_poster")
_APP_KEY = "9f3c2d7b61e84a05b7d2c8e4f1a60d35"
# Name, fen off, least spend in fen.
_DELIVERY_COUPONS = (
    ("外卖通用红包", 500, 2000),
    ("天天神券", 800, 3500),
    ("外卖节大额红包", 1200, 4500),
    ("早餐立减券", 300, 1200),
)
_FLASH_COUPONS = (
    ("闪购超市满减券", 1000, 5900),
    ("闪购鲜果券", 600, 2900),
    ("闪购药品券", 500, 3000),
)
_FLASH_COUPON = "SHANGOU_COUPON"
# Claims come at meal times: the weight of each hour of a day.
_HOUR_WEIGHTS = (2, 1, 1, 1, 1, 1, 2, 4, 5, 5, 9, 14, 10, 6, 5, 5, 8, 13, 12, 8, 6, 5, 4, 3)

_VALID_DAYS = (1, 3, 7)
# The random numbers of one claim, drawn at once.
_DRAWS = Struct("<2I3B")


def make_claims(
    seed: int, per_day: int, first: date, now_s: float, zone: ZoneInfo
) -> Iterator[ClaimRow]:
    """The claims from a day until now."""
    today = datetime.fromtimestamp(now_s, zone).date()
    for days in range((today - first).days + 1):
        yield from _day(seed, per_day, first + timedelta(days=days), now_s, zone)


def _day(seed: int, per_day: int, day: date, now_s: float, zone: ZoneInfo) -> Iterator[ClaimRow]:
    chance = Random(f"{seed}:claims:{day}")  # noqa: S311 - made-up claims, not secrets
    begins_s, prefix = day_start_s(day, zone), f"{day:%Y%m%d}"
    hours = chance.choices(range(24), _HOUR_WEIGHTS, k=per_day)
    sids = chance.choices(SIDS, (5, 3, 2, 1), k=per_day)
    draws = _DRAWS.iter_unpack(chance.randbytes(_DRAWS.size * per_day))
    for number, (hour, sid, drawn) in enumerate(zip(hours, sids, draws, strict=True)):
        second, serial, kind, coupon, days = drawn
        claimed_at_s = begins_s + hour * 3600 + second % 3600
        if claimed_at_s > now_s:
            continue
        is_delivery = kind % 10 < 7
        coupons = _DELIVERY_COUPONS if is_delivery else _FLASH_COUPONS
        name, money_fen, min_use_fen = coupons[coupon % len(coupons)]
        # The class's own constructor takes three times as long.
        yield tuple.__new__(
            ClaimRow,
            (
                sid,
                DELIVERY if is_delivery else FLASH,
                -claimed_at_s,
                f"{prefix}{number:06}{serial % 1_000_000:06}",
                name,
                DELIVERY_COUPON if is_delivery else _FLASH_COUPON,
                money_fen,
                min_use_fen,
                claimed_at_s,
                claimed_at_s + _VALID_DAYS[days % 3] * 86_400,
                _APP_KEY,
                claimed_at_s * 1000,
            ),
        )


class Size(NamedTuple):
    """How many claims a day has, and how many days are made before today."""

    per_day: int
    days: int


WORLD, SANDBOX = Size(1000, 50), Size(50, 60)


def world_records() -> int:
    return WORLD.per_day * WORLD.days


async def fill(target: DemoTarget) -> None:
    per_day, days = SANDBOX if target.is_sandbox else WORLD
    await fill_claims(target, per_day, target.first_day(days))


async def fill_claims(target: DemoTarget, per_day: int, first: date) -> None:
    """Stores coupon claims from a day until now."""
    # In the order of their listing, so that the database only appends.
    records = sorted(make_claims(DEMO_SEED, per_day, first, target.now_s, target.zone))
    await store_all(target.database, ClaimLoader(), records, target.progress)

"""Orders of three shops, made up. A day's orders depend on the seed, the shop and the day alone, so
that a world can be continued; as days pass, an order is shipped and then received."""

from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from random import Random
from typing import NamedTuple
from zoneinfo import ZoneInfo

from tollway.operations.demo_data import (
    DEMO_SEED,
    DEMO_SHOPS,
    DemoTarget,
    Progress,
    no_progress,
    store_all,
)
from tollway.operations.orders.records import OrderRecord, row_of
from tollway.operations.orders.storage import OrderLoader
from tollway.store.database import Database
from tollway.store.sealing import Sealer

# Of each shop: its owner, and its share of all orders in per cent.
SHOPS = tuple(zip(DEMO_SHOPS, (60, 30, 10), strict=True))
YEAR_DAYS = 365
# After so many days an order is shipped, and then received; from then on it stays as it is.
SHIPPED_DAYS, RECEIVED_DAYS = 2, 8

_DAY_MS = 86_400_000
_SURNAMES = "王李张刘陈杨黄赵周吴徐孙马朱胡郭何林罗高"
_GIVEN = "伟芳娜敏静丽强磊洋艳勇军杰娟涛明超霞平刚桂英华玉兰红"
_PLACES = (
    ("浙江省", "杭州市", "西湖区", "文三路"),
    ("江苏省", "苏州市", "工业园区", "星湖街"),
    ("广东省", "深圳市", "南山区", "科苑路"),
    ("四川省", "成都市", "武侯区", "天府大道"),
    ("湖北省", "武汉市", "洪山区", "珞喻路"),
    ("山东省", "青岛市", "市南区", "香港中路"),
    ("陕西省", "西安市", "雁塔区", "小寨东路"),
    ("上海市", "上海市", "浦东新区", "世纪大道"),
)
_GOODS = (
    ("加厚纯棉四件套", "1.8m 床 雾蓝", 25900),
    ("便携保温杯 500ml", "燕麦色", 7900),
    ("防水冲锋衣", "墨绿 L", 39900),
    ("婴儿隔尿垫", "100 片装", 3900),
    ("落地护眼台灯", "暖白光", 19900),
    ("轻便折叠椅", "两把装", 8900),
    ("冻干咖啡 24 颗", "美式", 6900),
    ("珊瑚绒睡衣", "燕麦 XL", 12900),
)
_TAG_NAMES = ("退款", "加急", "已核", "补发", "赠品")
_REMARKS = ("请尽快发货", "缺货请联系买家", "发顺丰，到付", "送货前电话联系", "随单附赠品一份")
# Orders come at these hours of the day; few at night, most in the evening.
_HOURS = (0, 1, 7, 8, 9, 9, 10, 10, 11, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 20, 21, 21, 22, 23)


def make_orders(
    seed: int, per_year: int, first: date, last: date, today: date, zone: ZoneInfo
) -> Iterator[OrderRecord]:
    """The orders of all shops from first to last, as they stand today."""
    for back in range((last - first).days + 1):
        day = first + timedelta(days=back)
        for owner_id, share in SHOPS:
            yield from _day(seed, owner_id, per_year * share // 100, day, today, zone)


def _day(
    seed: int, owner_id: str, per_year: int, day: date, today: date, zone: ZoneInfo
) -> Iterator[OrderRecord]:
    chance = Random(f"{seed}:{owner_id}:{day}")  # noqa: S311 - made-up orders, not secrets
    pick, below = chance.choice, chance.randrange
    midnight_ms = int(datetime.combine(day, time(), zone).timestamp()) * 1000
    number = day.toordinal()
    # So that any 365 days in a row have exactly as many as were asked for.
    count = per_year * (number + 1) // YEAR_DAYS - per_year * number // YEAR_DAYS
    status, changed_days = _progress((today - day).days)
    for position in range(count):
        confirm_ms = midnight_ms + pick(_HOURS) * 3_600_000 + below(3_600_000)
        goods = below(len(_GOODS))
        goods_name, goods_spec, price_fen = _GOODS[goods]
        pieces = 1 if below(5) else 2
        province, city, town, street = pick(_PLACES)
        tag = 1 + below(5) if below(10) == 0 else None
        yield OrderRecord(
            owner_id=owner_id,
            order_sn=f"{day:%y%m%d}-{owner_id[-2:]}{position:05}{below(10**8):08}",
            updated_at=confirm_ms + changed_days * _DAY_MS,
            confirm_time=confirm_ms,
            order_status=status,
            receiver_name=pick(_SURNAMES) + pick(_GIVEN) + pick(_GIVEN),
            receiver_phone=f"1{pick('35789')}{below(10**9):09}",
            receiver_address=f"{street}{1 + below(800)}号{1 + below(20)}幢{101 + below(2000)}室",
            goods_name=goods_name,
            pay_amount=Decimal(pieces * price_fen - 100 * below(20)) / 100,
            goods_count=pieces,
            goods_img=f"https://img.tollway.example/goods/{goods + 1}.jpg",
            goods_spec=goods_spec,
            province=province,
            city=city,
            town=town,
            is_pre_sale=below(40) == 0,
            last_ship_time=confirm_ms + 2 * _DAY_MS,
            remark=pick(_REMARKS) if tag is not None and below(2) else None,
            remark_tag=tag,
            remark_tag_name=None if tag is None else _TAG_NAMES[tag - 1],
        )


def _progress(age_days: int) -> tuple[int, int]:
    """An order's status by its age, and the day on which it got that status."""
    if age_days >= RECEIVED_DAYS:
        return 3, RECEIVED_DAYS
    return (2, SHIPPED_DAYS) if age_days >= SHIPPED_DAYS else (1, 0)


class Size(NamedTuple):
    """How many orders a year has, and how many days are made."""

    per_year: int
    days: int


WORLD, SANDBOX = Size(200_000, YEAR_DAYS), Size(3000, 60)


def world_records() -> int:
    return WORLD.per_year * WORLD.days // YEAR_DAYS


async def fill(target: DemoTarget) -> None:
    per_year, days = SANDBOX if target.is_sandbox else WORLD
    await fill_orders(
        target.database,
        target.sealer,
        per_year=per_year,
        # What was sold lately is shipped or received as days pass.
        days=target.days(days, changing_days=RECEIVED_DAYS),
        today=target.today,
        zone=target.zone,
        progress=target.progress,
    )


async def fill_orders(
    database: Database,
    sealer: Sealer,
    *,
    per_year: int,
    days: int,
    today: date,
    zone: ZoneInfo,
    progress: Progress = no_progress,
) -> None:
    """Stores the orders of the days before today, and updates those that are stored already."""
    last = today - timedelta(days=1)
    first = today - timedelta(days=days)
    made = make_orders(DEMO_SEED, per_year, first, last, today, zone)
    rows = (row_of(order, sealer) for order in made)
    await store_all(database, OrderLoader(sealer), rows, progress)

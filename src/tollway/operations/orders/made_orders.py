"""Made-up orders of three shops, as they are drawn. A day's orders depend on the seed, the shop and
the day alone, so that a world can be continued; as days pass, an order is shipped and then
received."""

from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import cache
from random import Random
from struct import Struct, unpack
from typing import NamedTuple
from zoneinfo import ZoneInfo

from tollway.operations.demo_data import PRODUCTS, SHOPS, DemoProduct, midnight_s
from tollway.operations.orders.records import OrderRecord, Receiver, packed

# The shares of the shops in all orders, in per cent.
_SHARES = (60, 30, 10)
YEAR_DAYS = 365
# After so many days an order is shipped, and then received; from then on it stays as it is.
SHIPPED_DAYS, RECEIVED_DAYS = 2, 8
# A shop promises to ship so many days after the confirmation, and later what is not made yet.
SHIP_DAYS, SHIP_DAYS_PRE_SALE = 2, (7, 10, 15)

DAY_MS = 86_400_000
_SURNAMES = "王李张刘陈杨黄赵周吴徐孙马朱胡郭何林罗高"
_GIVEN = "伟芳娜敏静丽强磊洋艳勇军杰娟涛明超霞平刚桂英华玉兰红"
_PLACES = (
    ("浙江省", "杭州市", "西湖区", "文三路"),
    ("江苏省", "苏州市", "吴中区", "星湖街"),
    ("广东省", "深圳市", "南山区", "科苑路"),
    ("四川省", "成都市", "武侯区", "天府大道"),
    ("湖北省", "武汉市", "洪山区", "珞喻路"),
    ("山东省", "青岛市", "市南区", "香港中路"),
    ("陕西省", "西安市", "雁塔区", "小寨东路"),
    ("上海市", "上海市", "浦东新区", "世纪大道"),
)
_TAG_NAMES = ("退款", "加急", "已核", "补发", "赠品")
_REMARKS = ("请尽快发货", "缺货请联系买家", "发顺丰，到付", "送货前电话联系", "随单附赠品一份")
# Orders come at these hours of the day; few at night, most in the evening.
_HOURS = (0, 1, 7, 8, 9, 9, 10, 10, 11, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 20, 21, 21, 22, 23)
_HOURS_MS = [hour * 3_600_000 for hour in _HOURS]
# Buyers come back: a power of two, because a draw is divided by it.
_BUYERS = 16_384
# What is drawn for one order, and for one buyer, at once: a draw for each number would take longer
# than all the rest.
_DRAWS = Struct("<I3H6B")
_BUYER_DRAWS = Struct("<2I5B")


class Buyer(NamedTuple):
    """Who orders, and where to; packed once for all orders."""

    number: int
    receiver: Receiver
    province: str
    city: str
    town: str
    packed: bytes


class MadeOrder(NamedTuple):
    """What was drawn for one order."""

    owner_id: str
    order_sn: str
    confirm_ms: int
    updated_ms: int
    status: int
    buyer: Buyer
    product: DemoProduct
    picture: str
    pieces: int
    pay_fen: int
    ship_days: int
    tag: int | None
    note: int | None

    @property
    def record(self) -> OrderRecord:
        name, phone, address = self.buyer.receiver[:3]
        return OrderRecord(
            owner_id=self.owner_id,
            order_sn=self.order_sn,
            updated_at=self.updated_ms,
            confirm_time=self.confirm_ms,
            order_status=self.status,
            receiver_name=name,
            receiver_phone=phone,
            receiver_address=address,
            goods_name=self.product.name,
            pay_amount=Decimal(self.pay_fen) / 100,
            goods_count=self.pieces,
            goods_img=self.picture,
            goods_spec=self.product.variant,
            province=self.buyer.province,
            city=self.buyer.city,
            town=self.buyer.town,
            is_pre_sale=self.ship_days != SHIP_DAYS,
            last_ship_time=self.confirm_ms + self.ship_days * DAY_MS,
            remark=None if self.note is None else _REMARKS[self.note],
            remark_tag=None if self.tag is None else 1 + self.tag,
            remark_tag_name=None if self.tag is None else _TAG_NAMES[self.tag],
        )


class _Buyers(dict[int, Buyer]):
    """Those who have ordered so far; the same in every world."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        chance = Random(f"{seed}:buyers")  # noqa: S311 - made-up people, not secrets
        self._drawn = chance.randbytes(_BUYER_DRAWS.size * _BUYERS)

    def __missing__(self, number: int) -> Buyer:
        drawn = _BUYER_DRAWS.unpack_from(self._drawn, number * _BUYER_DRAWS.size)
        phone, house, where, surname, given, given_2, prefix = drawn
        province, city, town, street = _PLACES[where % len(_PLACES)]
        receiver = Receiver(
            _SURNAMES[surname % 20] + _GIVEN[given % 26] + _GIVEN[given_2 % 26],
            f"1{'35789'[prefix % 5]}{phone % 10**9:09}",
            f"{street}{1 + house % 800}号{1 + house % 19}幢{101 + house % 1999}室",
        )
        made = self[number] = Buyer(number, receiver, province, city, town, packed(receiver))
        return made


_buyers = cache(_Buyers)


def make_orders(
    seed: int,
    per_year: int,
    first: date,
    now_s: float,
    zone: ZoneInfo,
    products: int = len(PRODUCTS),
    site: str = "",
) -> Iterator[MadeOrder]:
    """The orders of all shops from a day until now, as they stand now. Shop by shop and the newest
    day first, as they are listed: so the database appends each to the ones before."""
    today = datetime.fromtimestamp(now_s, zone).date()
    for shop, share in zip(SHOPS, _SHARES, strict=True):
        sold = [each for each in PRODUCTS[:products] if each.shop == shop]
        goods = [(each, site + each.picture_path) for each in sold]
        for age in range((today - first).days + 1):
            day = today - timedelta(days=age)
            made = _day(seed, shop.owner_id, per_year * share // 100, day, age, goods, zone)
            if age:
                yield from made
            else:
                yield from (each for each in made if each.confirm_ms <= now_s * 1000)


def _day(
    seed: int,
    owner_id: str,
    per_year: int,
    day: date,
    age: int,
    goods: Sequence[tuple[DemoProduct, str]],
    zone: ZoneInfo,
) -> Iterator[MadeOrder]:
    chance = Random(f"{seed}:{owner_id}:{day}")  # noqa: S311 - made-up orders, not secrets
    midnight_ms = midnight_s(day, zone) * 1000
    number = day.toordinal()
    # So that any 365 days in a row have exactly as many as were asked for.
    count = per_year * (number + 1) // YEAR_DAYS - per_year * number // YEAR_DAYS
    status, changed_days = _progress(age)
    changed_ms = changed_days * DAY_MS
    prefix = f"{day:%y%m%d}-{owner_id[-2:]}"
    buyers, kinds = _buyers(seed), len(goods)
    drawn_times = unpack(f"<{count}I", chance.randbytes(4 * count))
    times = sorted((_HOURS_MS[n % 24] + n // 24 % 3_600_000 for n in drawn_times), reverse=True)
    draws = _DRAWS.iter_unpack(chance.randbytes(_DRAWS.size * count))
    for position, (time_ms, drawn) in enumerate(zip(times, draws, strict=True)):
        serial, buyer, saved_fen, deadline, kind, two, tagged, tag, noted, note = drawn
        confirm_ms = midnight_ms + time_ms
        sold, picture = goods[kind % kinds]
        pieces = 1 if two % 5 else 2
        is_tagged = tagged % 10 == 0
        yield MadeOrder(
            owner_id,
            f"{prefix}{position:05}{serial % 10**8:08}",
            confirm_ms,
            confirm_ms + changed_ms,
            status,
            buyers[buyer % _BUYERS],
            sold,
            picture,
            pieces,
            pieces * sold.price_fen - saved_fen % 500,
            SHIP_DAYS if deadline % 40 else SHIP_DAYS_PRE_SALE[deadline % 3],
            tag % 5 if is_tagged else None,
            note % 5 if is_tagged and noted % 2 else None,
        )


def _progress(age_days: int) -> tuple[int, int]:
    """An order's status by its age, and the day on which it got that status."""
    if age_days >= RECEIVED_DAYS:
        return 3, RECEIVED_DAYS
    return (2, SHIPPED_DAYS) if age_days >= SHIPPED_DAYS else (1, 0)

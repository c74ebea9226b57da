"""Made-up orders of three shops, drawn at random. A day's orders depend only on the seed, the shop
and the day, so that a world can be continued; as days pass, an order is shipped and then received.
Draws repeat every four weeks, at other seconds: drawing each day separately would take most of the
time to make a demo world."""

from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import cache
from random import Random
from struct import Struct, unpack
from typing import NamedTuple
from zoneinfo import ZoneInfo

from tollway.ledger.usage import day_start_s
from tollway.operations.demo_data import PRODUCTS, SHOPS, DemoProduct
from tollway.operations.orders.records import OrderRecord, Receiver, packed

# The shares of the shops in all orders, in per cent.
_SHARES = (60, 30, 10)
YEAR_DAYS = 365
# After how many days an order is shipped, and then received; from then on it does not change.
SHIPPED_DAYS, RECEIVED_DAYS = 2, 8
# Within how many days of the confirmation a shop promises to ship; later for pre-sales.
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
_HOUR_MS = 3_600_000
_HOURS_MS = [hour * _HOUR_MS for hour in _HOURS]
# Buyers come back: a power of two, because a draw is divided by it.
_BUYERS = 4096
_SEASON_DAYS = 28
# Each day is shifted by `_SHIFT_MS` more than the day before, but never into the next day: the last
# `_LATEST_SHIFT_MS` of every hour have no draw.
_SHIFT_MS, _LATEST_SHIFT_MS = 7_919, 120_000
# The random numbers of one order, and of one buyer, drawn at once: drawing each number separately
# would take longer than all the rest.
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


class Draw(NamedTuple):
    """What was drawn for one order, whatever its day."""

    time_ms: int
    number_end: str
    buyer: Buyer
    product: DemoProduct
    picture: str
    pieces: int
    pay_fen: int
    ship_days: int
    tag: int | None
    note: int | None


class MadeDay(NamedTuple):
    """The orders of a shop on one day, the newest first: its draws from `first` to `end`. Days with
    the same `draws_key` have the same draws."""

    owner_id: str
    begins_ms: int
    number_start: str
    status: int
    # From the confirmation of an order to its last change.
    changed_ms: int
    draws_key: tuple[str, int]
    draws: Sequence[Draw]
    first: int
    end: int

    @property
    def whole(self) -> "MadeDay":
        """The same with all its draws."""
        return self._replace(first=0, end=len(self.draws))

    def orders(self) -> Iterator["MadeOrder"]:
        return (MadeOrder(self, each) for each in self.draws[self.first : self.end])


class MadeOrder(NamedTuple):
    """One order: what was drawn for it, and its day."""

    day: MadeDay
    draw: Draw

    @property
    def order_sn(self) -> str:
        return self.day.number_start + self.draw.number_end

    @property
    def confirm_ms(self) -> int:
        return self.day.begins_ms + self.draw.time_ms

    @property
    def record(self) -> OrderRecord:
        draw = self.draw
        name, phone, address = draw.buyer.receiver[:3]
        return OrderRecord(
            owner_id=self.day.owner_id,
            order_sn=self.order_sn,
            updated_at=self.confirm_ms + self.day.changed_ms,
            confirm_time=self.confirm_ms,
            order_status=self.day.status,
            receiver_name=name,
            receiver_phone=phone,
            receiver_address=address,
            goods_name=draw.product.name,
            pay_amount=Decimal(draw.pay_fen) / 100,
            goods_count=draw.pieces,
            goods_img=draw.picture,
            goods_spec=draw.product.variant,
            province=draw.buyer.province,
            city=draw.buyer.city,
            town=draw.buyer.town,
            is_pre_sale=draw.ship_days != SHIP_DAYS,
            last_ship_time=self.confirm_ms + draw.ship_days * DAY_MS,
            remark=None if draw.note is None else _REMARKS[draw.note],
            remark_tag=None if draw.tag is None else 1 + draw.tag,
            remark_tag_name=None if draw.tag is None else _TAG_NAMES[draw.tag],
        )


class _Buyers(dict[int, Buyer]):
    """The buyers who have ordered so far; the same in every world."""

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


def make_days(
    seed: int,
    per_year: int,
    first: date,
    now_s: float,
    zone: ZoneInfo,
    products: int = len(PRODUCTS),
    site: str = "",
) -> Iterator[MadeDay]:
    """The orders of all shops from a day until now, in their current state. Shop by shop and the
    newest day first, in the order of listing, so that the database only appends."""
    today = datetime.fromtimestamp(now_s, zone).date()
    for shop, share in zip(SHOPS, _SHARES, strict=True):
        goods = [
            (each, site + each.picture_path) for each in PRODUCTS[:products] if each.shop == shop
        ]
        its_per_year = per_year * share // 100
        seasons: dict[int, list[Draw]] = {}
        for age in range((today - first).days + 1):
            number = (today - timedelta(days=age)).toordinal()
            of_season = number % _SEASON_DAYS
            draws = seasons.get(of_season)
            if draws is None:
                chance = Random(f"{seed}:{shop.owner_id}:{of_season}")  # noqa: S311 - no secrets
                count = -(-its_per_year // YEAR_DAYS)
                draws = seasons[of_season] = _draws(chance, count, goods, _buyers(seed))
            yield _day(shop.owner_id, its_per_year, number, age, (of_season, draws), now_s, zone)


def _day(
    owner_id: str,
    per_year: int,
    number: int,
    age: int,
    season: tuple[int, list[Draw]],
    now_s: float,
    zone: ZoneInfo,
) -> MadeDay:
    day = date.fromordinal(number)
    of_season, draws = season
    begins_ms = day_start_s(day, zone) * 1000 + number * _SHIFT_MS % _LATEST_SHIFT_MS
    # Any 365 days in a row then have exactly `per_year` orders.
    end = per_year * (number + 1) // YEAR_DAYS - per_year * number // YEAR_DAYS
    # Draws are in order of time, the newest first, so today begins with those still to come.
    coming = 0 if age else sum(begins_ms + each.time_ms > now_s * 1000 for each in draws)
    status, changed_days = _progress(age)
    return MadeDay(
        owner_id,
        begins_ms,
        f"{day:%y%m%d}-{owner_id[-2:]}",
        status,
        changed_days * DAY_MS,
        (owner_id, of_season),
        draws,
        coming,
        end,
    )


def _draws(
    chance: Random, count: int, goods: Sequence[tuple[DemoProduct, str]], buyers: "_Buyers"
) -> list[Draw]:
    """The draws of a day, the newest first."""
    drawn_times = unpack(f"<{count}I", chance.randbytes(4 * count))
    within_hour = _HOUR_MS - _LATEST_SHIFT_MS
    times = sorted((_HOURS_MS[n % 24] + n // 24 % within_hour for n in drawn_times), reverse=True)
    drawn = _DRAWS.iter_unpack(chance.randbytes(_DRAWS.size * count))
    made = []
    for position, (time_ms, numbers) in enumerate(zip(times, drawn, strict=True)):
        serial, buyer, saved_fen, deadline, kind, two, tagged, tag, noted, note = numbers
        sold, picture = goods[kind % len(goods)]
        pieces = 1 if two % 5 else 2
        is_tagged = tagged % 10 == 0
        made.append(
            Draw(
                time_ms,
                f"{position:05}{serial % 10**8:08}",
                buyers[buyer % _BUYERS],
                sold,
                picture,
                pieces,
                pieces * sold.price_fen - saved_fen % 500,
                SHIP_DAYS if deadline % 40 else SHIP_DAYS_PRE_SALE[deadline % 3],
                tag % 5 if is_tagged else None,
                note % 5 if is_tagged and noted % 2 else None,
            )
        )
    return made


def _progress(age_days: int) -> tuple[int, int]:
    """An order's status by its age, and the day on which it got that status."""
    if age_days >= RECEIVED_DAYS:
        return 3, RECEIVED_DAYS
    return (2, SHIPPED_DAYS) if age_days >= SHIPPED_DAYS else (1, 0)

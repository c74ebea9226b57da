"""Orders of three shops, made up. A day's orders depend on the seed, the shop and the day alone, so
that a world can be continued; as days pass, an order is shipped and then received."""

from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import cache
from itertools import islice
from random import Random
from struct import Struct, unpack
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from sqlalchemy import BindParameter, ColumnElement, LargeBinary, String, bindparam, cast, func

from tollway.operations.demo_data import (
    DEMO_SEED,
    PRODUCTS,
    SHOPS,
    DemoProduct,
    DemoTarget,
    Progress,
    midnight_s,
    no_progress,
    store_all,
)
from tollway.operations.orders.records import OrderRecord, ready_order, row_of
from tollway.operations.orders.schema import shop_order
from tollway.operations.orders.storage import OrderLoader
from tollway.store.database import Database, Transaction
from tollway.store.query import Query
from tollway.store.sealing import Sealer

# The shares of the shops in all orders, in per cent.
_SHARES = (60, 30, 10)
YEAR_DAYS = 365
# After so many days an order is shipped, and then received; from then on it stays as it is.
SHIPPED_DAYS, RECEIVED_DAYS = 2, 8
# A shop promises to ship so many days after the confirmation, and later what is not made yet.
_SHIP_DAYS, _SHIP_DAYS_PRE_SALE = 2, (7, 10, 15)

_DAY_MS = 86_400_000
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
# What is drawn for one order, at once: a draw for each number would take longer than all the rest.
_DRAWS = Struct("<3I2H11B")


def make_orders(
    seed: int,
    per_year: int,
    first: date,
    now_s: float,
    zone: ZoneInfo,
    products: int = len(PRODUCTS),
    site: str = "",
) -> Iterator[OrderRecord]:
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
                yield from (each for each in made if each.confirm_time <= now_s * 1000)


def _day(
    seed: int,
    owner_id: str,
    per_year: int,
    day: date,
    age: int,
    goods: Sequence[tuple[DemoProduct, str]],
    zone: ZoneInfo,
) -> Iterator[OrderRecord]:
    chance = Random(f"{seed}:{owner_id}:{day}")  # noqa: S311 - made-up orders, not secrets
    midnight_ms = midnight_s(day, zone) * 1000
    number = day.toordinal()
    # So that any 365 days in a row have exactly as many as were asked for.
    count = per_year * (number + 1) // YEAR_DAYS - per_year * number // YEAR_DAYS
    status, changed_days = _progress(age)
    prefix = f"{day:%y%m%d}-{owner_id[-2:]}"
    times = sorted(map(_time_of_day_ms, _draw(chance, count)), reverse=True)
    draws = _DRAWS.iter_unpack(chance.randbytes(_DRAWS.size * count))
    for position, (time_ms, drawn) in enumerate(zip(times, draws, strict=True)):
        phone, house, serial, saved_fen, deadline, *rest = drawn
        kind, two, where, tagged, tag, noted, note, surname, given, given_2, prefix_2 = rest
        confirm_ms = midnight_ms + time_ms
        sold, picture = goods[kind % len(goods)]
        pieces = 1 if two % 5 else 2
        province, city, town, street = _PLACES[where % len(_PLACES)]
        is_tagged = tagged % 10 == 0
        is_pre_sale = deadline % 40 == 0
        ship_days = _SHIP_DAYS_PRE_SALE[deadline % 3] if is_pre_sale else _SHIP_DAYS
        yield OrderRecord(
            owner_id=owner_id,
            order_sn=f"{prefix}{position:05}{serial % 10**8:08}",
            updated_at=confirm_ms + changed_days * _DAY_MS,
            confirm_time=confirm_ms,
            order_status=status,
            receiver_name=_SURNAMES[surname % 20] + _GIVEN[given % 26] + _GIVEN[given_2 % 26],
            receiver_phone=f"1{'35789'[prefix_2 % 5]}{phone % 10**9:09}",
            receiver_address=f"{street}{1 + house % 800}号{1 + house % 19}幢{101 + house % 1999}室",
            goods_name=sold.name,
            pay_amount=_yuan(pieces * sold.price_fen - saved_fen % 500),
            goods_count=pieces,
            goods_img=picture,
            goods_spec=sold.variant,
            province=province,
            city=city,
            town=town,
            is_pre_sale=is_pre_sale,
            last_ship_time=confirm_ms + ship_days * _DAY_MS,
            remark=_REMARKS[note % 5] if is_tagged and noted % 2 else None,
            remark_tag=1 + tag % 5 if is_tagged else None,
            remark_tag_name=_TAG_NAMES[tag % 5] if is_tagged else None,
        )


def _time_of_day_ms(drawn: int) -> int:
    return _HOURS[drawn % 24] * 3_600_000 + drawn // 24 % 3_600_000


def _draw(chance: Random, count: int) -> tuple[int, ...]:
    return unpack(f"<{count}I", chance.randbytes(4 * count))


def _progress(age_days: int) -> tuple[int, int]:
    """An order's status by its age, and the day on which it got that status."""
    if age_days >= RECEIVED_DAYS:
        return 3, RECEIVED_DAYS
    return (2, SHIPPED_DAYS) if age_days >= SHIPPED_DAYS else (1, 0)


@cache
def _yuan(fen: int) -> Decimal:
    return Decimal(fen) / 100


class ReadyForms:
    """Ready orders by forms: made-up orders differ in a few fields alone, and to mask and encode
    each of them would take as long as all the rest."""

    def __init__(self) -> None:
        self._forms: dict[tuple[object, ...], str] = {}

    def ready(self, order: OrderRecord) -> bytes:
        if order.remark_tag is not None:
            # Few, and of many kinds.
            return ready_order(order)
        alike = (order.goods_img, order.province, order.goods_count, order.is_pre_sale)
        form = self._forms.get(alike)
        if form is None:
            form = self._forms[alike] = _form_of(order)
        return (form % _own_fields(order)).encode()


def _own_fields(order: OrderRecord) -> tuple[object, ...]:
    phone = order.receiver_phone
    return (
        order.receiver_name[0],
        phone[:3],
        phone[7:],
        order.order_sn,
        order.last_ship_time,
        order.confirm_time,
        float(order.pay_amount),
        order.order_status,
    )


def _form_of(order: OrderRecord) -> str:
    """The ready order with its own fields left open."""
    form = ready_order(order).decode().replace("%", "%%")
    own = iter(_own_fields(order))
    for field in (
        '"receiver_name":"%s**"',
        '"receiver_phone":"%s****%s"',
        '"order_sn":"%s"',
        '"last_ship_time":%s',
        '"confirm_time":%s',
        '"pay_amount":%s',
        '"order_status":%s',
    ):
        values = tuple(islice(own, field.count("%")))
        form = form.replace(field % values, field, 1)
    return form


class Size(NamedTuple):
    """How many orders a year has, and how many days are made before today."""

    per_year: int
    days: int


WORLD, SANDBOX = Size(200_000, YEAR_DAYS), Size(3000, 60)


def world_records() -> int:
    return WORLD.per_year * WORLD.days // YEAR_DAYS


def _text(name: str) -> BindParameter[str]:
    return bindparam(name, type_=String)


def _moved(column: ColumnElement[Any]) -> ColumnElement[Any]:
    return func.replace(column, _text("old_site"), _text("new_site"))


# The ready order is encoded text, as bytes.
_MOVE_PICTURES = Query(
    shop_order.update()
    .values(
        goods_img=_moved(shop_order.c.goods_img),
        ready=cast(_moved(cast(shop_order.c.ready, String)), LargeBinary),
    )
    .where(shop_order.c.goods_img.startswith(_text("old_site")))
)
_MOVE_PICTURES_IN_MONTHS = Query(
    shop_order.update()
    .values(
        goods_img=_moved(shop_order.c.goods_img),
        ready=func.convert_to(_moved(func.convert_from(shop_order.c.ready, "UTF8")), "UTF8"),
    )
    .where(shop_order.c.goods_img.startswith(_text("old_site")))
)


async def fill(target: DemoTarget) -> None:
    per_year, days = SANDBOX if target.is_sandbox else WORLD
    if target.made_site not in (None, target.site):
        await _move_pictures(target.database, f"{target.made_site}/demo/", f"{target.site}/demo/")
    await fill_orders(
        target.database,
        target.sealer,
        per_year=per_year,
        # What was sold lately is shipped or received as days pass.
        first=target.first_day(days, changing_days=RECEIVED_DAYS),
        now_s=target.now_s,
        zone=target.zone,
        products=target.products,
        site=target.site,
        progress=target.progress,
    )


async def fill_orders(
    database: Database,
    sealer: Sealer,
    *,
    per_year: int,
    first: date,
    now_s: float,
    zone: ZoneInfo,
    products: int = len(PRODUCTS),
    site: str = "",
    progress: Progress = no_progress,
) -> None:
    """Stores the orders from a day until now, and updates those that are stored already."""
    made = make_orders(DEMO_SEED, per_year, first, now_s, zone, products, site)
    forms = ReadyForms()
    rows = (row_of(order, sealer, forms.ready(order)) for order in made)
    await store_all(database, OrderLoader(sealer), rows, progress)


async def _move_pictures(database: Database, old_site: str, new_site: str) -> None:
    """The gateway that shows the pictures of orders is at another address now."""

    async def work(transaction: Transaction) -> None:
        await transaction.allow_long_statements()
        query = _MOVE_PICTURES_IN_MONTHS if transaction.is_shared else _MOVE_PICTURES
        await transaction.execute(query, old_site=old_site, new_site=new_site)

    await database.write(work)

"""The orders of the demo world, made up in `made_orders.py`, and their rows in the database."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from time import time_ns
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    LargeBinary,
    String,
    bindparam,
    cast,
    func,
    select,
)

from tollway.operations.demo_data import (
    DEMO_SEED,
    PRODUCTS,
    DemoTarget,
    Progress,
    no_progress,
    store_all,
)
from tollway.operations.orders.counts import counted, recount
from tollway.operations.orders.made_orders import (
    DAY_MS,
    RECEIVED_DAYS,
    SHIP_DAYS,
    YEAR_DAYS,
    MadeDay,
    MadeOrder,
    make_days,
)
from tollway.operations.orders.records import (
    OrderRow,
    packed,
    ready_order,
    receiver_context,
    receiver_of,
    row_of,
)
from tollway.operations.orders.schema import order_change, shop_order
from tollway.operations.orders.storage import OrderLoader
from tollway.store.database import Database, Transaction
from tollway.store.many_rows import upserts
from tollway.store.query import Query
from tollway.store.sealing import Sealer

# Fields of ready orders, with what is each order's own left open.
_NAME, _PHONE, _AMOUNT = '"receiver_name":"%s**"', '"receiver_phone":"%s****%s"', b'"pay_amount":'


class _Parts(NamedTuple):
    """What orders of one kind have in common: of the ready order what is between the number and the
    times, then before and after the amount; and the remark and the tags of the row."""

    middle: bytes
    before: bytes
    after: bytes
    remark: str | None
    tag: int | None
    tag_name: str | None


class _Form(NamedTuple):
    """All of a draw's row that is the same on every day."""

    time_ms: int
    number_end: str
    ship_ms: int
    to_seal: bytes
    # The ready order: before the number, up to the times, and after them.
    head: bytes
    middle: bytes
    end: bytes
    # Columns that follow each other in a row.
    goods: tuple[object, ...]
    pay_fen: int
    remarked: tuple[object, ...]


class RowMaker:
    """Makes the rows of made-up orders, part by part: most orders differ in a few fields alone, and
    to mask, encode and seal each by itself would take as long as all the rest."""

    def __init__(self, sealer: Sealer) -> None:
        self._sealer = sealer
        # What comes before the number of a ready order, by the buyer's place and by the buyer.
        self._place_heads: dict[str, str] = {}
        self._heads: dict[int, bytes] = {}
        self._parts: dict[tuple[object, ...], _Parts] = {}
        self._forms: dict[tuple[object, ...], list[_Form]] = {}

    def rows(self, days: Iterable[MadeDay]) -> Iterator[OrderRow]:
        """The rows, in the same order, with change numbers for a database that has none yet."""
        change_no = time_ns() // 1000
        for day in days:
            key = (*day.draws_key, day.status)
            forms = self._forms.get(key)
            if forms is None:
                forms = self._forms[key] = [self._form(each) for each in day.whole.orders()]
            forms = forms[day.first : day.end]
            yield from self._day(day, forms, change_no)
            change_no += len(forms)

    def _day(self, day: MadeDay, forms: Sequence[_Form], change_no: int) -> Iterator[OrderRow]:
        owner_id, begins_ms, start, status, changed_ms = day[:5]
        numbers = [start + form.number_end for form in forms]
        sealed = self._sealer.seal_many(
            [
                (form.to_seal, receiver_context(owner_id, number))
                for form, number in zip(forms, numbers, strict=True)
            ]
        )
        for form, number, its_sealed in zip(forms, numbers, sealed, strict=True):
            confirm_ms = begins_ms + form.time_ms
            last_ship_ms = confirm_ms + form.ship_ms
            change_no += 1
            times = b'%d,"confirm_time":%d' % (last_ship_ms, confirm_ms)
            row = (
                owner_id,
                -confirm_ms,
                number,
                confirm_ms + changed_ms,
                status,
                *form.goods,
                last_ship_ms,
                form.pay_fen,
                *form.remarked,
                change_no,
                its_sealed,
                b"".join((form.head, number.encode(), form.middle, times, form.end)),
            )
            # The class's own constructor takes three times as long.
            yield tuple.__new__(OrderRow, row)

    def _form(self, order: MadeOrder) -> _Form:
        draw, buyer = order.draw, order.draw.buyer
        middle, before, after, *remarked = self._parts_of(order)
        goods = (
            buyer.province,
            buyer.city,
            buyer.town,
            draw.product.name,
            draw.picture,
            draw.product.variant,
            draw.pieces,
            draw.ship_days != SHIP_DAYS,
        )
        return _Form(
            draw.time_ms,
            draw.number_end,
            draw.ship_days * DAY_MS,
            buyer.packed if draw.note is None else packed(receiver_of(order.record)),
            self._head_of(order),
            middle,
            b"".join((before, str(draw.pay_fen / 100).encode(), after)),
            goods,
            draw.pay_fen,
            tuple(remarked),
        )

    def _head_of(self, order: MadeOrder) -> bytes:
        buyer = order.draw.buyer
        head = self._heads.get(buyer.number)
        if head is not None:
            return head
        name, phone = buyer.receiver[:2]
        shown = (name[0], phone[:3], phone[7:])
        form = self._place_heads.get(buyer.town)
        if form is None:
            form = ready_order(order.record).partition(order.order_sn.encode())[0].decode()
            form = form.replace(_NAME % shown[:1], _NAME, 1)
            form = self._place_heads[buyer.town] = form.replace(_PHONE % shown[1:], _PHONE, 1)
        head = self._heads[buyer.number] = (form % shown).encode()
        return head

    def _parts_of(self, order: MadeOrder) -> _Parts:
        draw = order.draw
        key = (draw.picture, draw.pieces, order.day.status, draw.ship_days, draw.tag, draw.note)
        parts = self._parts.get(key)
        if parts is not None:
            return parts
        row = row_of(order.record, self._sealer)
        rest = row.ready.partition(order.order_sn.encode())[2]
        times = f'{row.last_ship_ms},"confirm_time":{order.confirm_ms}'.encode()
        middle, _, rest = rest.partition(times)
        before, _, rest = rest.partition(_AMOUNT)
        after = rest.removeprefix(str(draw.pay_fen / 100).encode())
        remarked = (row.remark, row.remark_tag, row.remark_tag_name)
        parts = self._parts[key] = _Parts(middle, before + _AMOUNT, after, *remarked)
        return parts


_ANY = Query(select(shop_order.c.owner_id).limit(1))


class _FirstOrders(OrderLoader):
    """Where no order is stored yet: these are made once each, numbered, and in the order of the
    key."""

    async def store(self, transaction: Transaction, records: Sequence[OrderRow]) -> int:
        await transaction.insert_rows(shop_order, records)
        last = {row.owner_id: row.change_no for row in records}
        await transaction.put_rows(upserts(order_change), sorted(last.items()))
        await recount(transaction, counted(records))
        return len(records)


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
    made = make_days(DEMO_SEED, per_year, first, now_s, zone, products, site)
    is_first = await database.fetch_one(_ANY) is None
    loader = _FirstOrders(sealer) if is_first else OrderLoader(sealer)
    await store_all(database, loader, RowMaker(sealer).rows(made), progress)


async def _move_pictures(database: Database, old_site: str, new_site: str) -> None:
    """The gateway that shows the pictures of orders is at another address now."""

    async def work(transaction: Transaction) -> None:
        await transaction.allow_long_statements()
        query = _MOVE_PICTURES_IN_MONTHS if transaction.is_shared else _MOVE_PICTURES
        await transaction.execute(query, old_site=old_site, new_site=new_site)

    await database.write(work)

"""The orders of the demo world, made up in `made_orders.py`, and their rows in the database."""

from collections.abc import Callable, Coroutine, Iterable, Iterator
from datetime import date
from functools import partial
from itertools import chain, count, repeat
from time import time_ns
from typing import Any, NamedTuple

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    LargeBinary,
    String,
    Update,
    bindparam,
    cast,
    func,
    select,
)

from tollway.operations.demo_data import (
    DEMO_SEED,
    DemoTarget,
    made_in_second_process,
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
from tollway.store.database import Transaction, transactional
from tollway.store.many_rows import upserts
from tollway.store.query import Query
from tollway.store.sealing import Sealer

# Fields of ready orders, without what differs from order to order.
_NAME, _PHONE, _AMOUNT = '"receiver_name":"%s**"', '"receiver_phone":"%s****%s"', b'"pay_amount":'


class _OrderTemplate(NamedTuple):
    """What orders of one kind have in common: the parts of the ready order between the number and
    the times, and before and after the amount; and the remark and the tags of the row."""

    middle: bytes
    before: bytes
    after: bytes
    remark: str | None
    tag: int | None
    tag_name: str | None


class _Columns(NamedTuple):
    """What a day's rows have in common with every other day of the same draws: a tuple of values
    per column, from which the rows are assembled in one go."""

    time_ms: tuple[int, ...]
    ship_ms: tuple[int, ...]
    # The part of the order's number after its day.
    number_end: tuple[str, ...]
    number_bytes: tuple[bytes, ...]
    to_seal: tuple[bytes, ...]
    # The parts of the ready order: before the number, up to the times, and after them.
    head: tuple[bytes, ...]
    middle: tuple[bytes, ...]
    end: tuple[bytes, ...]
    # Adjacent columns of the table.
    before_ship: tuple[tuple[object, ...], ...]
    after_ship: tuple[tuple[object, ...], ...]


class RowMaker:
    """Makes the rows of made-up orders from shared parts: most orders differ in only a few fields,
    and masking, encoding and sealing each separately would take as long as all the rest."""

    def __init__(self, sealer: Sealer) -> None:
        self._sealer = sealer
        # What comes before the number of a ready order, by the buyer's place and by the buyer.
        self._place_heads: dict[str, str] = {}
        self._heads: dict[int, bytes] = {}
        self._parts: dict[tuple[object, ...], _OrderTemplate] = {}
        self._columns: dict[tuple[object, ...], _Columns] = {}

    def rows(self, days: Iterable[MadeDay]) -> Iterator[OrderRow]:
        """The rows, in the same order, with change numbers for a database that has none yet."""
        return chain.from_iterable(self._days(days))

    def _days(self, days: Iterable[MadeDay]) -> Iterator[Iterable[OrderRow]]:
        change_no = time_ns() // 1000
        for day in days:
            key = (*day.draws_key, day.status)
            columns = self._columns.get(key)
            if columns is None:
                columns = self._columns[key] = self._columns_of(day.whole)
            yield self._day(day, columns, change_no)
            change_no += day.end - day.first

    def _day(self, day: MadeDay, columns: _Columns, change_no: int) -> Iterable[OrderRow]:
        owner_id, begins_ms, start, status, changed_ms = day[:5]
        used = slice(day.first, day.end)
        ends, heads, middles, lasts = (
            column[used]
            for column in (columns.number_bytes, columns.head, columns.middle, columns.end)
        )
        confirm_ms = [begins_ms + each for each in columns.time_ms[used]]
        ship_ms = [at + more for at, more in zip(confirm_ms, columns.ship_ms[used], strict=True)]
        times = [b'%d,"confirm_time":%d' % each for each in zip(ship_ms, confirm_ms, strict=True)]
        context = receiver_context(owner_id, start)
        rows = zip(
            repeat(owner_id),
            [-each for each in confirm_ms],
            [start + each for each in columns.number_end[used]],
            [each + changed_ms for each in confirm_ms],
            repeat(status),
            *(column[used] for column in columns.before_ship),
            ship_ms,
            *(column[used] for column in columns.after_ship),
            count(change_no + 1),
            self._sealer.seal_many(columns.to_seal[used], [context + each for each in ends]),
            map(b"".join, zip(heads, repeat(start.encode()), ends, middles, times, lasts)),
        )
        # The class's own constructor takes three times as long.
        return map(tuple.__new__, repeat(OrderRow), rows)

    def _columns_of(self, day: MadeDay) -> _Columns:
        orders = list(day.orders())
        draws = [order.draw for order in orders]
        parts = [self._parts_of(order) for order in orders]
        # In the order of the table.
        before_ship = [
            (
                *draw.buyer[2:5],
                draw.product.name,
                draw.picture,
                draw.product.variant,
                draw.pieces,
                draw.ship_days != SHIP_DAYS,
            )
            for draw in draws
        ]
        after_ship = [(draw.pay_fen, *of[3:]) for draw, of in zip(draws, parts, strict=True)]
        return _Columns(
            tuple(draw.time_ms for draw in draws),
            tuple(draw.ship_days * DAY_MS for draw in draws),
            tuple(draw.number_end for draw in draws),
            tuple(draw.number_end.encode() for draw in draws),
            tuple(
                draw.buyer.packed if draw.note is None else packed(receiver_of(order.record))
                for order, draw in zip(orders, draws, strict=True)
            ),
            tuple(map(self._head_of, orders)),
            tuple(of.middle for of in parts),
            tuple(
                b"%b%a%b" % (of.before, draw.pay_fen / 100, of.after)
                for draw, of in zip(draws, parts, strict=True)
            ),
            tuple(zip(*before_ship, strict=True)),
            tuple(zip(*after_ship, strict=True)),
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

    def _parts_of(self, order: MadeOrder) -> _OrderTemplate:
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
        parts = self._parts[key] = _OrderTemplate(middle, before + _AMOUNT, after, *remarked)
        return parts


_ANY = Query(lambda: select(shop_order.c.owner_id).limit(1))


class _FirstOrders(OrderLoader):
    """For a database without orders: these have no duplicates, and come numbered and in key
    order."""

    async def store(self, transaction: Transaction, records: Iterable[OrderRow]) -> int:
        rows = list(records)
        await transaction.insert_rows(shop_order, rows)
        last = {row.owner_id: row.change_no for row in rows}
        await transaction.put_rows(upserts(order_change), sorted(last.items()))
        await recount(transaction, counted(rows))
        return len(rows)


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


def _with_moved_pictures(ready: ColumnElement[Any]) -> Update:
    return (
        shop_order.update()
        .values(goods_img=_moved(shop_order.c.goods_img), ready=ready)
        .where(shop_order.c.goods_img.startswith(_text("old_site")))
    )


# The ready order is encoded text, as bytes.
_ready = shop_order.c.ready
_MOVE_PICTURES = Query(
    lambda: _with_moved_pictures(cast(_moved(cast(_ready, String)), LargeBinary)),
    lambda: _with_moved_pictures(
        func.convert_to(_moved(func.convert_from(_ready, "UTF8")), "UTF8")
    ),
)


def fill(target: DemoTarget) -> Coroutine[Any, Any, None]:
    per_year, days = SANDBOX if target.is_sandbox else WORLD
    # Recent orders are shipped or received as days pass.
    first = target.first_day(days, changing_days=RECEIVED_DAYS)
    is_new_world = not target.is_sandbox and target.made_days_ago is None
    begin = partial(fill_orders, target, per_year, first, in_second_process=is_new_world)
    is_moved = target.made_site not in (None, target.site)
    return _fill_moved(target, begin) if is_moved else begin()


async def _fill_moved(target: DemoTarget, begin: Callable[[], Coroutine[Any, Any, None]]) -> None:
    await _move_pictures(target.database, f"{target.made_site}/demo/", f"{target.site}/demo/")
    await begin()


def fill_orders(
    target: DemoTarget, per_year: int, first: date, *, in_second_process: bool = False
) -> Coroutine[Any, Any, None]:
    """Stores the orders from a day until now, and updates those that are stored already. A second
    process, if asked for, starts making them now."""
    which = (per_year, first, target.now_s, target.zone, target.products, target.site)
    make = partial(_make_rows, target.sealer, *which)
    rows = made_in_second_process(OrderRow, make) if in_second_process else make()
    return _store(target, rows)


def _make_rows(sealer: Sealer, *which: Any) -> Iterator[OrderRow]:
    return RowMaker(sealer).rows(make_days(DEMO_SEED, *which))


async def _store(target: DemoTarget, rows: Iterable[OrderRow]) -> None:
    is_first = await target.database.fetch_one(_ANY) is None
    loader = (_FirstOrders if is_first else OrderLoader)(target.sealer)
    await store_all(target.database, loader, rows, target.progress)


@transactional
async def _move_pictures(transaction: Transaction, old_site: str, new_site: str) -> None:
    """Changes the links to pictures, because the gateway that serves them has a new address."""
    await transaction.allow_long_statements()
    await transaction.execute(_MOVE_PICTURES, old_site=old_site, new_site=new_site)

"""One page of orders, and how many there are.

The counts per day and hour give the total and the hour in which the page begins; from there its
orders are one run of neighbours in an index.
"""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    CompoundSelect,
    FromClause,
    Integer,
    LargeBinary,
    Select,
    String,
    TextClause,
    and_,
    bindparam,
    cast,
    func,
    null,
    or_,
    select,
    text,
    union_all,
)

from tollway.operations.orders.day_counts import Guess
from tollway.operations.orders.positions import (
    VERSION,
    VERSION_SHARED,
    Filter,
    Positions,
    window_values,
)
from tollway.operations.orders.schema import (
    DAY_HOURS,
    DAY_MS,
    HOUR_MS,
    LONG_REMARK,
    SHORT_REMARK,
    facet_of,
    order_count,
    shop_order,
)
from tollway.store.database import Database, Row, StoreError
from tollway.store.paging import (
    Listing,
    beside,
    part_count,
    part_of,
    read_listed,
    split_total,
)
from tollway.store.query import JointQuery, Query, RecordQuery, equals

KEY = ("newest_first", "order_sn")
_KEY = [shop_order.c[name] for name in KEY]
_READY = [*_KEY, shop_order.c.ready]
_NO_DAY = cast(null(), BigInteger)
_BETWEEN = bindparam("between", type_=LargeBinary)


def by_key(keys: Select[Any] | CompoundSelect[Any]) -> Select[Any]:
    """The orders of one page, given the query for its keys.

    It finds the keys first, from an index alone; then the orders by their keys. If both were one
    query, an engine might scan all orders of the shop for a rare tag.
    """
    found = keys.cte("keys")
    return select(*_READY).join_from(found, shop_order, _has_key(found)).order_by(*_KEY)


def _has_key(found: FromClause) -> ColumnElement[bool]:
    same = [column == found.c[column.name] for column in _KEY]
    return and_(shop_order.c.owner_id == bindparam("owner"), *same)


def _buckets(hours: int, first: ColumnElement[int], last: ColumnElement[int]) -> Select[Any]:
    """The counted days or hours from first up to, not including, last."""
    number = order_count.c.bucket
    after = -hours * HOUR_MS * (number + 1)
    return select(after, order_count.c.orders).where(
        equals(order_count, owner_id="owner", facet="of_facet"),
        order_count.c.hours == hours,
        number >= first,
        number < last,
    )


def _hours_of(day: ColumnElement[int]) -> Select[Any]:
    return _buckets(1, day * DAY_HOURS, (day + 1) * DAY_HOURS)


def _asked(with_tag: bool, with_name: bool) -> list[ColumnElement[bool]]:
    asked = [shop_order.c.owner_id == bindparam("owner")]
    if with_tag:
        asked.append(shop_order.c.remark_tag == bindparam("tag"))
    if with_name:
        asked.append(shop_order.c.remark_tag_name == bindparam("tag_name"))
    return asked


def _found(
    with_tag: bool, with_name: bool, after: ColumnElement[int], skip: ColumnElement[int]
) -> Select[Any]:
    """The rows of a page. With a filter by tag only the keys, since its index has nothing else; the
    orders themselves are stored in the order of listing."""
    return (
        select(*(_KEY if with_tag or with_name else _READY))
        .where(
            *_asked(with_tag, with_name),
            shop_order.c.newest_first > after,
            shop_order.c.newest_first <= bindparam("oldest_up_to"),
        )
        .order_by(*_KEY)
        .limit(bindparam("take"))
        .offset(skip)
    )


def window_counts(with_tag: bool, with_name: bool) -> list[Select[Any]]:
    """The counted days and hours of a window, and its parts of an hour."""
    asked = _asked(with_tag, with_name)
    newer = _buckets(1, bindparam("newer_first"), bindparam("newer_last"))
    days = _buckets(DAY_HOURS, bindparam("first_day"), bindparam("last_day"))
    older = _buckets(1, bindparam("older_first"), bindparam("older_last"))
    return [
        part_of("newest", shop_order.c.newest_first, *asked).add_columns(_NO_DAY),
        newer.add_columns(_NO_DAY),
        days.add_columns(order_count.c.bucket),
        older.add_columns(_NO_DAY),
        part_of("oldest", shop_order.c.newest_first, *asked).add_columns(_NO_DAY),
    ]


def _listing(with_tag: bool, with_name: bool) -> Listing:
    def rows(after: ColumnElement[int], skip: ColumnElement[int]) -> Select[Any]:
        found = _found(with_tag, with_name, after, skip)
        return by_key(found) if with_tag or with_name else found

    return Listing(partial(window_counts, with_tag, with_name), rows, KEY, _hours_of)


# One for each filter by tag, so that each uses its own index.
_LISTINGS = {
    (with_tag, with_name): _listing(with_tag, with_name)
    for with_tag in (False, True)
    for with_name in (False, True)
}


def _part(name: str, with_tag: bool, with_name: bool) -> Query:
    """How many orders are in the part of an hour at one end of a window."""
    time = shop_order.c.newest_first
    return Query(lambda: part_of(name, time, *_asked(with_tag, with_name)))


def _guessed(tagged: tuple[bool, bool], *, with_parts: bool) -> JointQuery:
    """The orders of a page in one piece, and beside it the shop's version; perhaps also how many
    orders are in the two parts of hours of its window. A row for each order would cost more than
    the order: with an embedded database, the reading thread lets others run between rows, and a
    server sends each row."""

    def beside_parts(page: Select[Any]) -> Select[Any]:
        asked, time = _asked(*tagged), shop_order.c.newest_first
        names = ("newest", "oldest") if with_parts else ()
        return page.add_columns(*(part_count(name, time, *asked) for name in names))

    return JointQuery(
        lambda: beside_parts(_embedded_page(*tagged)), lambda: beside_parts(_page(*tagged))
    )


def _page(with_tag: bool, with_name: bool) -> Select[Any]:
    page = _LISTINGS[with_tag, with_name].page_rows().limit(bindparam("take")).subquery()
    joined = func.string_agg(page.c.ready, _BETWEEN)
    return select(joined, VERSION_SHARED.scalar_subquery())


def _embedded_page(with_tag: bool, with_name: bool, *, with_times: bool = False) -> Select[Any]:
    """SQLite joins the orders as it finds them, so they need no sorting. With the times of the
    first and the last order the query takes a tenth longer."""
    is_keyed = with_tag or with_name
    found = _found(with_tag, with_name, bindparam("after"), bindparam("skip"))
    if not is_keyed and not with_times:
        # SQLite would also extract the keys from every row.
        found = found.with_only_columns(shop_order.c.ready)
    page = found.subquery("page")
    joined = func.group_concat((shop_order if is_keyed else page).c.ready, _BETWEEN)
    times: tuple[ColumnElement[int], ...] = ()
    if with_times:
        times = (func.min(page.c.newest_first), func.max(page.c.newest_first))
    row = select(cast(joined, LargeBinary), VERSION.scalar_subquery(), *times)
    # No order is missing, but an outer join always begins with the keys.
    return row.outerjoin_from(page, shop_order, _has_key(page)) if is_keyed else row


_PARTS = {
    tagged: {name: _part(name, *tagged) for name in ("newest", "oldest")} for tagged in _LISTINGS
}
# By filter and whether the parts of hours are counted too.
_GUESSED = {
    (tagged, with_parts): _guessed(tagged, with_parts=with_parts)
    for tagged in _LISTINGS
    for with_parts in (False, True)
}
# For an embedded database, with the times of the first and the last order.
_TIMED = {
    tagged: RecordQuery(partial(_embedded_page, *tagged, with_times=True)) for tagged in _LISTINGS
}


class OrderPages:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._positions = positions = Positions()
        self._queries = {
            tagged: listing.query(partial(positions.steps, _PARTS[tagged], _GUESSED[tagged, False]))
            for tagged, listing in _LISTINGS.items()
        }
        self._is_embedded = database.dialect == "sqlite"
        self._row_at_once = database.row_at_once

    def read_at_once(
        self, wanted: Filter, offset: int, size: int, between: bytes
    ) -> tuple[int, Sequence[bytes]] | None:
        """A page without waiting. None if the caller has to use `read`: the cache lacks something
        or is out of date, or the page is to be marked."""
        if self._row_at_once is None:
            return None
        facet = facet_of(wanted.tag, wanted.tag_name)
        while (guess := self._positions.guess(wanted, facet, offset)) is not None:
            if guess.is_to_mark(size):
                return None
            query = _GUESSED[_tagged(wanted), bool(guess.window.to_count)]
            asked = _asked_for(wanted, guess, -wanted.start_ms, size, between)
            page = self._checked(wanted, facet, guess, self._row_at_once(query, asked))
            if page is not None:
                return page
        return None

    async def read(
        self, wanted: Filter, offset: int, size: int, between: bytes = b","
    ) -> tuple[int, Sequence[bytes]]:
        """The exact total, and the ready orders of a page: one by one, or in one piece, joined by
        `between`."""
        facet = facet_of(wanted.tag, wanted.tag_name)
        while (guess := self._positions.guess(wanted, facet, offset)) is not None:
            page = await self._read_guessed(wanted, facet, guess, offset, size, between)
            if page is not None:
                return page
        values = {**window_values(wanted, facet), "offset": offset, "between": between}
        query = self._queries[_tagged(wanted)]
        total, rows = await read_listed(self._database, query, offset, size, values)
        if self._is_embedded:
            # All in one piece, beside the version.
            return total, [row[0] for row in rows]
        if rows:
            # This only makes later pages cheaper, so a failure does not matter.
            with suppress(StoreError):
                await self._positions.learn(self._database, values)
        return total, [row[-1] for row in rows]

    async def _read_guessed(
        self, wanted: Filter, facet: str, guess: Guess, offset: int, size: int, between: bytes
    ) -> tuple[int, Sequence[bytes]] | None:
        """The page by one statement, if the cached counts are still current."""
        tagged = _tagged(wanted)
        is_to_mark = self._is_embedded and guess.is_to_mark(size)
        # Bounds the page at its oldest day, so that a server skips older months.
        oldest_ms = max(wanted.start_ms, guess.last_day(offset, size) * DAY_MS)
        row = await self._database.fetch_one(
            _TIMED[tagged] if is_to_mark else _GUESSED[tagged, bool(guess.window.to_count)],
            **_asked_for(wanted, guess, -oldest_ms, size, between),
        )
        page = self._checked(wanted, facet, guess, row)
        if page is not None and row is not None and is_to_mark:
            await self._positions.mark(self._database, wanted.owner_id, guess, row[2:], size)
        return page

    def _checked(
        self, wanted: Filter, facet: str, guess: Guess, row: Row | None
    ) -> tuple[int, Sequence[bytes]] | None:
        """The total, and the page in one piece; None if the cached counts were out of date, or only
        what they lacked was counted."""
        if row is None or row[1] != guess.known.version:
            self._positions.forget(wanted.owner_id, facet)
            return None
        window = guess.window
        if window.to_count:
            window = self._positions.keep_counts(wanted, guess, (row[2], row[3]))
            if not guess.is_page:
                return None
        return window.total, [] if row[0] is None else [row[0]]


def _asked_for(
    wanted: Filter, guess: Guess, oldest_up_to: int, size: int, between: bytes
) -> dict[str, object]:
    asked: dict[str, object] = {
        "owner": wanted.owner_id,
        "tag": wanted.tag,
        "tag_name": wanted.tag_name,
        "oldest_up_to": oldest_up_to,
        "after": guess.after,
        "skip": guess.skip,
        "take": size if guess.is_page else 0,
        "between": between,
    }
    if guess.window.to_count:
        # The oldest part ends where the window does.
        (asked["newest_after"], asked["newest_up_to"]), (asked["oldest_after"], _) = (
            guess.window.to_count
        )
    return asked


def _tagged(wanted: Filter) -> tuple[bool, bool]:
    return wanted.tag is not None, wanted.tag_name is not None


def _with_remark(is_searched: ColumnElement[bool] | TextClause) -> Select[Any]:
    return select(*_KEY).where(
        is_searched,
        shop_order.c.owner_id == bindparam("owner"),
        shop_order.c.newest_first > bindparam("after"),
        shop_order.c.newest_first <= bindparam("up_to"),
        # Exact in both engines: LIKE would need escaping, and treats case differently in each.
        func.replace(shop_order.c.remark, bindparam("part"), "") != shop_order.c.remark,
        # PostgreSQL cannot infer the type of a parameter that is only compared with NULL.
        or_(cast(bindparam("tag"), Integer).is_(None), shop_order.c.remark_tag == bindparam("tag")),
        or_(
            cast(bindparam("tag_name"), String).is_(None),
            shop_order.c.remark_tag_name == bindparam("tag_name"),
        ),
    )


def _search(found: Select[Any] | CompoundSelect[Any]) -> Select[Any]:
    keys = found.order_by(*KEY).limit(bindparam("take")).offset(bindparam("offset"))
    count = select(func.count()).select_from(found.subquery())
    return beside(count.scalar_subquery(), by_key(keys), KEY)


# On PostgreSQL, short and long remarks have separate indexes, so each is searched separately.
_SEARCH = Query(
    lambda: _search(_with_remark(shop_order.c.remark.is_not(None))),
    lambda: _search(union_all(_with_remark(text(SHORT_REMARK)), _with_remark(text(LONG_REMARK)))),
)


async def search_page(
    database: Database, account_id: str, wanted: Filter, part: str, offset: int, size: int
) -> tuple[int, Sequence[bytes]]:
    """The exact total of the orders whose remark contains `part`, and one page of them."""
    values: dict[str, object] = {
        "owner": wanted.owner_id,
        "after": -wanted.end_ms,
        "up_to": -wanted.start_ms,
        "part": part,
        "tag": wanted.tag,
        "tag_name": wanted.tag_name,
    }
    found = await database.fetch_long(_SEARCH, account_id, **values, offset=offset, take=size)
    total, rows = split_total(found)
    return total, [row[-1] for row in rows]

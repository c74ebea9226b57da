"""The counts of orders by hour and day, for every facet, against the orders.

Days are compared with their hours, so that only the check of the hours reads all orders. The text
of a facet is defined in `operations/orders/schema.py`, and here independently, in SQL.
"""

from typing import NamedTuple

from sqlalchemy import (
    ColumnElement,
    Integer,
    String,
    and_,
    case,
    cast,
    exists,
    func,
    literal,
    or_,
    select,
    true,
    union_all,
)
from sqlalchemy.sql import Select

from tollway.audit.check import NO_COUNT, Check, bucket_of, check_each, count_reporter, within
from tollway.operations.orders.schema import (
    ALL,
    DAY_HOURS,
    HOUR_MS,
    order_change,
    order_count,
    shop_order,
)
from tollway.store.database import Row

_order, _count = shop_order.c, order_count.c
_tag, _tag_name = _order.remark_tag, _order.remark_tag_name


class _Facet(NamedTuple):
    """One kind of facet: which counts belong to it, which orders such a count includes, whether an
    order has the facet, and the text of the facet if so."""

    is_it: ColumnElement[bool]
    counted: ColumnElement[bool]
    has_it: ColumnElement[bool]
    text: ColumnElement[str]


def _starts(prefix: str) -> ColumnElement[bool]:
    return func.substr(_count.facet, 1, len(prefix)) == prefix


_tag_text = cast(_tag, String)
# A tag is one digit. Compared as a number, and not as text, each count can use an index.
_FACETS = (
    _Facet(_count.facet == ALL, true(), true(), literal(ALL)),
    _Facet(
        _starts("t:"),
        _tag == cast(func.substr(_count.facet, 3), Integer),
        _tag.is_not(None),
        literal("t:") + _tag_text,
    ),
    _Facet(
        _starts("n:"),
        _tag_name == func.substr(_count.facet, 3),
        _tag_name.is_not(None),
        literal("n:") + _tag_name,
    ),
    _Facet(
        _starts("tn:"),
        and_(
            _tag == cast(func.substr(_count.facet, 4, 1), Integer),
            _tag_name == func.substr(_count.facet, 6),
        ),
        and_(_tag.is_not(None), _tag_name.is_not(None)),
        literal("tn:") + _tag_text + ":" + _tag_name,
    ),
)


def _orders_there(facet: _Facet) -> ColumnElement[int]:
    return (
        select(func.count())
        .select_from(shop_order)
        .where(
            _order.owner_id == _count.owner_id,
            within(_order.newest_first, _count.bucket, HOUR_MS),
            facet.counted,
        )
        .scalar_subquery()
    )


_there = case(*((facet.is_it, _orders_there(facet)) for facet in _FACETS), else_=0)
_hours = select(*_count, _there.label("there")).where(_count.hours == 1).subquery("by_hour")
_its_hour = bucket_of(_order.newest_first, HOUR_MS)


def _uncounted(facet: _Facet) -> Select[tuple[object, ...]]:
    """Hours that have orders of the facet, but no count."""
    return (
        select(_order.owner_id, facet.text, literal(1), _its_hour, NO_COUNT, NO_COUNT)
        .where(
            facet.has_it,
            ~exists().where(
                _count.owner_id == _order.owner_id,
                _count.facet == facet.text,
                _count.hours == 1,
                _count.bucket == _its_hour,
            ),
        )
        .distinct()
    )


_hour, _day = order_count.alias("of_hour").c, order_count.alias("of_day").c
_same_facet = and_(_hour.owner_id == _day.owner_id, _hour.facet == _day.facet, _hour.hours == 1)
_of_hours = (
    select(func.coalesce(func.sum(_hour.orders), 0))
    .where(
        _same_facet,
        _hour.bucket >= _day.bucket * DAY_HOURS,
        _hour.bucket < (_day.bucket + 1) * DAY_HOURS,
    )
    .scalar_subquery()
)
_days = select(*_day, _of_hours.label("there")).where(_day.hours == DAY_HOURS).subquery("by_day")
_its_day = _hour.bucket // DAY_HOURS
_days_uncounted = (
    select(_hour.owner_id, _hour.facet, literal(DAY_HOURS), _its_day, NO_COUNT, NO_COUNT)
    .where(
        _hour.hours == 1,
        ~exists().where(_same_facet, _day.hours == DAY_HOURS, _day.bucket == _its_day),
    )
    .distinct()
)


def _subject(bucket: Row) -> str:
    owner_id, facet, hours, number = bucket
    span = "hour" if hours == 1 else "day"
    return f"shop {owner_id}, facet {facet or 'all'}, {span} {number}"


ORDER_HOURS = Check(
    "order_hours",
    "orders are counted right by hour, tag and tag name",
    shop_order,
    union_all(select(_hours).where(_hours.c.orders != _hours.c.there), *map(_uncounted, _FACETS)),
    count_reporter("orders", _subject),
)
ORDER_DAYS = Check(
    "order_days",
    "the counts of orders by day are those of their hours",
    order_count,
    union_all(select(_days).where(_days.c.orders != _days.c.there), _days_uncounted),
    count_reporter("orders", _subject),
)

# In SQLite an index keeps numbers unique; in PostgreSQL only within a month. Across months only the
# code that stores orders does, so the audit checks it.
_numbers = select(
    shop_order.c.owner_id,
    shop_order.c.order_sn,
    func.lag(shop_order.c.order_sn)
    .over(partition_by=shop_order.c.owner_id, order_by=shop_order.c.order_sn)
    .label("before"),
).subquery("numbers")


ORDERS_ONCE = check_each(
    "orders_once",
    "every order of a shop exists once",
    shop_order,
    select(_numbers.c.owner_id, _numbers.c.order_sn).where(
        _numbers.c.order_sn == _numbers.c.before
    ),
    "order_twice",
    "order {order_sn} of shop {owner_id} exists twice",
)

# A caller that reads changes by number would miss an order whose change number is reused.
_changes = select(
    shop_order.c.owner_id,
    shop_order.c.order_sn,
    shop_order.c.change_no,
    func.lag(shop_order.c.change_no)
    .over(partition_by=shop_order.c.owner_id, order_by=shop_order.c.change_no)
    .label("before"),
).subquery("changes")


ORDER_CHANGES = check_each(
    "order_changes",
    "every change of a shop's orders has a number of its own",
    shop_order,
    select(_changes.c.owner_id, _changes.c.order_sn)
    .join_from(_changes, order_change, _changes.c.owner_id == order_change.c.owner_id, isouter=True)
    .where(
        or_(
            _changes.c.change_no == _changes.c.before,
            _changes.c.change_no > func.coalesce(order_change.c.change_no, 0),
        )
    ),
    "order_change_number",
    "order {order_sn} of shop {owner_id} has a change number that is used or not given yet",
)

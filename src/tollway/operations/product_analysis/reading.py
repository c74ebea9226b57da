"""The stored figures behind an answer."""

from collections.abc import Sequence
from datetime import date, timedelta
from functools import lru_cache
from typing import NamedTuple

import msgspec
from sqlalchemy import bindparam, select

from tollway.store.database import Database
from tollway.store.query import Query
from tollway.store.schema import product, product_day, product_figure

SERIES_DAYS = 30


class ProductFacts(msgspec.Struct, frozen=True):
    title: str
    picture_url: str
    shop_name: str


class DayFigures(msgspec.Struct, frozen=True):
    day: int
    visitors: int
    buyers: int
    payment_fen: int
    collections: int
    pieces_paid: int
    pieces_carted: int


class PartFigures(NamedTuple):
    """The share of one source, keyword or search term in a day's figures."""

    kind: str
    name: str
    visitors: int
    buyers: int
    pieces_ordered: int
    page_views: int


_PRODUCT = Query(
    select(*(product.c[name] for name in ProductFacts.__struct_fields__)).where(
        product.c.product_id == bindparam("wanted")
    )
)
_SERIES = Query(
    select(*(product_day.c[name] for name in DayFigures.__struct_fields__)).where(
        product_day.c.product_id == bindparam("wanted"),
        product_day.c.day.between(bindparam("first_day"), bindparam("last_day")),
    )
)
# The busiest first; the name only to make the order certain.
_PARTS = Query(
    select(*(product_figure.c[name] for name in PartFigures._fields))
    .where(
        product_figure.c.product_id == bindparam("wanted"),
        product_figure.c.day == bindparam("on_day"),
    )
    .order_by(product_figure.c.visitors.desc(), product_figure.c.name)
)


def day_number(day: date) -> int:
    """How a day is stored: 2026-01-31 is 20260131."""
    return day.year * 10_000 + day.month * 100 + day.day


class SeriesDays(NamedTuple):
    """The days of a series, oldest first: as they are stored, and as they are shown."""

    numbers: list[int]
    labels: list[str]


@lru_cache(maxsize=512)
def series_days(last: date) -> SeriesDays:
    """The days of the series that ends on a day; fewer where the calendar itself begins."""
    count = min(SERIES_DAYS, last.toordinal())
    days = [last - timedelta(days=back) for back in range(count - 1, -1, -1)]
    return SeriesDays([day_number(day) for day in days], [day.strftime("%m-%d") for day in days])


async def read_product(database: Database, product_id: str) -> ProductFacts | None:
    row = await database.fetch_one(_PRODUCT, wanted=product_id)
    return None if row is None else ProductFacts(*row)


async def read_series(database: Database, product_id: str, last: date) -> dict[int, DayFigures]:
    """The stored days of the series by day number; days without data are not among them."""
    days = series_days(last)
    rows = await database.fetch_all(
        _SERIES,
        wanted=product_id,
        first_day=days.numbers[0],
        last_day=days.numbers[-1],
    )
    return {row[0]: DayFigures(*row) for row in rows}


async def read_parts(database: Database, product_id: str, day: date) -> Sequence[PartFigures]:
    rows = await database.fetch_all(_PARTS, wanted=product_id, on_day=day_number(day))
    return [PartFigures._make(row) for row in rows]

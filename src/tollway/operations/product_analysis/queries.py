"""The stored figures behind an answer, read by one statement: on a server each statement is a round
trip."""

from collections.abc import Sequence
from datetime import date, timedelta
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import BigInteger, Select, String, bindparam, cast, literal, null, select, union_all

from tollway.operations.product_analysis.schema import product, product_day, product_figure
from tollway.store.database import Database
from tollway.store.query import Query

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


class Figures(NamedTuple):
    """What is stored behind one answer."""

    product: ProductFacts | None
    # By day number; days without data are not among them.
    days: dict[int, DayFigures]
    # The busiest first; the name only to make the order certain.
    parts: Sequence[PartFigures]


# The rows of three tables in columns that hold each of them: the kind of row, texts and numbers.
_PRODUCT, _DAY = "product", "day"
_TEXTS = slice(1, 1 + len(ProductFacts.__struct_fields__))
_NUMBERS = slice(_TEXTS.stop, _TEXTS.stop + len(DayFigures.__struct_fields__))

_PART_NUMBERS = slice(_TEXTS.stop, _TEXTS.stop + len(PartFigures._fields) - 2)


def _rows(kind: Any, texts: Sequence[Any], numbers: Sequence[Any]) -> Select[Any]:
    no_texts = [cast(null(), String)] * (_TEXTS.stop - _TEXTS.start - len(texts))
    no_numbers = [cast(null(), BigInteger)] * (_NUMBERS.stop - _NUMBERS.start - len(numbers))
    return select(kind, *texts, *no_texts, *numbers, *no_numbers)


_FIGURES = Query(
    union_all(
        _rows(
            cast(literal(_PRODUCT), String),
            [product.c[name] for name in ProductFacts.__struct_fields__],
            [],
        ).where(product.c.product_id == bindparam("wanted")),
        _rows(
            cast(literal(_DAY), String),
            [],
            [product_day.c[name] for name in DayFigures.__struct_fields__],
        ).where(
            product_day.c.product_id == bindparam("wanted"),
            product_day.c.day.between(bindparam("first_day"), bindparam("last_day")),
        ),
        _rows(
            product_figure.c.kind,
            [product_figure.c.name],
            [product_figure.c[name] for name in PartFigures._fields[2:]],
        ).where(
            product_figure.c.product_id == bindparam("wanted"),
            product_figure.c.day == bindparam("last_day"),
        ),
    )
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


async def read_figures(database: Database, product_id: str, last: date) -> Figures:
    """The figures of a product: of the series that ends on a day, and of the parts of that day."""
    numbers = series_days(last).numbers
    rows = await database.fetch_all(
        _FIGURES, wanted=product_id, first_day=numbers[0], last_day=numbers[-1]
    )
    found: ProductFacts | None = None
    days: dict[int, DayFigures] = {}
    parts: list[PartFigures] = []
    for row in rows:
        kind = row[0]
        if kind == _PRODUCT:
            found = ProductFacts(*row[_TEXTS])
        elif kind == _DAY:
            day = DayFigures(*row[_NUMBERS])
            days[day.day] = day
        else:
            parts.append(PartFigures(kind, row[1], *row[_PART_NUMBERS]))
    parts.sort(key=lambda part: (-part.visitors, part.name))
    return Figures(found, days, parts)

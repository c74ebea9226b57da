"""The stored figures behind an answer, read by one statement: on a server each statement is a round
trip.

The days of a product that were read once are kept in memory, as long as no figures are loaded. Then
only those that are missing in a series are read, and the parts of the asked day.
"""

from collections.abc import Sequence
from datetime import date, timedelta
from functools import lru_cache
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import BigInteger, Select, String, bindparam, cast, literal, null, select, union_all

from tollway.operations.product_analysis.schema import product, product_day, product_figure
from tollway.store.database import Database
from tollway.store.query import Query
from tollway.store.schema.database import version

SERIES_DAYS = 30


class ProductFacts(msgspec.Struct, frozen=True):
    title: str
    picture_url: str
    shop_name: str


class DayFigures(msgspec.Struct, frozen=True, gc=False):
    """The figures of a day as they are stored, and the two that are computed from them."""

    day: int
    visitors: int
    buyers: int
    payment_fen: int
    collections: int
    pieces_paid: int
    pieces_carted: int
    rate: float
    payment: float


NO_FIGURES = DayFigures(0, 0, 0, 0, 0, 0, 0, 0.0, 0.0)
_DAY_COLUMNS = DayFigures.__struct_fields__[:-2]


def rate(buyers: int, visitors: int) -> float:
    """Buyers per hundred visitors, two decimals; in whole numbers, so that halves go up exactly."""
    return (20_000 * buyers + visitors) // (2 * visitors) / 100 if visitors else 0.0


class PartFigures(NamedTuple):
    """The share of one source, keyword or search term in a day's figures."""

    kind: str
    name: str
    visitors: int
    buyers: int
    pieces_ordered: int
    page_views: int


_BY_NAME, _BY_VISITORS = itemgetter(1), itemgetter(2)


class Figures(NamedTuple):
    """What is stored behind one answer."""

    product: ProductFacts | None
    # By day number; days without data are not among them.
    days: dict[int, DayFigures]
    # The busiest first; the name only to make the order certain.
    parts: Sequence[PartFigures]


# The rows of three tables in columns that hold each of them: the kind of row, texts and numbers.
_PRODUCT, _DAY, _VERSION = "product", "day", "version"
_TEXTS = slice(1, 1 + len(ProductFacts.__struct_fields__))
_NUMBERS = slice(_TEXTS.stop, _TEXTS.stop + len(_DAY_COLUMNS))

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
            [product_day.c[name] for name in _DAY_COLUMNS],
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
            product_figure.c.day == bindparam("on_day"),
        ),
        _rows(cast(literal(_VERSION), String), [], [version.c.figures]),
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


# How many days of all products are kept before all are dropped, at about 200 bytes each.
_KEPT_MAX = 50_000
# Of a product: by day number; None for a day without data.
_Days = dict[int, DayFigures | None]


class KnownFigures:
    """The days of products that were read in one version of the figures."""

    def __init__(self, figures_version: int) -> None:
        self.version = figures_version
        self._products: dict[str, _Days] = {}
        self._kept = 0

    async def read(self, database: Database, product_id: str, last: date) -> Figures:
        """The figures of a product: of the series that ends on a day, and of the parts of that
        day."""
        numbers = series_days(last).numbers
        known = self._products.get(product_id, {})
        unknown = [number for number in numbers if number not in known]
        found = await _read(database, product_id, unknown, numbers[-1])
        # Figures that were loaded meanwhile do not belong to the days that are known.
        if found.version != self.version:
            return (await _read(database, product_id, numbers, numbers[-1])).figures
        if found.figures.product is not None and unknown:
            known = {**known, **{each: found.figures.days.get(each) for each in unknown}}
            self._keep(product_id, known)
        days = {number: day for number in numbers if (day := known.get(number)) is not None}
        return found.figures._replace(days=days)

    def _keep(self, product_id: str, days: _Days) -> None:
        # Those that were replaced still count: the most is reached sooner, and that is all.
        self._kept += len(days)
        if self._kept > _KEPT_MAX:
            self._products, self._kept = {}, 0
        self._products[product_id] = days


class _Read(NamedTuple):
    figures: Figures
    version: int


async def _read(database: Database, product_id: str, numbers: Sequence[int], on_day: int) -> _Read:
    """What is stored of a product, its days from the first number to the last, and the parts of
    one day, at one moment."""
    first_day, last_day = (numbers[0], numbers[-1]) if numbers else (1, 0)
    rows = await database.fetch_all(
        _FIGURES, wanted=product_id, first_day=first_day, last_day=last_day, on_day=on_day
    )
    found: ProductFacts | None = None
    figures_version = -1
    days: dict[int, DayFigures] = {}
    parts: list[PartFigures] = []
    for row in rows:
        kind = row[0]
        if kind == _PRODUCT:
            found = ProductFacts(*row[_TEXTS])
        elif kind == _DAY:
            number, visitors, buyers, payment_fen, *_ = stored = row[_NUMBERS]
            values = (*stored, rate(buyers, visitors), payment_fen / 100)
            days[number] = DayFigures(*values)
        elif kind == _VERSION:
            figures_version = row[_NUMBERS.start]
        else:
            parts.append(PartFigures(kind, row[1], *row[_PART_NUMBERS]))
    parts.sort(key=_BY_NAME)
    parts.sort(key=_BY_VISITORS, reverse=True)
    return _Read(Figures(found, days, parts), figures_version)

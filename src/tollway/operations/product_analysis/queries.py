"""The stored figures behind an answer, read by one statement, because each is a round trip on a
server.

What was read of a product, its name and its days, is cached in encoded form until figures are
loaded. Then only the parts of the requested day are read, and the days that a series still lacks.
"""

from collections.abc import Sequence
from datetime import date
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import (
    BigInteger,
    LargeBinary,
    Select,
    String,
    bindparam,
    cast,
    literal,
    null,
    select,
    union_all,
)

from tollway.operations.product_analysis.schema import product, product_day, product_day_parts
from tollway.operations.product_analysis.series import (
    DayFigures,
    KnownDays,
    day_number,
    days_to_read,
)
from tollway.store.database import Database, Row
from tollway.store.query import JointQuery, equals
from tollway.store.schema.database import version


class ProductFacts(msgspec.Struct, frozen=True):
    title: str
    picture_url: str
    shop_name: str


# The parts of a day, each kind as an encoded list.
_PART_COLUMNS = ("sources", "keywords", "searches")
_NO_PARTS = (b"[]", b"[]", b"[]")


class Figures(NamedTuple):
    """What is stored behind one answer."""

    product: ProductFacts
    # All days of the series, and perhaps more.
    days: KnownDays
    parts: Row
    # Of all figures, when these were read.
    version: int


# Rows of all tables in common columns: the kind of row, then texts, bytes and numbers.
_PRODUCT, _DAY, _PARTS, _VERSION = "product", "day", "parts", "version"
_DAY_COLUMNS = ("day", *DayFigures._fields)
_TEXTS = slice(1, 1 + len(ProductFacts.__struct_fields__))
_BYTES = slice(_TEXTS.stop, _TEXTS.stop + len(_PART_COLUMNS))
_NUMBERS = slice(_BYTES.stop, _BYTES.stop + len(_DAY_COLUMNS))


def _rows(
    kind: str, texts: Sequence[Any] = (), parts: Sequence[Any] = (), numbers: Sequence[Any] = ()
) -> Select[Any]:
    none = [
        [cast(null(), of_type)] * (place.stop - place.start)
        for of_type, place in ((String, _TEXTS), (LargeBinary, _BYTES), (BigInteger, _NUMBERS))
    ]
    columns = [
        column
        for given, missing in zip((texts, parts, numbers), none, strict=True)
        for column in (*given, *missing[len(given) :])
    ]
    return select(cast(literal(kind), String), *columns)


_wanted_parts = equals(product_day_parts, product_id="wanted", day="on_day")
_part_columns = [product_day_parts.c[name] for name in _PART_COLUMNS]
_FIGURES = JointQuery(
    lambda: union_all(
        _rows(_PRODUCT, texts=[product.c[name] for name in ProductFacts.__struct_fields__]).where(
            product.c.product_id == bindparam("wanted")
        ),
        _rows(_DAY, numbers=[product_day.c[name] for name in _DAY_COLUMNS]).where(
            product_day.c.product_id == bindparam("wanted"),
            product_day.c.day.between(bindparam("first_day"), bindparam("last_day")),
        ),
        _rows(_PARTS, parts=_part_columns).where(_wanted_parts),
        _rows(_VERSION, numbers=[version.c.figures]),
    )
)
# Only the parts, beside the version that everything cached must have.
_PARTS_ALONE = JointQuery(
    lambda: select(version.c.figures, *_part_columns).join_from(
        version, product_day_parts, _wanted_parts, isouter=True
    )
)


# How many days of all products are cached before all are dropped, at about 300 bytes each.
_KEPT_MAX = 50_000


class _Product(NamedTuple):
    facts: ProductFacts
    days: KnownDays

    def has(self, wanted: range) -> bool:
        days = self.days.days
        return days.start <= wanted.start and wanted.stop <= days.stop


class FigureCache:
    """A cache of the products that were read in one version of the figures."""

    def __init__(self, figures_version: int) -> None:
        self.version = figures_version
        self._products: dict[str, _Product] = {}
        self._kept = 0

    async def read(
        self, database: Database, product_id: str, last: date, wanted: range
    ) -> Figures | None:
        """The figures of a product for the days of a series, and the parts of its last day. None if
        there is no such product."""
        on_day = day_number(last)
        known = self._products.get(product_id)
        if known is not None and known.has(wanted):
            row = await database.fetch_one(_PARTS_ALONE, wanted=product_id, on_day=on_day)
            figures = self._with_parts(known, row)
            if figures is not None:
                return figures
        days = range(0) if known is None else known.days.days
        figures = await _read(database, product_id, days_to_read(days, wanted), on_day)
        # Figures that were loaded meanwhile have another version.
        if figures is not None and figures.version == self.version:
            self._keep(product_id, figures)
        return figures

    def read_at_once(
        self, database: Database, product_id: str, last: date, wanted: range
    ) -> Figures | None:
        """The same without waiting; None if the caller has to use `read`."""
        known, row_at_once = self._products.get(product_id), database.row_at_once
        if known is None or row_at_once is None or not known.has(wanted):
            return None
        asked = {"wanted": product_id, "on_day": day_number(last)}
        return self._with_parts(known, row_at_once(_PARTS_ALONE, asked))

    def _with_parts(self, known: _Product, row: Row | None) -> Figures | None:
        """The cached figures with the parts that were read; None if those have another version."""
        assert row is not None
        if row[0] != self.version:
            return None
        parts = _NO_PARTS if row[1] is None else row[1:]
        return Figures(known.facts, known.days, parts, self.version)

    def _keep(self, product_id: str, figures: Figures) -> None:
        # Replaced entries still count, which only means that the limit is reached sooner.
        self._kept += len(figures.days.days)
        if self._kept > _KEPT_MAX:
            self._products, self._kept = {}, len(figures.days.days)
        self._products[product_id] = _Product(figures.product, figures.days)


async def _read(database: Database, product_id: str, days: range, on_day: int) -> Figures | None:
    """A product, its days, and the parts of one day, from one snapshot."""
    first, last = (day_number(date.fromordinal(day)) for day in (days[0], days[-1]))
    rows = await database.fetch_all(
        _FIGURES, wanted=product_id, first_day=first, last_day=last, on_day=on_day
    )
    facts: ProductFacts | None = None
    figures_version = -1
    parts: Row = _NO_PARTS
    figures: dict[int, DayFigures] = {}
    for row in rows:
        kind = row[0]
        if kind == _PRODUCT:
            facts = ProductFacts(*row[_TEXTS])
        elif kind == _DAY:
            number, *its_figures = row[_NUMBERS]
            day = date(number // 10_000, number // 100 % 100, number % 100)
            figures[day.toordinal()] = DayFigures._make(its_figures)
        elif kind == _PARTS:
            parts = row[_BYTES]
        else:
            figures_version = row[_NUMBERS.start]
    if facts is None:
        return None
    return Figures(facts, KnownDays(days, figures), parts, figures_version)

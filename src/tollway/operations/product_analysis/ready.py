"""The parts of a product's day as they are answered: encoded when they are stored, and not with
every call."""

from collections.abc import Iterable
from itertools import groupby, islice
from operator import attrgetter, itemgetter
from typing import NamedTuple

from sqlalchemy import Integer, String, bindparam, cast, column, select, values

from tollway.contract.envelope import encode_data
from tollway.operations.product_analysis.operation import KeywordEntry, SearchEntry, TrafficEntry
from tollway.operations.product_analysis.schema import product_day_parts, product_figure
from tollway.store.database import Row, Transaction
from tollway.store.many_rows import upserts
from tollway.store.query import Query

_RATE_FLOOR = 0.01
_ASKED_AT_ONCE = 32

ProductDay = tuple[str, int]
_NO_DAY: ProductDay = ("", 0)


class PartFigures(NamedTuple):
    """The share of one source, keyword or search term in a day's figures."""

    product_id: str
    day: int
    kind: str
    name: str
    visitors: int
    buyers: int
    pieces_ordered: int
    page_views: int


_of_day, _by_name, _by_visitors = itemgetter(0, 1), attrgetter("name"), attrgetter("visitors")
_asked = (
    values(column("product_id", String), column("day", Integer))
    # A server takes parameters in such a list for texts.
    .data(
        [
            (bindparam(f"product_{n}"), cast(bindparam(f"day_{n}"), Integer))
            for n in range(_ASKED_AT_ONCE)
        ]
    )
    .cte("asked")
)
_PARTS = Query(
    select(*(product_figure.c[name] for name in PartFigures._fields))
    .join_from(
        _asked,
        product_figure,
        (product_figure.c.product_id == _asked.c.product_id)
        & (product_figure.c.day == _asked.c.day),
    )
    .order_by(product_figure.c.product_id, product_figure.c.day)
)


async def remake_parts(transaction: Transaction, days: Iterable[ProductDay]) -> None:
    """Makes what is answered of these days' parts again; all of them are stored by now."""
    waiting = iter(days)
    while asked := list(islice(waiting, _ASKED_AT_ONCE)):
        # The query has a fixed number of parameters.
        asked.extend([_NO_DAY] * (_ASKED_AT_ONCE - len(asked)))
        products = {f"product_{n}": product_id for n, (product_id, _) in enumerate(asked)}
        numbers = {f"day_{n}": day for n, (_, day) in enumerate(asked)}
        found = map(PartFigures._make, await transaction.fetch_all(_PARTS, **products, **numbers))
        made = [(*key, *_ready(parts)) for key, parts in groupby(found, _of_day)]
        await transaction.put_rows(upserts(product_day_parts), made)


def _ready(parts: Iterable[PartFigures]) -> Row:
    """The encoded lists of a day: its sources, keywords and search terms."""
    # The busiest first; the name only to make the order certain.
    ordered = sorted(sorted(parts, key=_by_name), key=_by_visitors, reverse=True)
    return (
        encode_data([_traffic(part) for part in ordered if part.kind == "source"]),
        encode_data([_keyword(part) for part in ordered if part.kind == "keyword"]),
        encode_data([_search(part) for part in ordered if part.kind == "search"]),
    )


def rate(buyers: int, visitors: int) -> float:
    """Buyers per hundred visitors, two decimals; in whole numbers, so that halves go up exactly."""
    return (20_000 * buyers + visitors) // (2 * visitors) / 100 if visitors else 0.0


def _rate_index(part: PartFigures) -> float:
    found = rate(part.buyers, part.visitors)
    return found if found > _RATE_FLOOR else _RATE_FLOOR


def _traffic(part: PartFigures) -> TrafficEntry:
    return TrafficEntry(
        part.name, part.buyers, part.pieces_ordered, part.visitors, _rate_index(part)
    )


def _keyword(part: PartFigures) -> KeywordEntry:
    return KeywordEntry(
        part.name,
        part.buyers,
        part.pieces_ordered,
        part.visitors,
        _rate_index(part),
        part.page_views,
    )


def _search(part: PartFigures) -> SearchEntry:
    return SearchEntry(part.name, part.visitors, _rate_index(part), part.buyers)

"""The parts of a product's day as they are answered: encoded once, when they are stored."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from functools import partial
from itertools import groupby, islice
from operator import itemgetter
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Integer,
    Select,
    String,
    Table,
    bindparam,
    cast,
    column,
    exists,
    func,
    select,
    tuple_,
    values,
)

from tollway.contract.envelope import encode_data
from tollway.operations.product_analysis.operation import KeywordEntry, SearchEntry, TrafficEntry
from tollway.operations.product_analysis.schema import product_day_parts, product_figure
from tollway.operations.remaking import Remade
from tollway.store.cache_versions import figures_changed
from tollway.store.database import Database, Reader, Row, Transaction
from tollway.store.many_rows import upserts
from tollway.store.query import Query

_RATE_FLOOR = 0.01
_ASKED_AT_ONCE = 64

ProductDay = tuple[str, int]
_NO_DAY: ProductDay = ("", 0)


_of_day, _by_name, _by_visitors = itemgetter(0, 1), itemgetter(3), itemgetter(4)
_asked = (
    values(column("product_id", String), column("day", Integer))
    # A server takes parameters in a VALUES list for texts, hence the cast.
    .data(
        [
            (bindparam(f"product_{n}"), cast(bindparam(f"day_{n}"), Integer))
            for n in range(_ASKED_AT_ONCE)
        ]
    )
    .cte("asked")
)


def _of_asked(table: Table, *columns: ColumnElement[Any]) -> Select[Any]:
    is_asked = (table.c.product_id == _asked.c.product_id) & (table.c.day == _asked.c.day)
    return select(*columns).join_from(_asked, table, is_asked)


_key = (product_figure.c.product_id, product_figure.c.day)
_FIGURES = Query(lambda: _of_asked(product_figure, *product_figure.c).order_by(*_key))
_HOW_MANY = Query(lambda: _of_asked(product_figure, *_key, func.count()).group_by(*_key))
_PARTS = Query(lambda: _of_asked(product_day_parts, *product_day_parts.c))
_last = tuple_(bindparam("last_product", type_=String), bindparam("last_day", type_=Integer))
_NEXT_DAYS = Query(
    lambda: (
        select(*_key).where(tuple_(*_key) > _last).distinct().order_by(*_key).limit(_ASKED_AT_ONCE)
    )
)
_parts_key = (product_day_parts.c.product_id, product_day_parts.c.day)
_has_no_figures = ~exists().where(_key[0] == _parts_key[0], _key[1] == _parts_key[1])
_WITHOUT_FIGURES = Query(lambda: select(*_parts_key).where(_has_no_figures).limit(_ASKED_AT_ONCE))
_REMOVE = Query(
    lambda: product_day_parts.delete().where(
        *(column == bindparam(f"old_{column.name}") for column in _parts_key), _has_no_figures
    )
)


async def lock_parts(transaction: Transaction) -> None:
    """Waits for other loads, and keeps them waiting until this transaction ends: so the later one
    sees the figures of both. Not by the row of versions, for which all other changes would wait."""
    await transaction.lock_names(["product figures"])


async def make_parts(transaction: Transaction, figures: Iterable[Row]) -> None:
    """Makes the ready parts of the days of these figures, which are stored already. If a day has
    further figures, it is read back. The parts must be locked."""
    coming: defaultdict[ProductDay, list[Row]] = defaultdict(list)
    for row in figures:
        coming[row[:2]].append(row)
    stored = {row[:2]: row[2] for row in await _read(transaction, _HOW_MANY, coming)}
    whole = {day: parts for day, parts in coming.items() if len(parts) == stored[day]}
    made = [(*day, *ready_parts(parts)) for day, parts in whole.items()]
    await transaction.put_rows(upserts(product_day_parts), made)
    await remake_parts(transaction, coming.keys() - whole.keys())


async def remake_parts(transaction: Transaction, days: Collection[ProductDay]) -> int:
    """Makes the ready parts of these days from the stored figures; returns how many changed."""
    return await transaction.put_rows(upserts(product_day_parts), await _made(transaction, days))


async def remake_all(database: Database) -> Remade:
    """Makes the ready parts of all days again, stores those that differ, and removes those of days
    without figures."""
    result, last = Remade(), _NO_DAY
    while rows := await database.fetch_long(_NEXT_DAYS, last_product=last[0], last_day=last[1]):
        days: list[ProductDay] = [row[:2] for row in rows]
        result.read += len(days)
        stored = {row[:2]: row[2:] for row in await _read(database, _PARTS, days)}
        made = await _made(database, days)
        if changed := [row[:2] for row in made if row[2:] != stored.get(row[:2])]:
            result.changed += await database.write(partial(_remake, changed))
        last = days[-1]
    while left := await database.fetch_long(_WITHOUT_FIGURES):
        result.read += len(left)
        result.changed += await database.write(partial(_remove, [row[:2] for row in left]))
    return result


async def _remake(days: Collection[ProductDay], transaction: Transaction) -> int:
    await lock_parts(transaction)
    changed = await remake_parts(transaction, days)
    await figures_changed(transaction)
    return changed


async def _remove(days: Collection[ProductDay], transaction: Transaction) -> int:
    await lock_parts(transaction)
    removed = await transaction.execute_many(_REMOVE, days)
    await figures_changed(transaction)
    return removed


async def _made(reader: Reader, days: Collection[ProductDay]) -> list[Row]:
    found = await _read(reader, _FIGURES, days)
    return [(*day, *ready_parts(parts)) for day, parts in groupby(found, _of_day)]


async def _read(reader: Reader, query: Query, days: Iterable[ProductDay]) -> list[Row]:
    """The rows of these days, grouped by day."""
    found: list[Row] = []
    waiting = iter(days)
    while asked := list(islice(waiting, _ASKED_AT_ONCE)):
        # The query has a fixed number of parameters.
        asked.extend([_NO_DAY] * (_ASKED_AT_ONCE - len(asked)))
        products = {f"product_{n}": product_id for n, (product_id, _) in enumerate(asked)}
        numbers = {f"day_{n}": day for n, (_, day) in enumerate(asked)}
        found += await reader.fetch_all(query, **products, **numbers)
    return found


def ready_parts(parts: Iterable[Row]) -> Row:
    """The encoded lists of a day: its sources, keywords and search terms."""
    sources: list[TrafficEntry] = []
    keywords: list[KeywordEntry] = []
    searches: list[SearchEntry] = []
    # The busiest first; sorting by name only makes the order deterministic.
    ordered = sorted(sorted(parts, key=_by_name), key=_by_visitors, reverse=True)
    # One loop, since a load may have hundreds of thousands of parts.
    for _, _, kind, name, visitors, buyers, pieces, views in ordered:
        index = rate(buyers, visitors) or _RATE_FLOOR
        if kind == "source":
            sources.append(TrafficEntry(name, buyers, pieces, visitors, index))
        elif kind == "keyword":
            keywords.append(KeywordEntry(name, buyers, pieces, visitors, index, views))
        else:
            searches.append(SearchEntry(name, visitors, index, buyers))
    return encode_data(sources), encode_data(keywords), encode_data(searches)


def rate(buyers: int, visitors: int) -> float:
    """Buyers per hundred visitors, two decimals; in integers, so that halves round up exactly."""
    return (20_000 * buyers + visitors) // (2 * visitors) / 100 if visitors else 0.0

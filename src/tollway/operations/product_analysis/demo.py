"""Made-up products and their figures. Each product's day depends only on the seed and the day, so a
world that is continued day by day is the same as one made at once."""

from collections.abc import Callable, Iterator, Sequence
from datetime import date, timedelta
from functools import cache
from itertools import chain, groupby
from operator import itemgetter
from random import Random
from typing import Any, NamedTuple

from sqlalchemy import exists, literal, or_, select

from tollway.operations.demo_data import (
    DEMO_SEED,
    EXAMPLE_DAY,
    PRODUCTS,
    SANDBOX_PRODUCTS,
    DemoProduct,
    DemoTarget,
    Progress,
    no_progress,
    part_of_day,
    store_all,
)
from tollway.operations.product_analysis.ready_days import ready_parts, remake_parts
from tollway.operations.product_analysis.schema import (
    product,
    product_day,
    product_day_parts,
    product_figure,
)
from tollway.operations.product_analysis.series import day_number
from tollway.operations.product_analysis.storage import FigureLoader, FigureRow
from tollway.store.cache_versions import figures_changed
from tollway.store.database import Database, Transaction
from tollway.store.query import Query

_SOURCES = (
    ("手淘搜索", 30),
    ("手淘推荐", 22),
    ("手淘首页", 14),
    ("直通车", 10),
    ("万相台", 7),
    ("淘宝客", 5),
    ("购物车", 4),
    ("我的淘宝", 3),
    ("淘内免费其他", 3),
    ("直接访问", 2),
    ("短视频", 2),
    ("直播", 2),
    ("聚划算", 1),
    ("手淘拍立淘", 1),
)
_SOURCE_NAMES = tuple(name for name, _ in _SOURCES)
_SOURCE_WEIGHTS = tuple(weight for _, weight in _SOURCES)
# How often visitors use each of a product's five words; the last is the rarest.
_WORD_WEIGHTS = (10, 6, 4, 2, 1)
# How many parts a day has: its sources, and for each word a keyword and a search term.
_DAY_PARTS = len(_SOURCES) + 2 * len(_WORD_WEIGHTS)
# The site of a gateway with the usual settings.
_SITE = "http://127.0.0.1:8080"


def product_ids(count: int) -> list[str]:
    return [each.id for each in PRODUCTS[:count]]


def record_count(products: int, days: int) -> int:
    """How many records `products` products with figures of `days` days have."""
    return products * (1 + days * (1 + _DAY_PARTS))


def make_products(count: int, site: str) -> Iterator[FigureRow]:
    for each in PRODUCTS[:count]:
        yield product, (each.id, each.title, site + each.picture_path, each.shop.name)


def make_figures(
    seed: int, count: int, first: date, last: date, part_of_last: float
) -> Iterator[FigureRow]:
    """The figures of `count` products for every day from first to last, which may not be over."""
    for position, each in enumerate(PRODUCTS[:count]):
        for days in range((last - first).days + 1):
            day = first + timedelta(days=days)
            yield from _day(seed, position, each, day, part_of_last if day == last else 1.0)


def _day(seed: int, position: int, sold: DemoProduct, day: date, part: float) -> list[FigureRow]:
    """The figures of a day, source by source, for the part of it that is over. The totals are sums,
    so that everything adds up at any time. In key order, so that the database only appends."""
    chance = Random(f"{seed}:{sold.id}:{day}")  # noqa: S311 - made-up figures, not secrets
    key = (sold.id, day_number(day))
    visitors = int(chance.gauss(900, 150) * (1.3 if day.weekday() >= 5 else 1.0)) + 40 * position
    visitors = max(60, visitors)
    buyers = int(visitors * chance.uniform(0.02, 0.06))
    by_source, by_word = _spreads(seed, _SOURCE_WEIGHTS), _spreads(seed, _WORD_WEIGHTS)
    drawn = chance.randbytes(4)
    seen = _split(by_source[drawn[0]], visitors, part)
    bought = _split(by_source[drawn[1]], buyers, part)
    # Some buy two; what is ordered is not always paid for.
    more = chance.random() / 2
    ordered = [count + int(count * more) for count in bought]
    paid = sum(ordered) - int(chance.random() * (sum(ordered) - sum(bought)))
    collected, carted = chance.uniform(0.01, 0.04), chance.uniform(0.05, 0.12)
    visitors = sum(seen)
    totals = (visitors, sum(bought), paid * sold.price_fen)
    today = (int(visitors * collected), paid, int(visitors * carted))
    rows: list[FigureRow] = [(product_day, key + totals + today)]
    product_id, number = key
    found = _split(by_word[drawn[2]], visitors // 3, 1.0)
    found_by_buyers = _split(by_word[drawn[3]], sum(bought) // 3, 1.0)
    again = 2 + chance.random()
    rows += [
        (
            product_figure,
            (product_id, number, "keyword", word, count, buying, buying, int(count * again)),
        )
        for word, count, buying in _by_name(sold.words, found, found_by_buyers)
    ]
    rows += [
        (product_figure, (product_id, number, "search", word, count // 2, buying // 2, 0, 0))
        for word, count, buying in _by_name(_searches(sold), found, found_by_buyers)
    ]
    rows += [
        (product_figure, (product_id, number, "source", name, visits, buying, pieces, 0))
        for name, visits, buying, pieces in _by_name(_SOURCE_NAMES, seen, bought, ordered)
    ]
    return rows


def _by_name(names: tuple[str, ...], *counts: Sequence[int]) -> Iterator[tuple[Any, ...]]:
    """Each name with its counts, in the order of the names."""
    ordered = _order_of(names)
    return zip(ordered(names), *map(ordered, counts), strict=True)


@cache
def _order_of(names: tuple[str, ...]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    return itemgetter(*sorted(range(len(names)), key=names.__getitem__))


@cache
def _searches(sold: DemoProduct) -> tuple[str, ...]:
    return tuple(f"{word}推荐" for word in sold.words)


@cache
def _spreads(seed: int, weights: tuple[int, ...]) -> list[list[float]]:
    """Spreads for a random byte to choose from: the share of each part, around its weight."""
    chance = Random(f"{seed}:{weights}")  # noqa: S311 - made-up figures, not secrets
    spreads = []
    for _ in range(256):
        drawn = [weight * (0.7 + 0.6 * chance.random()) for weight in weights]
        whole = sum(drawn)
        spreads.append([each / whole for each in drawn])
    return spreads


def _split(spread: Sequence[float], total: int, part: float) -> list[int]:
    """Shares of a total, each for the part of the day that is over."""
    shares = [int(total * share) for share in spread]
    shares[0] += total - sum(shares)
    return shares if part == 1.0 else [int(share * part) for share in shares]


_ANY = Query(
    lambda: select(literal(1)).where(
        or_(*(exists(select(each.c.product_id)) for each in (product, product_day, product_figure)))
    )
)


class _FirstFigures(FigureLoader):
    """For a database without products and figures: these have no duplicates and come day by day, so
    no row is looked up, and a day's parts need not be counted."""

    async def store(self, transaction: Transaction, records: Sequence[FigureRow]) -> int:
        for table in (product, product_day, product_figure):
            await transaction.insert_rows(table, [row for of, row in records if of is table])
        figures = [row for of, row in records if of is product_figure]
        days = {day: list(parts) for day, parts in groupby(figures, itemgetter(0, 1))}
        made = [
            (*day, *ready_parts(parts)) for day, parts in days.items() if len(parts) == _DAY_PARTS
        ]
        await transaction.insert_rows(product_day_parts, made)
        # A day may begin in one transaction and end in the next: each makes what is stored so far.
        cut = [day for day, parts in days.items() if len(parts) < _DAY_PARTS]
        await remake_parts(transaction, cut)
        await figures_changed(transaction)
        return len(records)


class Size(NamedTuple):
    """How many products there are, and for how many days each has figures."""

    products: int
    days: int


WORLD, SANDBOX = Size(len(PRODUCTS), 365), Size(SANDBOX_PRODUCTS, 60)


def world_records() -> int:
    return record_count(*WORLD)


async def fill(target: DemoTarget) -> None:
    products, days = SANDBOX if target.is_sandbox else WORLD
    first = target.first_day(days - 1)
    await fill_figures(
        target.database,
        products=products,
        days=(target.today - first).days + 1,
        last=target.today,
        part_of_last=part_of_day(target.today, target.zone, target.now_s),
        site=target.site,
        progress=target.progress,
    )
    if target.is_sandbox and first > EXAMPLE_DAY:
        await fill_figures(
            target.database, products=products, days=1, last=EXAMPLE_DAY, site=target.site
        )


async def fill_figures(
    database: Database,
    *,
    products: int,
    days: int,
    last: date,
    part_of_last: float = 1.0,
    site: str = _SITE,
    progress: Progress = no_progress,
) -> None:
    """Stores products and their figures up to a day, of which only a part may be over."""
    first = last - timedelta(days=days - 1)
    figures = make_figures(DEMO_SEED, products, first, last, part_of_last)
    records = chain(make_products(products, site), figures)
    is_first = await database.fetch_one(_ANY) is None
    await store_all(database, _FirstFigures() if is_first else FigureLoader(), records, progress)

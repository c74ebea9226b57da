"""Products and their figures, made up. Each product's day depends on the seed and the day alone, so
that a world can be continued day by day and still be the same."""

from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from decimal import Decimal
from itertools import chain
from random import Random
from typing import NamedTuple

from tollway.operations.demo_data import DEMO_SEED, DemoTarget, Progress, no_progress, store_all
from tollway.operations.product_analysis.records import (
    DayRecord,
    KeywordRecord,
    ProductRecord,
    Record,
    SearchRecord,
    SourceRecord,
)
from tollway.operations.product_analysis.storage import FigureLoader
from tollway.store.database import Database

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
_SHOPS = ("青禾生活旗舰店", "北山户外专营店", "小满母婴官方店", "拾光家居")
_GOODS = (
    ("加厚纯棉四件套", 25900, ("四件套", "纯棉床品", "床单被套", "加厚四件套", "双人床品")),
    ("便携保温杯 500ml", 7900, ("保温杯", "便携水杯", "500ml 水杯", "不锈钢杯", "车载保温杯")),
    ("防水冲锋衣", 39900, ("冲锋衣", "防水外套", "户外夹克", "登山服", "三合一冲锋衣")),
    ("婴儿隔尿垫", 3900, ("隔尿垫", "婴儿床垫", "防水垫", "宝宝用品", "一次性隔尿垫")),
    ("落地护眼台灯", 19900, ("护眼灯", "落地灯", "学习台灯", "客厅灯", "阅读灯")),
    ("轻便折叠椅", 8900, ("折叠椅", "露营椅", "户外椅", "钓鱼椅", "便携椅子")),
    ("冻干咖啡 24 颗", 6900, ("冻干咖啡", "速溶咖啡", "黑咖啡", "咖啡粉", "美式咖啡")),
    ("珊瑚绒睡衣", 12900, ("睡衣", "珊瑚绒", "家居服", "加厚睡衣", "情侣睡衣")),
)
_COLOURS = ("雾蓝", "燕麦", "墨绿")


def product_ids(count: int) -> list[str]:
    return [str(620145000100 + 37 * position) for position in range(count)]


def record_count(products: int, days: int) -> int:
    """How many records `products` products and their figures of `days` days are."""
    words = len(_GOODS[0][2])
    return products * (1 + days * (1 + len(_SOURCES) + 2 * words))


def make_products(count: int) -> Iterator[ProductRecord]:
    for position, product_id in enumerate(product_ids(count)):
        name, _, _ = _GOODS[position % len(_GOODS)]
        colour = _COLOURS[position // len(_GOODS) % len(_COLOURS)]
        yield ProductRecord(
            product_id=product_id,
            title=f"{name} {colour}",
            shop_name=_SHOPS[position % len(_SHOPS)],
            picture_url=f"https://img.tollway.example/{product_id}.jpg",
        )


def make_figures(seed: int, count: int, first: date, last: date) -> Iterator[Record]:
    """The figures of `count` products for every day from first to last."""
    for position, product_id in enumerate(product_ids(count)):
        for back in range((last - first).days + 1):
            yield from _day(seed, position, product_id, first + timedelta(days=back))


def _day(seed: int, position: int, product_id: str, day: date) -> Iterator[Record]:
    chance = Random(f"{seed}:{product_id}:{day}")  # noqa: S311 - made-up figures, not secrets
    _, price_fen, words = _GOODS[position % len(_GOODS)]
    is_weekend = day.weekday() >= 5
    visitors = int(chance.gauss(900, 150) * (1.3 if is_weekend else 1.0)) + 40 * position
    visitors = max(60, visitors)
    buyers = int(visitors * chance.uniform(0.02, 0.06))
    pieces = buyers + chance.randrange(buyers // 3 + 1)
    yield DayRecord(
        product_id=product_id,
        day=day,
        visitors=visitors,
        buyers=buyers,
        payment=Decimal(pieces * price_fen) / 100,
        collections=int(visitors * chance.uniform(0.01, 0.04)),
        pieces_paid=pieces,
        pieces_carted=int(visitors * chance.uniform(0.05, 0.12)),
    )
    sources = [weight for _, weight in _SOURCES]
    for (name, _), (seen, bought) in zip(
        _SOURCES, _split(chance, sources, visitors, buyers), strict=True
    ):
        ordered = bought + chance.randrange(bought // 3 + 1)
        yield SourceRecord(product_id, day, name, seen, bought, ordered)
    weights = [10, 6, 4, 2, 1]
    shares = _split(chance, weights, visitors // 3, buyers // 3)
    for word, (seen, bought) in zip(words, shares, strict=True):
        views = seen * 2 + chance.randrange(seen + 1)
        yield KeywordRecord(product_id, day, word, seen, bought, bought, views)
        yield SearchRecord(product_id, day, f"{word}推荐", seen // 2, bought // 2)


def _split(
    chance: Random, weights: Sequence[int], visitors: int, buyers: int
) -> list[tuple[int, int]]:
    """Shares of the visitors and buyers that add up to all of them."""
    spread = [weight * chance.uniform(0.7, 1.3) for weight in weights]
    whole = sum(spread)
    seen = [int(visitors * share / whole) for share in spread]
    bought = [int(buyers * share / whole) for share in spread]
    seen[0] += visitors - sum(seen)
    bought[0] += buyers - sum(bought)
    return list(zip(seen, bought, strict=True))


class Size(NamedTuple):
    """How many products there are, and for how many days each has figures."""

    products: int
    days: int


WORLD, SANDBOX = Size(24, 365), Size(3, 60)


def world_records() -> int:
    return record_count(*WORLD)


async def fill(target: DemoTarget) -> None:
    products, days = SANDBOX if target.is_sandbox else WORLD
    await fill_figures(
        target.database,
        products=products,
        days=target.days(days),
        last=target.today,
        progress=target.progress,
    )


async def fill_figures(
    database: Database,
    *,
    products: int,
    days: int,
    last: date,
    progress: Progress = no_progress,
) -> None:
    """Stores products and their figures up to a day."""
    first = last - timedelta(days=days - 1)
    records = chain(make_products(products), make_figures(DEMO_SEED, products, first, last))
    await store_all(database, FigureLoader(), records, progress)

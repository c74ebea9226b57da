"""Putting made-up data into a database, a chunk at a time like any load."""

from collections.abc import Callable, Iterable
from datetime import date, timedelta
from itertools import chain, islice
from zoneinfo import ZoneInfo

from tollway.demo.claims import make_claims
from tollway.demo.figures import make_figures, make_products
from tollway.demo.orders import make_orders
from tollway.demo.promotion import make_materials
from tollway.intake.coupon_claims import CouponClaims
from tollway.intake.loading import CHUNK_RECORDS, Loader, store_records
from tollway.intake.order_record import row_of
from tollway.intake.orders import Orders
from tollway.intake.product_figures import ProductFigures
from tollway.intake.promotion_material import PromotionMaterials
from tollway.store.database import Database
from tollway.store.sealing import Sealer

DEMO_SEED = 20260101


async def fill_figures(
    database: Database,
    *,
    products: int,
    days: int,
    last: date,
    progress: Callable[[int], None] = lambda _: None,
) -> None:
    """Stores products and their figures up to a day; what is there already stays the same."""
    first = last - timedelta(days=days - 1)
    records = chain(make_products(products), make_figures(DEMO_SEED, products, first, last))
    await _fill(database, ProductFigures(), records, progress)


async def fill_claims(
    database: Database,
    *,
    per_day: int,
    days: int,
    last: date,
    zone: ZoneInfo,
    progress: Callable[[int], None] = lambda _: None,
) -> None:
    """Stores coupon claims up to the end of a day; what is there already stays the same."""
    first = last - timedelta(days=days - 1)
    records = make_claims(DEMO_SEED, per_day, first, last, zone)
    await _fill(database, CouponClaims(), records, progress)


async def fill_materials(database: Database, *, per_promotion: int, today: date) -> None:
    """Stores promotion material; what is there already gets the display times of today."""
    records = make_materials(DEMO_SEED, per_promotion, today)
    await _fill(database, PromotionMaterials(), records, lambda _: None)


async def fill_orders(
    database: Database,
    sealer: Sealer,
    *,
    per_year: int,
    days: int,
    today: date,
    zone: ZoneInfo,
    progress: Callable[[int], None] = lambda _: None,
) -> None:
    """Stores the orders of the days before today, and what became of those already there."""
    last = today - timedelta(days=1)
    first = today - timedelta(days=days)
    made = make_orders(DEMO_SEED, per_year, first, last, today, zone)
    await _fill(database, Orders(sealer), (row_of(order, sealer) for order in made), progress)


async def _fill(
    database: Database,
    loader: Loader,
    records: Iterable[object],
    progress: Callable[[int], None],
) -> None:
    stream = iter(records)
    while chunk := list(islice(stream, CHUNK_RECORDS)):
        await store_records(database, loader, chunk)
        progress(len(chunk))

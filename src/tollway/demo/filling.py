"""Putting made-up data into a database, a chunk at a time like any load."""

from collections.abc import Callable, Iterable
from datetime import date, timedelta
from itertools import chain, islice

from tollway.demo.figures import make_figures, make_products
from tollway.intake.loading import CHUNK_RECORDS
from tollway.intake.product_figures import ProductFigures, Record
from tollway.store.database import Database

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
    records: Iterable[Record] = chain(
        make_products(products), make_figures(DEMO_SEED, products, first, last)
    )
    loader = ProductFigures()
    stream = iter(records)
    while chunk := list(islice(stream, CHUNK_RECORDS)):
        await database.write(lambda tx, chunk=chunk: loader.store(tx, chunk))  # type: ignore[misc]
        progress(len(chunk))

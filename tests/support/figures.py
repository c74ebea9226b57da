"""Databases with the figures of a product, for tests that only need a call that succeeds."""

from datetime import date
from pathlib import Path

from tests.support.stores import Store
from tollway.operations.product_analysis.demo import fill_figures


def store_with_figures(
    path: Path, today: date, url: str | None = None, *, products: int = 1, days: int = 1
) -> Store:
    made = Store(path, url)
    made.do(lambda database: fill_figures(database, products=products, days=days, last=today))
    return made

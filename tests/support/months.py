"""The months that a shared database is divided by, seen from outside."""

from tests.support.stores import Store

_DIVISIONS = {
    "entry": ("at_ms", 1000),
    "uncharged_call": ("at_ms", 1000),
    "coupon_claim": ("newest_first", -1),
    "shop_order": ("newest_first", -1000),
}


def make_month(store: Store, table: str, at_ms: int) -> None:
    """Makes the month of a table that a moment lies in."""
    column, per_s = _DIVISIONS[table]
    moments = f"ARRAY[{at_ms // 1000}::bigint]"
    store.run(f"SELECT tollway_make_months('{table}', '{column}', {per_s}, {moments})")


def rows_by_part(store: Store, table: str) -> dict[str, int]:
    """How many rows each part of a table has, but for those that have none."""
    return dict(
        store.run(f"SELECT tableoid::regclass::text, count(*) FROM {table} GROUP BY 1 ORDER BY 1")
    )

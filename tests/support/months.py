"""The months that a shared database is divided by, seen from outside."""

from tests.support.stores import Store
from tollway.ledger.runtime import Runtime
from tollway.operations.catalogue import ALL_TABLES
from tollway.store.months import month_of
from tollway.store.schema import MONTHS

NOW_MS = Runtime().at_ms()
# A month that ended long enough ago, and a moment in the middle of it.
OLD = month_of(NOW_MS // 1000 - 90 * 86_400)
OLD_MS = OLD.start_s * 1000 + 14 * 86_400_000


def make_month(store: Store, table: str, at_ms: int) -> None:
    """Makes the month of a table that a moment lies in."""
    store.run(making(table, at_ms))


def making(table: str, at_ms: int) -> str:
    """The statement that does so."""
    ((column, per_s),) = (each.info[MONTHS] for each in ALL_TABLES if each.name == table)
    moments = f"ARRAY[{at_ms // 1000}::bigint]"
    return f"SELECT tollway_make_months('{table}', '{column}', {per_s}, {moments})"


def rows_by_part(store: Store, table: str) -> dict[str, int]:
    """How many rows each part of a table has, but for those that have none."""
    return dict(
        store.run(f"SELECT tableoid::regclass::text, count(*) FROM {table} GROUP BY 1 ORDER BY 1")
    )


def months_of(store: Store, table: str) -> list[str]:
    """The parts that a table has."""
    rows = store.run(
        "SELECT inhrelid::regclass::text FROM pg_inherits "
        f"WHERE inhparent = '{table}'::regclass ORDER BY 1"
    )
    return [name.removeprefix(f"{table}_") for (name,) in rows]


def put_entries(store: Store, times_ms: list[int], account_id: str = "acc") -> None:
    """A balance and its entries, each of which gave one."""
    for number, at_ms in enumerate(times_ms, 1):
        store.run(
            "INSERT INTO entry (account_id, unit, number, kind, amount, balance_after, at_ms) "
            f"VALUES ('{account_id}', 'credits', {number}, 'top_up', 1, {number}, {at_ms})"
        )
    store.run(
        f"INSERT INTO account (id, name, opened_at_s) VALUES ('{account_id}', '{account_id}', 0) "
        "ON CONFLICT DO NOTHING"
    )
    last = len(times_ms)
    store.run(
        f"INSERT INTO balance VALUES ('{account_id}', 'credits', {last}, 0, 0, {last}) "
        f"ON CONFLICT (account_id, unit) DO UPDATE SET amount = {last}, entries = {last}"
    )


def put_reads(store: Store, times_ms: list[int]) -> None:
    """Reads under one grant, each by a request that is named after its time."""
    store.run(
        "INSERT INTO consent VALUES ('shop', 'o', 'g', 'acc', 's', 'owner', 0, NULL, NULL, NULL, "
        "NULL) ON CONFLICT DO NOTHING"
    )
    for at_ms in times_ms:
        store.run(
            "INSERT INTO consent_use "
            f"VALUES ('shop', 'o', 'g', '{at_ms}', {at_ms}, 'orders', NULL, NULL)"
        )

"""Retention looks every half minute for old rows: however many counts there are, it reads the few
old ones."""

import asyncio

import pytest
from sqlalchemy import text

from tests.store.on_postgresql import opened
from tests.support.stores import Store
from tests.support.work import work_of
from tollway.operations.coupon_claims.storage import RETAINED_CLAIMS
from tollway.operations.orders.counts import forget_days
from tollway.operations.orders.storage import RETAINED_ORDERS
from tollway.operations.subject import Retained
from tollway.store.database import Transaction
from tollway.store.open import OpenDatabase
from tollway.store.query import Query

OWNERS = 20
OLD_DAYS = 2
DAY_MS = 86_400_000
NUMBERS = (
    "WITH RECURSIVE number (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM number WHERE n < {last})"
)


def _fill(store: Store, days: int) -> Store:
    """Every shop and list has the same old days, and so many others."""
    numbers = NUMBERS.format(last=OWNERS * (OLD_DAYS + days) - 1)
    day = f"CASE WHEN n / {OWNERS} < {OLD_DAYS} THEN n / {OWNERS} ELSE 10000 + n / {OWNERS} END"
    whose = f"'shop ' || (n % {OWNERS})"
    store.run(
        "INSERT INTO order_count (owner_id, facet, hours, bucket, orders) "
        f"{numbers} SELECT {whose}, facet, hours, {day} * 24 / hours, 1 FROM number "
        "CROSS JOIN (SELECT '' AS facet UNION ALL SELECT 't:1') AS f "
        "CROSS JOIN (SELECT 1 AS hours UNION ALL SELECT 24) AS h"
    )
    store.run(
        "INSERT INTO coupon_claim_hour (sid, claim_type, hour, claims) "
        f"{numbers} SELECT {whose}, 4, {day} * 24, 1 FROM number"
    )
    if store.is_shared:
        store.run("VACUUM ANALYZE order_count, coupon_claim_hour")
    return store


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory, engine: str) -> Store:
    return _fill(Store(tmp_path_factory.mktemp("few") / "tollway.db"), 50)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory, engine: str) -> Store:
    return _fill(Store(tmp_path_factory.mktemp("many") / "tollway.db"), 500)


@pytest.mark.parametrize("kept", [RETAINED_ORDERS, RETAINED_CLAIMS], ids=lambda kept: kept.kind)
def test_old_rows_are_found_without_reading_the_counts_of_all_days(
    few: Store, many: Store, kept: Retained
) -> None:
    before_ms = 5000 * DAY_MS

    async def measure(database: OpenDatabase) -> int:
        removals = await kept.removals(database, before_ms)
        assert len(removals) == OWNERS
        assert await kept.count_old(database, before_ms) == OWNERS * OLD_DAYS
        return await work_of(database, lambda: kept.removals(database, before_ms))

    little, much = few.do(measure), many.do(measure)
    # An index may be a level deeper where there is more; a scan reads ten times as much.
    assert much <= 2 * little + 4, (little, much)


# The blocks that this transaction has read so far, of the counts and their indexes.
BLOCKS = Query(
    text("SELECT 0"),
    text("""SELECT sum(pg_stat_get_xact_blocks_fetched(of_table)) FROM (
    SELECT 'order_count'::regclass AS of_table
    UNION ALL SELECT indexrelid FROM pg_index WHERE indrelid = 'order_count'::regclass) AS its"""),
)


@pytest.mark.postgresql
def test_the_counts_of_a_month_go_without_reading_those_of_others(few: Store, many: Store) -> None:
    """As a gateway asks. Nothing of it stays: other tests count these rows."""

    def blocks(store: Store) -> int:
        found: list[int] = []

        async def forget(transaction: Transaction) -> None:
            assert await forget_days(transaction, 0, OLD_DAYS * DAY_MS) == OWNERS * OLD_DAYS
            ((read,),) = await transaction.fetch_all(BLOCKS)
            found.append(read)
            raise LookupError("undone")

        async def work() -> None:
            database = opened(store.url, 30)
            with pytest.raises(LookupError):
                await database.write(forget)
            await database.close()

        asyncio.run(work())
        return found[0]

    little, much = blocks(few), blocks(many)
    # An index may be a level deeper where there is more; a scan reads ten times as much.
    assert much <= 2 * little + 4, (little, much)

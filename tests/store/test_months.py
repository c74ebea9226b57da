"""What grows is divided by month in a shared database: every row is in its month, old months are
dropped as a whole, and nothing is lost or seen twice whatever months there are."""

import asyncio
import io
import subprocess
from contextlib import suppress
from pathlib import Path

import asyncpg
import pytest
from alembic import command

from tests.docs.pages import DOCS, blocks_of
from tests.support.coupons import claim, load_claims
from tests.support.months import make_month, rows_by_part
from tests.support.orders import OWNER, miscounted, order, put_orders
from tests.support.postgresql import BIN, new_database, run_on
from tests.support.stores import Store
from tollway.ledger.identity import World
from tollway.retention.applying import Retention
from tollway.settings import Settings
from tollway.store.database import Database
from tollway.store.migrate import _config, migrate, newest_revision
from tollway.store.months import make_months_ahead, month_of
from tollway.store.open import open_database
from tollway.telemetry.metrics import Metrics

pytestmark = pytest.mark.postgresql

NOW_MS = World().at_ms()
DAY_MS = 86_400_000
# In the middle of the month, three months ago.
OLD = month_of(NOW_MS // 1000 - 90 * 86_400)
OLD_MS = OLD.start_s * 1000 + 14 * DAY_MS
TABLES = ("entry", "uncharged_call", "coupon_claim", "shop_order")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "tollway.db")


def months_of(store: Store, table: str) -> list[str]:
    rows = store.run(
        "SELECT inhrelid::regclass::text FROM pg_inherits "
        f"WHERE inhparent = '{table}'::regclass ORDER BY 1"
    )
    return [name.removeprefix(f"{table}_") for (name,) in rows]


def retention_of(database: Database, **days: int) -> Retention:
    return Retention(database, Settings(**days))


def put_entries(store: Store, times_ms: list[int], first: int = 1) -> None:
    """A balance and its entries, each of which gave one."""
    for number, at_ms in enumerate(times_ms, first):
        store.run(
            "INSERT INTO entry (account_id, unit, number, kind, amount, balance_after, at_ms) "
            f"VALUES ('acc', 'credits', {number}, 'top_up', 1, {number}, {at_ms})"
        )
    store.run("INSERT INTO account VALUES ('acc', 'acme', 0, NULL) ON CONFLICT DO NOTHING")
    last = first + len(times_ms) - 1
    store.run(
        f"INSERT INTO balance VALUES ('acc', 'credits', {last}, 0, 0, {last}) "
        f"ON CONFLICT (account_id, unit) DO UPDATE SET amount = {last}, entries = {last}"
    )


def test_this_month_and_the_next_two_are_there(store: Store) -> None:
    coming = {month_of(NOW_MS // 1000 + days * 86_400).name for days in (0, 31)}
    for table in TABLES:
        assert coming | {"rest"} <= set(months_of(store, table))


def test_every_row_goes_to_its_month(store: Store) -> None:
    edges = [OLD.start_s, OLD.end_s - 1, OLD.end_s]
    put_orders(store, [order(f"sn{at}", confirm_time=at * 1000 + 999) for at in edges])
    load_claims(store, [claim(f"c{at}", at) for at in edges])
    after = month_of(OLD.end_s).name
    for table in ("shop_order", "coupon_claim"):
        assert rows_by_part(store, table) == {f"{table}_{OLD.name}": 2, f"{table}_{after}": 1}


def test_what_is_too_far_away_goes_to_the_rest(store: Store) -> None:
    put_orders(store, [order("past", confirm_time=10**12), order("future", confirm_time=10**14)])
    assert rows_by_part(store, "shop_order") == {"shop_order_rest": 2}


def test_a_month_whose_rows_are_in_the_rest_is_not_made(store: Store) -> None:
    put_entries(store, [OLD_MS])
    make_month(store, "entry", OLD_MS)
    assert rows_by_part(store, "entry") == {"entry_rest": 1}
    assert OLD.name not in months_of(store, "entry")


def test_nodes_that_make_the_same_month_at_once_make_it_once(store: Store) -> None:
    async def work(database: Database) -> None:
        in_a_year = NOW_MS // 1000 + 300 * 86_400
        await asyncio.gather(*(make_months_ahead(database, in_a_year) for _ in range(8)))

    store.do(work)
    for table in TABLES:
        assert month_of(NOW_MS // 1000 + 300 * 86_400).name in months_of(store, table)


def test_an_order_moves_from_month_to_month(store: Store) -> None:
    put_orders(store, [order("sn", confirm_time=OLD_MS)])
    put_orders(store, [order("sn", confirm_time=NOW_MS, updated_at=NOW_MS)])
    this = month_of(NOW_MS // 1000).name
    assert rows_by_part(store, "shop_order") == {f"shop_order_{this}": 1}
    assert store.do(miscounted) == {}


def test_whole_months_go_with_what_counts_them(store: Store) -> None:
    put_orders(store, [order(f"sn{n}", confirm_time=OLD_MS + n) for n in range(5)])
    put_orders(store, [order("new", confirm_time=NOW_MS), order("far", confirm_time=10**12)])
    load_claims(store, [claim("old", OLD_MS // 1000), claim("new", NOW_MS // 1000)])
    make_month(store, "entry", OLD_MS)
    put_entries(store, [OLD_MS, OLD_MS + 1, NOW_MS])

    async def apply(database: Database) -> dict[str, int]:
        retention = retention_of(
            database, keep_orders_days=30, keep_claims_days=30, keep_entries_days=30
        )
        planned, dropped = await retention.plan(NOW_MS), await retention.apply(NOW_MS)
        assert planned == dropped
        return {each.kind: each.rows for each in dropped}

    assert store.do(apply) == {"orders": 6, "claims": 1, "entries": 2, "receipts": 0}
    for table in ("shop_order", "coupon_claim", "entry"):
        assert OLD.name not in months_of(store, table)
        assert len(store.run(f"SELECT FROM {table}")) == 1
    assert store.do(miscounted) == {}
    assert store.run("SELECT sum(claims) FROM coupon_claim_hour") == [(1,)]
    carried = store.run("SELECT number, balance_after, top_up, charge FROM carried")
    assert carried == [(2, 2, 2, 0)]


def test_a_month_with_the_entry_before_it_elsewhere_waits(store: Store) -> None:
    """Entry 1 is from a clock that went ahead, so entry 2 is not the next one to go."""
    make_month(store, "entry", OLD_MS)
    put_entries(store, [NOW_MS, OLD_MS])

    async def apply(database: Database) -> int:
        _, _, entries, _ = await retention_of(database, keep_entries_days=30).apply(NOW_MS)
        return entries.rows

    assert store.do(apply) == 0
    assert len(store.run("SELECT FROM entry")) == 2
    store.run(f"UPDATE entry SET at_ms = {OLD_MS - 1}")
    assert store.do(apply) == 2
    assert store.run("SELECT number, top_up FROM carried") == [(2, 2)]


def test_who_has_been_reading_for_long_is_not_disturbed(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    put_orders(store, [order("old", confirm_time=OLD_MS)])

    async def work(database: Database) -> None:
        reader = await asyncpg.connect(store.url)
        retention = retention_of(database, keep_orders_days=30)
        try:
            async with reader.transaction():
                await reader.fetch("SELECT FROM shop_order")
                orders, *_ = await retention.apply(NOW_MS)
                # Neither the month nor its counts, and not in pieces either.
                assert (orders.rows, await miscounted(database)) == (0, {})
                assert "another time" in caplog.text
        finally:
            await reader.close()
        orders, *_ = await retention.apply(NOW_MS)
        assert orders.rows == 1

    store.do(work)


def test_a_month_may_take_longer_than_a_call_would_wait(store: Store) -> None:
    put_orders(store, [order("old", confirm_time=OLD_MS)])
    # Forgetting its counts now takes its time.
    store.run(
        "CREATE FUNCTION dally() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN PERFORM pg_sleep(2); RETURN NULL; END $$"
    )
    store.run(
        "CREATE TRIGGER slowly BEFORE DELETE ON order_count "
        "FOR EACH STATEMENT EXECUTE FUNCTION dally()"
    )

    async def work() -> None:
        hurried = open_database(store.url, Metrics(), 0.3)
        orders, *_ = await retention_of(hurried, keep_orders_days=30).apply(NOW_MS)
        await hurried.close()
        assert orders.rows == 1

    asyncio.run(work())
    assert store.run("SELECT FROM shop_order") == []


def test_what_is_stored_while_its_month_is_dropped_is_counted(store: Store) -> None:
    put_orders(store, [order("old", confirm_time=OLD_MS)])

    async def work(database: Database) -> None:
        retention = retention_of(database, keep_orders_days=30)
        for round_ in range(10):
            put = [order(f"late {round_} {n}", confirm_time=OLD_MS + n) for n in range(3)]
            await asyncio.gather(retention.apply(NOW_MS), asyncio.to_thread(put_orders, store, put))
            assert await miscounted(database) == {}

    store.do(work)


def test_a_month_is_kept_elsewhere_as_the_page_says(store: Store, tmp_path: Path) -> None:
    make_month(store, "entry", OLD_MS)
    put_entries(store, [OLD_MS])
    blocks = [
        block.text.replace("202601", OLD.name)
        for block in blocks_of(DOCS / "operate.md")
        if "entry_202601" in block.text
    ]
    dump, move = blocks
    subprocess.run(
        ["bash", "-c", dump.removeprefix("$ ")],
        env={"PATH": f"{BIN}:/usr/bin:/bin", "TOLLWAY_DATABASE": store.url},
        cwd=tmp_path,
        check=True,
    )
    assert str(OLD_MS) in (tmp_path / f"entry_{OLD.name}.sql").read_text(encoding="utf-8")

    async def work() -> None:
        connection = await asyncpg.connect(store.url)
        await connection.execute("SET allow_in_place_tablespaces = on")
        # The whole server shares it, and other tests may have made it.
        with suppress(asyncpg.DuplicateObjectError):
            await connection.execute("CREATE TABLESPACE archive LOCATION ''")
        await connection.execute(move)
        assert await connection.fetchval("SELECT count(*) FROM entry") == 1
        await connection.close()

    asyncio.run(work())


def test_what_an_older_schema_has_is_taken_over(tmp_path: Path) -> None:
    url = new_database(is_migrated=False)
    script = io.StringIO()
    config = _config(script)
    config.attributes["dialect"] = "postgresql"
    command.upgrade(config, "base:0012", sql=True)

    async def prepare() -> None:
        connection = await asyncpg.connect(url)
        await connection.execute(script.getvalue())
        await connection.execute(
            f"""
            INSERT INTO entry (account_id, unit, number, kind, amount, balance_after, at_ms)
                SELECT 'acc', 'credits', n, 'top_up', 1, n, {OLD_MS} + n
                FROM generate_series(1, 9) AS n;
            INSERT INTO uncharged_call VALUES ('acc', 'r', {OLD_MS}, 'orders', 100, 'X', NULL);
            INSERT INTO coupon_claim VALUES
                ('s', 4, {-OLD_MS // 1000}, 'c', 'n', 't', 1, 1, 1, 1, 'k');
            INSERT INTO shop_order VALUES ('{OWNER}', {-OLD_MS}, 'sn', 1, 1, 'p', 'c', 't', 'g',
                'i', 's', 1, 0, 1, 1, NULL, NULL, NULL, '');"""
        )
        await connection.close()
        database = open_database(url, Metrics())
        assert await migrate(database) == ("0012", newest_revision())
        await database.close()

    asyncio.run(prepare())
    assert run_on(url, "SELECT count(*), min(number), max(at_ms) FROM entry") == [
        (9, 1, OLD_MS + 9)
    ]
    for table in TABLES:
        parts = run_on(url, f"SELECT DISTINCT tableoid::regclass::text FROM {table}")
        assert parts == [(f"{table}_{OLD.name}",)]
    leftovers = run_on(url, "SELECT FROM pg_class WHERE relname LIKE '%before%'")
    assert leftovers == []

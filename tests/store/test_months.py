"""What grows is divided by month in a shared database: every row is in its month, and is found
whatever months there are."""

import asyncio
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import asyncpg
import msgspec
import pytest

from tests.docs.pages import DOCS, blocks_of
from tests.support.coupons import claim, load_claims
from tests.support.months import (
    NOW_MS,
    OLD,
    OLD_MS,
    make_month,
    making,
    months_of,
    put_entries,
    rows_by_part,
)
from tests.support.orders import miscounted, order, put_orders
from tests.support.postgresql import locked
from tests.support.server_files import BIN
from tests.support.stores import Store
from tollway.intake.loading import store_records
from tollway.intake.rejects import UPLOAD, keep_rejects, replay, sealed_reject
from tollway.ledger.entries import ADD_ENTRY, Entry
from tollway.operations.catalogue import RECORD_KINDS
from tollway.operations.coupon_claims.storage import ClaimLoader
from tollway.store.database import Database, Row, Transaction
from tollway.store.months import make_months_ahead, month_of
from tollway.store.open import OpenDatabase, open_sealer
from tollway.store.query import Query

pytestmark = pytest.mark.postgresql

WAITS_FOR_REST = """
SELECT count(*) FROM pg_locks WHERE relation = 'entry_rest'::regclass AND NOT granted"""
TABLES = ("entry", "consent_use", "refused_call", "coupon_claim", "shop_order")


async def _put(kind: str, transaction: Transaction) -> None:
    """An entry of an old month."""
    put = Entry("acc", "credits", 1, kind, 1, 1, OLD_MS)
    await transaction.execute(ADD_ENTRY, **msgspec.structs.asdict(put))


def test_this_month_and_the_next_two_are_there(store: Store) -> None:
    this = month_of(NOW_MS // 1000)
    next_one = month_of(this.end_s)
    coming = [this.name, next_one.name, month_of(next_one.end_s).name, "rest"]
    for table in TABLES:
        assert months_of(store, table) == coming


def test_no_month_is_left_out_however_short(store: Store) -> None:
    year = datetime.fromtimestamp(NOW_MS // 1000, UTC).year
    last_of_january_s = int(datetime(year, 1, 31, 12, tzinfo=UTC).timestamp())
    store.do(lambda database: make_months_ahead(database, last_of_january_s))
    assert {f"{year}01", f"{year}02", f"{year}03"} <= set(months_of(store, "entry"))


def test_months_that_are_there_are_asked_for_once_and_not_made_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    async def work(database: OpenDatabase) -> None:
        fetch = database.fetch_all

        async def note(query: Query, **values: object) -> Sequence[Row]:
            read.append(query.postgresql.text)
            return await fetch(query, **values)

        async def refuse(_: object) -> None:
            read.append("a write")

        monkeypatch.setattr(database, "fetch_all", note)
        monkeypatch.setattr(database, "write", refuse)
        await make_months_ahead(database, NOW_MS // 1000)

    store.do(work)
    assert len(read) == 1 and "to_regclass" in read[0]


def test_one_that_was_dropped_is_made_again_alone(store: Store) -> None:
    this = month_of(NOW_MS // 1000).name
    store.run(f"DROP TABLE shop_order_{this}")
    assert this not in months_of(store, "shop_order")
    store.do(lambda database: make_months_ahead(database, NOW_MS // 1000))
    test_this_month_and_the_next_two_are_there(store)


def test_every_row_goes_to_its_month(store: Store) -> None:
    edges = [OLD.start_s, OLD.end_s - 1, OLD.end_s]
    put_orders(store, [order(f"sn{at}", confirm_time=at * 1000 + 999) for at in edges])
    load_claims(store, [claim(f"c{at}", at) for at in edges])
    after = month_of(OLD.end_s).name
    for table in ("shop_order", "coupon_claim"):
        assert rows_by_part(store, table) == {f"{table}_{OLD.name}": 2, f"{table}_{after}": 1}


def test_what_is_too_far_away_goes_to_the_rest(store: Store) -> None:
    put_orders(store, [order("past", confirm_time=10**12)])
    load_claims(store, [claim("future", 10**11)])
    assert rows_by_part(store, "shop_order") == {"shop_order_rest": 1}
    assert rows_by_part(store, "coupon_claim") == {"coupon_claim_rest": 1}


def test_what_the_rest_has_of_a_month_goes_to_it(store: Store) -> None:
    put_entries(store, [OLD_MS, OLD.end_s * 1000])
    make_month(store, "entry", OLD_MS)
    assert rows_by_part(store, "entry") == {f"entry_{OLD.name}": 1, "entry_rest": 1}


def test_unless_that_is_so_much_that_others_would_wait_for_it(store: Store) -> None:
    store.run(
        "INSERT INTO entry (account_id, unit, number, kind, amount, balance_after, at_ms) "
        f"SELECT 'a', 'credits', n, 'top_up', 1, n, {OLD_MS} FROM generate_series(1, 10001) AS n"
    )

    async def while_another_writes() -> None:
        writer = await asyncpg.connect(store.url)
        async with writer.transaction():
            await writer.execute("UPDATE entry SET amount = 1 WHERE number = 1")
            # It neither waits for them, nor would another wait for it.
            await asyncio.to_thread(make_month, store, "entry", OLD_MS)
        await writer.close()

    asyncio.run(while_another_writes())
    assert rows_by_part(store, "entry") == {"entry_rest": 10001}
    assert OLD.name not in months_of(store, "entry")


def test_a_row_that_comes_to_the_rest_while_its_month_is_made_is_found_there(store: Store) -> None:
    async def work() -> None:
        writer = await asyncpg.connect(store.url)
        async with writer.transaction():
            await writer.execute(
                "INSERT INTO entry (account_id, unit, number, kind, amount, balance_after, at_ms) "
                f"VALUES ('a', 'credits', 1, 'top_up', 1, 1, {OLD_MS})"
            )
            making = asyncio.create_task(asyncio.to_thread(make_month, store, "entry", OLD_MS))
            with pytest.raises(asyncpg.LockNotAvailableError):
                await making
        await writer.close()

    asyncio.run(work())
    make_month(store, "entry", OLD_MS)
    assert rows_by_part(store, "entry") == {f"entry_{OLD.name}": 1}


def test_a_row_that_was_on_its_way_to_the_rest_when_its_month_was_made_goes_to_that(
    store: Store,
) -> None:
    async def work(database: Database) -> None:
        maker = await asyncpg.connect(store.url)
        async with maker.transaction():
            await maker.execute(making("entry", OLD_MS))
            putting = asyncio.create_task(database.write(partial(_put, "top_up")))
            while not await maker.fetchval(WAITS_FOR_REST):
                assert not putting.done()
        await putting
        await maker.close()

    store.do(work)
    assert rows_by_part(store, "entry") == {f"entry_{OLD.name}": 1}


def test_a_load_makes_a_month_whose_lock_was_not_free_at_first(store: Store) -> None:
    loader = ClaimLoader()

    def load(code: str) -> None:
        rows = [claim(code, OLD.start_s)]
        store.do(lambda database: store_records(database, loader, rows))

    with locked(store.url, "coupon_claim_rest", mode="ACCESS SHARE"):
        load("first")
    load("second")
    assert rows_by_part(store, "coupon_claim") == {f"coupon_claim_{OLD.name}": 2}


def test_a_record_that_is_replayed_has_its_month_made(store: Store) -> None:
    sealer = open_sealer(store.url, store.key_file)
    record = msgspec.json.encode(order(confirm_time=OLD_MS))
    kept = sealed_reject(sealer, b"key", UPLOAD, "orders", record, "it was wrong", 1)

    async def work(database: Database) -> int:
        await database.write(partial(keep_rejects, rejects=[kept]))
        return (await replay(database, sealer, RECORD_KINDS, None)).stored

    assert store.do(work) == 1
    assert rows_by_part(store, "shop_order") == {f"shop_order_{OLD.name}": 1}


def test_a_row_that_a_check_refuses_is_not_tried_again(store: Store) -> None:
    tries = 0

    async def put(transaction: Transaction) -> None:
        nonlocal tries
        tries += 1
        await _put("no such kind", transaction)

    with pytest.raises(asyncpg.CheckViolationError):
        store.do(lambda database: database.write(put))
    assert tries == 1


def test_nodes_that_make_the_same_month_at_once_make_it_once(store: Store) -> None:
    in_a_year = NOW_MS // 1000 + 300 * 86_400

    async def work(database: Database) -> None:
        await asyncio.gather(*(make_months_ahead(database, in_a_year) for _ in range(8)))

    store.do(work)
    for table in TABLES:
        assert month_of(in_a_year).name in months_of(store, table)


def test_an_order_moves_from_month_to_month(store: Store) -> None:
    put_orders(store, [order("sn", confirm_time=OLD_MS)])
    put_orders(store, [order("sn", confirm_time=NOW_MS, updated_at=NOW_MS)])
    this = month_of(NOW_MS // 1000).name
    assert rows_by_part(store, "shop_order") == {f"shop_order_{this}": 1}
    assert store.do(miscounted) == {}


def test_a_month_is_kept_elsewhere_as_the_page_says(store: Store, tmp_path: Path) -> None:
    make_month(store, "entry", OLD_MS)
    put_entries(store, [OLD_MS])
    blocks = [
        block.text.replace("202601", OLD.name)
        for block in blocks_of(DOCS / "operate/postgresql.md")
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

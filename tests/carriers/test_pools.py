"""Numbers never repeat: loaded once, taken once, also under attack and after a restart."""

import asyncio
import json
import re
from pathlib import Path

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.ledger import RUNTIME
from tests.support.stores import Store
from tests.support.waybills import load_numbers, new_carrier
from tollway.carriers import CarrierError, pools
from tollway.carriers.pools import (
    SHARED,
    Taken,
    TryAgain,
    add_numbers,
    list_pools,
    take_numbers,
)
from tollway.carriers.waybills import StoredWaybill, Waybill, cancel_waybill, store_waybills
from tollway.store.database import Database, DuplicateKeyError, Transaction
from tollway.store.open import open_database
from tollway.store.postgresql.database import PostgresqlDatabase
from tollway.store.postgresql.errors import ConflictError
from tollway.telemetry.metrics import Metrics

# What a row that may not be there twice is refused with, by either engine.
CONFLICTS = (DuplicateKeyError, ConflictError)
# They fill about 150 blocks of the table and 100 of its key.
MANY = 20_000
FEW_BLOCKS = 40
LEFT_OVER = [f"YT9{n:012d}" for n in range(6)]


@pytest.fixture
def empty_store(tmp_path: Path) -> Store:
    return Store(tmp_path / "pools.db")


def _take(store: Store, wp_code: str, owner_id: str) -> Taken:
    async def work(database: Database) -> Taken:
        (taken,) = await database.write(lambda tx: take_numbers(tx, [(wp_code, owner_id)]))
        return taken

    return store.do(work)


async def _store(transaction: Transaction, wp_code: str, order_sn: str, number: str) -> None:
    made = Waybill(
        account_id="a",
        object_id=RUNTIME.new_id("wb_"),
        owner_id="shop",
        order_sn=order_sn,
        wp_code=wp_code,
        state="issued",
        number=number,
        price=1,
        request_id=order_sn,
        hold_id=None,
        asked_at_s=1,
        issued_at_s=1,
    )
    await store_waybills(transaction, [StoredWaybill(made, b"x")])


def _issue(store: Store, wp_code: str, order_sn: str) -> str:
    """Takes a number and stores its waybill, as the operation does."""

    async def issue(transaction: Transaction) -> str:
        (number,) = await take_numbers(transaction, [(wp_code, "shop")])
        assert isinstance(number, str)
        await _store(transaction, wp_code, order_sn, number)
        return number

    async def work(database: Database) -> str:
        return await database.write(issue)

    return store.do(work)


def _give(store: Store, wp_code: str, *numbers: str) -> None:
    """The carrier gives numbers by itself, and nothing marks them in the pool."""

    async def give(transaction: Transaction) -> None:
        for number in numbers:
            await _store(transaction, wp_code, f"given {number}", number)

    async def work(database: Database) -> None:
        await database.write(give)

    store.do(work)


def _issued(store: Store) -> list[str]:
    rows = store.run("SELECT number FROM waybill")
    return [number for (number,) in rows]


def test_what_does_not_fit_or_was_there_before_is_rejected_with_its_reason(
    empty_store: Store,
) -> None:
    wp_code = new_carrier(empty_store, 2)
    first, second = "YT0000000000001", "YT0000000000007"
    rejected = load_numbers(empty_store, wp_code, [first, "SF1", second, second], "shop")
    assert [(each.position, each.number) for each in rejected] == [
        (1, first),
        (2, "SF1"),
        (4, second),
    ]
    reasons = [str(each.reason) for each in rejected]
    assert "loaded before" in reasons[0] and "capital letters" in reasons[1]
    found = {each.owner_id: each for each in empty_store.do(list_pools)}
    assert (found[None].left, found["shop"].left, found["shop"].taken) == (2, 1, 0)


def test_numbers_of_an_unknown_carrier_are_not_loaded(empty_store: Store) -> None:
    with pytest.raises(CarrierError, match="no carrier X"):
        load_numbers(empty_store, "X", ["YT0000000000001"])


@settings(max_examples=12)
@given(st.lists(st.sampled_from(["load", "take", "take shop", "load shop"]), max_size=14))
def test_whatever_is_loaded_and_taken_no_number_comes_twice(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str]
) -> None:
    store = Store(tmp_path_factory.mktemp("pools") / "pools.db")
    wp_code = new_carrier(store, 3)
    taken: list[str] = []
    for step in steps:
        owner_id = "shop" if step.endswith("shop") else ""
        if step.startswith("load"):
            load_numbers(store, wp_code, [*LEFT_OVER, *taken], owner_id)
        elif (number := _take(store, wp_code, owner_id)) is not None:
            taken.append(number)
    assert len(taken) == len(set(taken))


def test_a_cancelled_number_is_never_issued_again(empty_store: Store) -> None:
    wp_code = new_carrier(empty_store, 2)
    number = _issue(empty_store, wp_code, "order-01")
    empty_store.do(lambda database: cancel_waybill(database, number, None, RUNTIME))
    with pytest.raises(CarrierError, match="cancelled already"):
        empty_store.do(lambda database: cancel_waybill(database, number, wp_code, RUNTIME))
    assert load_numbers(empty_store, wp_code, [number])[0].number == number
    assert _issue(empty_store, wp_code, "order-01") != number


@pytest.mark.sqlite
def test_numbers_that_cannot_be_taken_are_a_fault_that_names_the_audit(empty_store: Store) -> None:
    wp_code = new_carrier(empty_store, 2)
    empty_store.run(
        "CREATE TRIGGER kept BEFORE UPDATE ON waybill_number BEGIN SELECT RAISE(IGNORE); END"
    )
    with pytest.raises(AssertionError, match="run `tollway audit`"):
        _take(empty_store, wp_code, "shop")
    assert _issued(empty_store) == []


def test_a_pool_that_forgets_what_was_taken_still_issues_no_number_twice(
    empty_store: Store,
) -> None:
    wp_code = new_carrier(empty_store, 2)
    first = _issue(empty_store, wp_code, "order-01")
    empty_store.run("UPDATE waybill_number SET is_taken = 0")
    second = _issue(empty_store, wp_code, "order-02")
    assert second != first and _take(empty_store, wp_code, "shop") is None


def test_numbers_that_are_on_waybills_are_passed_over_and_marked(
    empty_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    # More than are looked at first.
    monkeypatch.setattr(pools, "_LOOKED_AT", (4, 100))
    wp_code = new_carrier(empty_store, 110)
    every = [f"YT{n:013d}" for n in range(110)]
    _give(empty_store, wp_code, *every[:99], every[100])

    async def take(database: Database) -> list[Taken]:
        wanted = [(wp_code, "shop"), (wp_code, "other")]
        return await database.write(lambda transaction: take_numbers(transaction, wanted))

    assert empty_store.do(take) == [every[99], every[101]]
    (pool,) = empty_store.do(list_pools)
    assert (pool.taken, pool.left) == (102, 8)


def test_pools_give_each_shop_its_own_numbers_first_at_once(empty_store: Store) -> None:
    wp_code, other_code = (new_carrier(empty_store, 0) for _ in range(2))
    shared, of_shop, of_other, elsewhere = (
        [f"YT{pool}{n:012d}" for n in range(4)] for pool in range(1, 5)
    )
    load_numbers(empty_store, wp_code, shared)
    load_numbers(empty_store, wp_code, of_shop[:2], "shop")
    load_numbers(empty_store, wp_code, of_other, "other")
    load_numbers(empty_store, other_code, elsewhere[:1])
    wanted = [(wp_code, each) for each in ("shop", "other", "shop", "third", "shop", "fourth")]
    wanted += [(other_code, "shop"), (wp_code, "third"), (other_code, "shop")]

    async def take(database: Database) -> list[Taken]:
        return await database.write(lambda transaction: take_numbers(transaction, wanted))

    first_six = [of_shop[0], of_other[0], of_shop[1], *shared[:3]]
    assert empty_store.do(take) == [*first_six, elsewhere[0], shared[3], None]
    left = {(each.wp_code, each.owner_id): each.left for each in empty_store.do(list_pools)}
    of_pools = {(wp_code, None): 0, (wp_code, "shop"): 0, (wp_code, "other"): 3}
    assert left == {**of_pools, (other_code, None): 0}


@pytest.mark.parametrize("owner_id", [SHARED, "shop"])
def test_so_many_are_passed_over_in_one_transaction_and_the_next_goes_on(
    empty_store: Store, monkeypatch: pytest.MonkeyPatch, owner_id: str
) -> None:
    monkeypatch.setattr(pools, "_LOOKED_AT", (4, 8))
    wp_code, every = new_carrier(empty_store, 0), [f"YT{n:013d}" for n in range(110)]
    load_numbers(empty_store, wp_code, every, owner_id)
    _give(empty_store, wp_code, *every[:100])
    passed_over = [0]
    while isinstance(got := _take(empty_store, wp_code, "shop"), TryAgain):
        (pool,) = empty_store.do(list_pools)
        passed_over.append(pool.taken)
        # Those that are looked at, and one that is taken in each of three rounds.
        assert passed_over[-2] < pool.taken <= passed_over[-2] + 4 + 8 + 3
    assert got == every[100] and len(passed_over) > 6


def test_a_pool_whose_numbers_are_all_on_waybills_has_none(empty_store: Store) -> None:
    wp_code = new_carrier(empty_store, 3)
    _give(empty_store, wp_code, *(f"YT{n:013d}" for n in range(3)))
    assert _take(empty_store, wp_code, "shop") is None


def test_the_same_number_of_another_carrier_is_no_reason_to_pass_it_over(
    empty_store: Store,
) -> None:
    wp_code, other = (new_carrier(empty_store, 1) for _ in range(2))
    _give(empty_store, other, "YT0000000000000")
    assert _take(empty_store, wp_code, "shop") == "YT0000000000000"


def test_a_number_that_is_on_a_waybill_is_not_loaded(empty_store: Store) -> None:
    wp_code = new_carrier(empty_store, 1)
    given, new = "YT0000000000007", "YT0000000000008"
    _give(empty_store, wp_code, given)
    (rejected,) = load_numbers(empty_store, wp_code, [given, new])
    assert (rejected.position, str(rejected.reason)) == (1, "it was issued before")
    (pool,) = empty_store.do(list_pools)
    assert (pool.left, pool.taken) == (2, 0)


@pytest.mark.parametrize("has_index", [True, False])
def test_one_waybill_per_number_and_the_control(empty_store: Store, has_index: bool) -> None:
    wp_code = new_carrier(empty_store, 1)
    number = _issue(empty_store, wp_code, "order-01")
    if has_index:
        with pytest.raises(CONFLICTS, match=r"waybill[._]number"):
            _give(empty_store, wp_code, number)
    else:
        empty_store.run("DROP INDEX waybill_number_once")
        _give(empty_store, wp_code, number)
    assert len(_issued(empty_store)) == (1 if has_index else 2)


@pytest.mark.parametrize("has_index", [True, False])
def test_one_waybill_in_force_per_key_and_the_control(empty_store: Store, has_index: bool) -> None:
    wp_code = new_carrier(empty_store, 2)
    if not has_index:
        empty_store.run("DROP INDEX waybill_natural_key")
    _issue(empty_store, wp_code, "order-01")
    if has_index:
        with pytest.raises(CONFLICTS, match=r"waybill\.order_sn|waybill_natural_key"):
            _issue(empty_store, wp_code, "order-01")
    else:
        _issue(empty_store, wp_code, "order-01")
    assert len(_issued(empty_store)) == (1 if has_index else 2)


def test_loading_takes_few_commits(empty_store: Store) -> None:
    wp_code, metrics = new_carrier(empty_store, 0), Metrics()

    async def load() -> None:
        database = open_database(empty_store.url, metrics)
        numbers = (f"YT{n:013d}" for n in range(20_000))
        await add_numbers(database, wp_code, SHARED, numbers, lambda _: None)
        await database.close()

    asyncio.run(load())
    found = re.search(r"tollway_database_write_seconds_count (\S+)", metrics.render().decode())
    assert found is not None and 0 < float(found[1]) <= 20
    (pool,) = empty_store.do(list_pools)
    assert pool.left == 20_000


@pytest.mark.postgresql
def test_taking_a_number_goes_through_none_that_are_taken_or_another_pools(
    empty_store: Store,
) -> None:
    """Counted in blocks, in a table that was analysed when all of its numbers were free."""
    for statement in (
        "INSERT INTO waybill_number (wp_code, number, owner_id, is_taken) "
        f"SELECT 'YTO', 'YT' || lpad(n::text, 13, '0'), '', 0 FROM generate_series(1, {MANY}) AS n",
        "VACUUM ANALYZE waybill_number",
        f"UPDATE waybill_number SET is_taken = 1 WHERE number < 'YT{MANY // 2:013}'",
        "VACUUM waybill_number",
    ):
        empty_store.run(statement)
    assert _blocks_to_take(empty_store, SHARED) <= FEW_BLOCKS
    # A shop without numbers of its own is asked about first.
    assert _blocks_to_take(empty_store, "shop") <= FEW_BLOCKS


@pytest.mark.postgresql
def test_taking_a_number_goes_through_no_waybills_even_if_it_was_planned_when_there_were_few(
    empty_store: Store,
) -> None:
    empty_store.run(
        "INSERT INTO waybill_number (wp_code, number, owner_id, is_taken) "
        "VALUES ('YTO', 'Z', '', 0)"
    )
    waybills = (
        "INSERT INTO waybill (account_id, object_id, owner_id, order_sn, wp_code, state, number, "
        "price, asked_at_s, sealed) SELECT 'a', n::text, 's', n::text, 'YTO', 'issued', "
        f"'YT' || lpad(n::text, 13, '0'), 1, 0, '' FROM generate_series(1, {MANY}) AS n"
    )
    assert _blocks_to_take(empty_store, SHARED, waybills) <= FEW_BLOCKS


def _blocks_to_take(store: Store, owner_id: str, after_planning: str = "SELECT") -> int:
    """With the plan that a connection makes once and keeps."""

    async def work(database: PostgresqlDatabase) -> int:
        wanted = json.dumps([["YTO", owner_id, 1]])
        take = pools._TAKE_SHARED.postgresql.text.replace("$1", "$1::text")
        async with database._session() as session, session.transaction():
            await session.execute(f"PREPARE take AS {take}")
            await session.execute("SET LOCAL plan_cache_mode = force_generic_plan")
            await session.execute(f"EXPLAIN EXECUTE take('{wanted}')")
            await session.execute(after_planning)
            explained = await session.fetchval(
                f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE take('{wanted}')"
            )
            await session.execute("DEALLOCATE take")
        plan = json.loads(explained)[0]["Plan"]
        return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])

    return store.do(work)


@pytest.mark.sqlite
def test_in_a_file_that_was_analysed_taking_a_number_goes_through_no_others(
    empty_store: Store,
) -> None:
    """Counted in steps of SQLite's machine. An operator may run ANALYZE on the file."""
    wp_code = new_carrier(empty_store, MANY)
    before = _steps_to_take(empty_store, wp_code, SHARED)
    empty_store.run("ANALYZE")
    assert _steps_to_take(empty_store, wp_code, SHARED) <= 2 * before < MANY
    assert _steps_to_take(empty_store, wp_code, "shop") <= 2 * before
    (pool,) = empty_store.do(list_pools)
    assert pool.taken == 9


def _steps_to_take(store: Store, wp_code: str, owner_id: str) -> int:
    steps: list[int] = []

    async def take(transaction: Transaction) -> list[Taken]:
        raw = transaction._connection.raw
        raw.trace_v2(
            apsw.SQLITE_TRACE_PROFILE,
            lambda event: steps.append(event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]),
        )
        try:
            return await take_numbers(transaction, [(wp_code, owner_id)] * 3)
        finally:
            raw.trace_v2(0, None)

    async def work(database: Database) -> None:
        assert all(isinstance(each, str) for each in await database.write(take))

    store.do(work)
    return sum(steps)

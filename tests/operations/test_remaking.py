"""Ready records: they are the answer without what is each call's own, and can be made again."""

import asyncio
from datetime import date
from typing import Any

import asyncpg
import msgspec
import pytest
from sqlalchemy import text

from tests.support.all_operations import all_operations_caller, ask, good_request
from tests.support.gateway import Gateway
from tests.support.ledger import RUNTIME, new_caller
from tests.support.orders import sealer_of
from tests.support.stores import Store
from tollway.audit.check import Breach
from tollway.audit.product_analysis import DAY_PARTS
from tollway.intake.loading import store_records
from tollway.ledger.entries import top_up
from tollway.operations.catalogue import BY_NAME, SUBJECTS
from tollway.operations.product_analysis.ready_days import remake_all
from tollway.operations.product_analysis.schema import product_day_parts, product_figure
from tollway.operations.product_analysis.storage import FigureLoader, FigureRow
from tollway.operations.remaking import Remade, remake
from tollway.operations.subject import Subject
from tollway.store.database import Database, Transaction
from tollway.store.query import Query

READY = [each for each in SUBJECTS if each.ready is not None]


def remade(store: Store, subject: Subject) -> Remade:
    async def work(database: Database) -> Remade:
        assert subject.ready is not None
        return await remake(database, sealer_of(store), subject.ready)

    return store.do(work)


def ready_of(store: Store, subject: Subject) -> list[bytes]:
    assert subject.ready is not None
    return [bytes(row[0]) for row in store.run(f"SELECT ready FROM {subject.ready.table.name}")]


@pytest.mark.parametrize("subject", READY, ids=lambda each: each.operation.name)
def test_made_again_from_the_originals_ready_records_are_the_same(
    world: Store, subject: Subject
) -> None:
    before = ready_of(world, subject)
    assert before
    assert remade(world, subject) == Remade(len(before), 0)


@pytest.mark.parametrize("subject", READY, ids=lambda each: each.operation.name)
def test_records_that_were_made_by_other_rules_are_replaced_beside_the_traffic(
    world: Store, subject: Subject, today: date
) -> None:
    operation, caller = subject.operation, all_operations_caller(world)
    before = ready_of(world, subject)
    assert subject.ready is not None
    gateway = Gateway(world)
    try:
        asked = good_request(operation, today)
        right = ask(gateway, operation, caller.token, asked).data
        changed = ", ".join(f"{name} = substr({name}, 1, 5)" for name in subject.ready.columns)
        world.run(f"UPDATE {subject.ready.table.name} SET {changed}")
        assert remade(world, subject) == Remade(len(before), len(before))
        assert sorted(ready_of(world, subject)) == sorted(before)
        assert ask(gateway, operation, caller.token, asked).data == right
    finally:
        gateway.stop()


def test_parts_of_a_products_day_are_made_again_beside_the_traffic(
    world: Store, today: date
) -> None:
    operation, caller = BY_NAME["product_analysis"], all_operations_caller(world)
    before = sorted(world.run("SELECT * FROM product_day_parts"))
    assert len(before) == 2
    assert world.do(remake_all) == Remade(2, 0)
    gateway = Gateway(world)
    try:
        asked = good_request(operation, today)
        world.run("UPDATE product_day_parts SET sources = keywords")
        wrong = ask(gateway, operation, caller.token, asked).data
        world.run("DELETE FROM product_day_parts WHERE day = (SELECT min(day) FROM product_day)")
        world.run(
            "INSERT INTO product_day_parts SELECT 'none', day, sources, keywords, searches "
            "FROM product_day_parts"
        )
        assert world.do(remake_all) == Remade(3, 3)
        assert sorted(world.run("SELECT * FROM product_day_parts")) == before
        right = ask(gateway, operation, caller.token, asked).data
    finally:
        gateway.stop()
    assert wrong["trafficSource"] == wrong["keywords"] == right["keywords"]
    assert right["trafficSource"] not in ([], wrong["trafficSource"])


WAITING = Query(
    text(
        "SELECT FROM pg_stat_activity "
        "WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
)


def source(visitors: int, name: str = "x") -> FigureRow:
    return product_figure, ("busy", 20260101, "source", name, visitors, 1, 1, 1)


async def someone_waits(database: Database) -> None:
    async with asyncio.timeout(30):
        while not await database.fetch_all(WAITING):
            pass


@pytest.mark.postgresql
def test_of_two_loads_at_once_the_later_one_makes_parts_of_the_figures_of_both(
    world: Store,
) -> None:
    async def work(database: Database) -> list[Breach]:
        await store_records(database, FigureLoader(), [source(10)])
        is_stored, may_commit = asyncio.Event(), asyncio.Event()

        async def load(transaction: Transaction) -> None:
            await FigureLoader().store(transaction, [source(20)])
            is_stored.set()
            await may_commit.wait()

        loading = asyncio.create_task(database.write(load))
        await is_stored.wait()
        later = asyncio.create_task(store_records(database, FigureLoader(), [source(5, "y")]))
        await someone_waits(database)
        may_commit.set()
        await asyncio.gather(loading, later)
        return (await DAY_PARTS.run(database, 0))[1]

    assert world.do(work) == []


@pytest.mark.postgresql
def test_while_a_load_makes_parts_a_balance_can_be_topped_up(world: Store) -> None:
    caller = new_caller(world)

    async def work(database: Database) -> None:
        await store_records(database, FigureLoader(), [source(10)])
        connection = await asyncpg.connect(world.url)
        async with connection.transaction():
            await connection.execute("SELECT FROM product_day_parts FOR UPDATE")
            loading = asyncio.create_task(store_records(database, FigureLoader(), [source(30)]))
            await someone_waits(database)
            async with asyncio.timeout(8):
                await top_up(database, RUNTIME, caller.account_id, "credits", 1)
            assert not loading.done()
        await loading
        await connection.close()

    world.do(work)


@pytest.mark.postgresql
def test_parts_are_not_made_again_of_figures_that_a_load_is_just_changing(world: Store) -> None:
    async def work(database: Database) -> list[Breach]:
        await store_records(database, FigureLoader(), [source(10)])
        await database.write_statement(Query(product_day_parts.update().values(keywords=b"[1]")))
        is_stored, may_commit = asyncio.Event(), asyncio.Event()

        async def load(transaction: Transaction) -> None:
            await FigureLoader().store(transaction, [source(20)])
            is_stored.set()
            await may_commit.wait()

        loading = asyncio.create_task(database.write(load))
        await is_stored.wait()
        remaking = asyncio.create_task(remake_all(database))
        async with asyncio.timeout(30):
            while not remaking.done() and not await database.fetch_all(WAITING):
                pass
        may_commit.set()
        await asyncio.gather(loading, remaking)
        return (await DAY_PARTS.run(database, 0))[1]

    assert world.do(work) == []


@pytest.mark.parametrize("name", ["orders", "coupon_claims", "promotion_material"])
def test_an_answer_of_joined_records_is_of_the_response_type(
    world: Store, name: str, today: date
) -> None:
    operation, caller = BY_NAME[name], all_operations_caller(world)
    gateway = Gateway(world)
    try:
        data: Any = ask(gateway, operation, caller.token, good_request(operation, today)).data
    finally:
        gateway.stop()
    # Of exactly these fields, in this order.
    typed = msgspec.convert(data, operation.response_type)
    assert msgspec.to_builtins(typed) == data
    assert msgspec.json.encode(typed) == msgspec.json.encode(data)

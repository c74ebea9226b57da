"""A database to move, and what tests of moving compare."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from datetime import date, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import apsw
import asyncpg
from sqlalchemy import Table

from tests.support.postgresql import run_on
from tollway.ledger.accounts import open_account
from tollway.ledger.entries import top_up
from tollway.ledger.permissions import Permission, add_permission
from tollway.ledger.runtime import Runtime
from tollway.ledger.tokens import issue_token
from tollway.ledger.usage import day_start_s
from tollway.operations.catalogue import ALL_TABLES
from tollway.operations.demo_data import DemoTarget
from tollway.operations.orders.demo import fill_orders
from tollway.operations.product_analysis.demo import fill_figures
from tollway.store.migrate import migrate
from tollway.store.open import OpenDatabase, open_database, open_sealer
from tollway.store.schema.ledger import operator_act
from tollway.telemetry.metrics import Metrics

ZONE = ZoneInfo("Asia/Shanghai")
DAY = date(2026, 1, 31)
FROM = "sqlite:///old.db"


def in_source(work: Callable[[OpenDatabase], Awaitable[object]]) -> None:
    """Does something in the database that is to be moved; makes it if there is none."""

    async def run() -> None:
        database = open_database(FROM, Metrics())
        try:
            await migrate(database)
            await work(database)
        finally:
            await database.close()

    asyncio.run(run())


async def fill(database: OpenDatabase) -> None:
    """Something of most kinds."""
    runtime = Runtime()
    await fill_figures(database, products=2, days=3, last=DAY)
    sealer = open_sealer(FROM, "")
    first, now_s = DAY - timedelta(days=365), day_start_s(DAY, ZONE)
    target = DemoTarget(database, sealer, now_s, ZONE, "http://127.0.0.1:8080")
    await fill_orders(target, 400, first)
    account = (await open_account(database, runtime, "Blue Harbour")).id
    await add_permission(database, account, Permission("product_analysis", None, None))
    await top_up(database, runtime, account, "calls:product_analysis", 5, "for a start")
    await issue_token(database, runtime, account, label="till")


def _rows(path: Path, url: str) -> Iterator[tuple[Table, list[str], list[str]]]:
    """All rows of each table on both sides, read in a way of the test's own."""
    connection = apsw.Connection(str(path))
    with asyncio.Runner() as runner:
        other = runner.run(asyncpg.connect(url))
        for table in ALL_TABLES:
            columns = ", ".join(f'"{column.name}"' for column in table.c)
            every = f"SELECT {columns} FROM {table.name}"
            here = connection.execute(every).fetchall()
            there = map(tuple, runner.run(other.fetch(every)))
            yield table, sorted(map(repr, here)), sorted(map(repr, there))
        runner.run(other.close())
    connection.close()


def assert_same(path: Path, url: str) -> None:
    for table, here, there in _rows(path, url):
        if table is operator_act:
            # The move itself is recorded where it went.
            copied = [row for row in there if "'move', 'database'" not in row]
        else:
            copied = there
        assert here == copied, table.name


def unfinish(url: str, old: Path) -> None:
    """As if the move had been broken off after its last row."""
    run_on(
        url,
        "ALTER TABLE operator_act DISABLE TRIGGER USER",
        "DELETE FROM operator_act WHERE act = 'move'",
        "ALTER TABLE operator_act ENABLE TRIGGER USER",
        "CREATE TABLE unfinished_move (source text)",
        f"INSERT INTO unfinished_move VALUES ('{old.resolve()}')",
    )

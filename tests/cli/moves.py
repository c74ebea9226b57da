"""A database to move, and what tests of moving compare."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import date, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import apsw

from tests.support.postgresql import run_on
from tollway.ledger.accounts import open_account
from tollway.ledger.entries import top_up
from tollway.ledger.permissions import Permission, grant
from tollway.ledger.runtime import Runtime
from tollway.ledger.tokens import issue_token
from tollway.operations.catalogue import ALL_TABLES
from tollway.operations.demo_data import midnight_s
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
    first, now_s = DAY - timedelta(days=365), midnight_s(DAY, ZONE)
    await fill_orders(database, sealer, per_year=400, first=first, now_s=now_s, zone=ZONE)
    account = (await open_account(database, runtime, "Blue Harbour")).id
    await grant(database, account, Permission("product_analysis", None, None))
    await top_up(database, runtime, account, "calls:product_analysis", 5, "for a start")
    await issue_token(database, runtime, account, label="till")


def _rows(name: str, columns: str, path: Path, url: str) -> tuple[list[str], list[str]]:
    """All rows of a table on both sides, read in a way of the test's own."""
    connection = apsw.Connection(str(path))
    here = connection.execute(f"SELECT {columns} FROM {name}").fetchall()
    connection.close()
    return sorted(map(repr, here)), sorted(map(repr, run_on(url, f"SELECT {columns} FROM {name}")))


def assert_same(path: Path, url: str) -> None:
    for table in ALL_TABLES:
        columns = ", ".join(f'"{column.name}"' for column in table.c)
        here, there = _rows(table.name, columns, path, url)
        if table is operator_act:
            # The move itself is recorded where it went.
            there = [row for row in there if "'move', 'database'" not in row]
        assert here == there, table.name


def unfinish(url: str, old: Path) -> None:
    """As if the move had been broken off after its last row."""
    run_on(url, "ALTER TABLE operator_act DISABLE TRIGGER USER")
    run_on(url, "DELETE FROM operator_act WHERE act = 'move'")
    run_on(url, "ALTER TABLE operator_act ENABLE TRIGGER USER")
    run_on(url, "CREATE TABLE unfinished_move (source text)")
    run_on(url, f"INSERT INTO unfinished_move VALUES ('{old.resolve()}')")

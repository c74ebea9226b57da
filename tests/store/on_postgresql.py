"""What tests of the shared engine do with it."""

import asyncio
from time import monotonic

from tests.support.any_rows import ADD
from tollway.store.database import Transaction
from tollway.store.postgresql.change_listener import _POLLS_PER_S
from tollway.store.postgresql.database import PostgresqlDatabase
from tollway.telemetry.metrics import Metrics

DEADLINE_S = 20


def opened(url: str, call_timeout_s: float | None = None) -> PostgresqlDatabase:
    return PostgresqlDatabase(url, call_timeout_s, Metrics())


async def add(transaction: Transaction, name: str = "a") -> None:
    await transaction.execute(ADD, product_id=name)


async def until_changed(database: PostgresqlDatabase, before: object) -> None:
    began_s = monotonic()
    while database.change_mark() == before:
        assert monotonic() - began_s < DEADLINE_S
        await asyncio.sleep(0.01)


async def settled(database: PostgresqlDatabase) -> object:
    """The mark once the listener is there: it has no time in it, and stays the same for longer than
    a deaf one would."""
    began_s = monotonic()
    while True:
        mark = database.change_mark()
        if not isinstance(mark, tuple):
            await asyncio.sleep(1.5 / _POLLS_PER_S)
            if database.change_mark() == mark:
                return mark
        assert monotonic() - began_s < DEADLINE_S
        await asyncio.sleep(0.01)

"""A command opens one connection to a file for each kind of work that it does; a gateway has all
from its start."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from tests.support.stores import Store
from tollway.store.database import NoTimings, StoreUnavailableError, Transaction
from tollway.store.open import OpenDatabase, open_database
from tollway.store.query import Query
from tollway.store.schema.database import schema_floor
from tollway.store.sqlite import database as database_module
from tollway.store.sqlite import writer as writer_module
from tollway.store.sqlite.connection import Connection

pytestmark = pytest.mark.sqlite
_READ = Query(lambda: select(schema_floor.c.revision))


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Connection]:
    """Those that were opened since."""
    made: list[Connection] = []

    class Noted(Connection):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            made.append(self)

    for module in (database_module, writer_module):
        monkeypatch.setattr(module, "Connection", Noted)
    return made


async def _nothing(_: Transaction) -> None:
    pass


def test_a_command_opens_each_when_it_first_uses_it(
    own_store: Store, opened: list[Connection]
) -> None:
    async def work(database: OpenDatabase) -> list[int]:
        counts = [len(opened)]
        for _ in range(2):
            rows = await database.fetch_all(_READ)
            counts.append(len(opened))
        for _ in range(2):
            await database.write(_nothing)
            counts.append(len(opened))
        for _ in range(2):
            assert await database.fetch_long(_READ) == rows
            counts.append(len(opened))
        return counts

    assert own_store.do(work) == [1, 1, 1, 2, 2, 3, 3]


def test_a_gateway_opens_all_at_once(own_store: Store, opened: list[Connection]) -> None:
    async def work() -> list[int]:
        database = open_database(own_store.url, NoTimings(), call_timeout_s=1)
        counts = [len(opened)]
        await database.write(_nothing)
        await database.fetch_long(_READ)
        await database.close()
        return [*counts, len(opened)]

    assert asyncio.run(work()) == [3, 3]


def test_a_long_read_makes_no_new_file_in_place_of_one_that_was_moved(own_store: Store) -> None:
    moved = own_store.path.with_name("moved.db")

    async def work(database: OpenDatabase) -> None:
        await database.fetch_all(_READ)
        own_store.path.rename(moved)
        with pytest.raises(StoreUnavailableError, match="was moved"):
            await database.fetch_long(_READ)

    own_store.do(work)
    assert not Path(own_store.path).exists()

"""What was asked of a replica before it was lost says nothing about the one after it."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from sqlalchemy import select

from tests.support.stores import Store
from tollway.store.cache_versions import Versions
from tollway.store.database import Row, StoreUnavailableError
from tollway.store.postgresql import replica as replica_module
from tollway.store.postgresql.database import PostgresqlDatabase
from tollway.store.postgresql.replica import ReadingDatabase
from tollway.store.query import Query
from tollway.store.schema.database import version
from tollway.telemetry.metrics import Metrics

pytestmark = pytest.mark.postgresql

ANYTHING = Query(select(version.c.figures))
LAG_S = 60
PATIENCE_S = 30


class Replica(PostgresqlDatabase):
    """A database that is read from. Where it is comes late, one answer after the other."""

    is_lost = False

    def __init__(self, url: str) -> None:
        super().__init__(url, 5, Metrics(), session="any")
        self.reads = 0
        self.answers: asyncio.Queue[None] = asyncio.Queue()
        self.let_go = asyncio.Semaphore(0)

    async def fetch_one(self, query: Query, **values: object) -> Row | None:
        row = await super().fetch_one(query, **values)
        if row is not None and len(row) > 1:
            self.answers.put_nowait(None)
            await self.let_go.acquire()
        return row

    async def fetch_all(self, query: Query, **values: object) -> Sequence[Row]:
        if self.is_lost:
            raise StoreUnavailableError("it is away")
        self.reads += 1
        return await super().fetch_all(query, **values)


@pytest.mark.parametrize("is_lost", [True, False])
def test_an_answer_of_before_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_lost: bool
) -> None:
    monkeypatch.setattr(replica_module, "_ANSWER_TIMEOUT_S", PATIENCE_S)
    store = Store(tmp_path / "tollway.db")

    async def work() -> int:
        primary, replica = PostgresqlDatabase(store.url, 5, Metrics()), Replica(store.url)
        reading = ReadingDatabase(primary, replica, Versions(primary), LAG_S)
        try:
            async with asyncio.timeout(PATIENCE_S):
                await reading.fetch_all(ANYTHING)
                # The first answer is that of a new connection, and says nothing about those before
                # it. Each question comes when the one before is done with.
                for _ in range(2):
                    await replica.answers.get()
                    replica.let_go.release()
                await replica.answers.get()
                before = replica.reads
                await reading.fetch_all(ANYTHING)
                assert replica.reads == before + 1, "it is read from"
                replica.is_lost = is_lost
                await reading.fetch_all(ANYTHING)
                replica.is_lost = False
                replica.let_go.release()
                await replica.answers.get()
                before = replica.reads
                await reading.fetch_all(ANYTHING)
                return replica.reads - before
        finally:
            replica.let_go.release()
            await reading.close()
            await primary.close()

    assert asyncio.run(work()) == (0 if is_lost else 1)


class Ahead(PostgresqlDatabase):
    """A replica with some more in its log."""

    more = 0

    async def fetch_one(self, query: Query, **values: object) -> Row | None:
        row = await super().fetch_one(query, **values)
        return row and (*row[:-1], row[-1] + self.more)


def test_a_replica_that_has_what_a_failover_has_lost_is_not_read_from(tmp_path: Path) -> None:
    store = Store(tmp_path / "tollway.db")

    async def work() -> None:
        primary = PostgresqlDatabase(store.url, 5, Metrics())
        replica = Ahead(store.url, 5, Metrics(), session="any")
        reading = ReadingDatabase(primary, replica, Versions(primary), LAG_S)
        try:
            # The first time it has a new connection, which says nothing about those before it.
            for _ in range(2):
                await reading._catch_up()
            assert reading.is_used
            replica.more = 2**40
            with pytest.raises(StoreUnavailableError, match="never had"):
                await reading._catch_up()
            assert not reading.is_used
        finally:
            await reading.close()
            await primary.close()

    asyncio.run(work())

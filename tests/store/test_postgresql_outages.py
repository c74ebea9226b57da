"""The shared engine when a server goes away: calls fail at once, and it recovers by itself."""

import asyncio
import socket
from time import monotonic

import pytest
from sqlalchemy import func, select

from tests.store.on_postgresql import DEADLINE_S, add, opened, settled, until_changed
from tests.support.any_rows import stored
from tests.support.pair import Pair
from tests.support.ports import free_port
from tests.support.postgresql import Server, run_on
from tollway.store.database import StoreUnavailableError
from tollway.store.migrate import migrate
from tollway.store.postgresql import hosts
from tollway.store.postgresql.database import PostgresqlDatabase
from tollway.store.query import Query

pytestmark = pytest.mark.postgresql

# Less than a single host is waited for.
AT_ONCE_S = 9
WHERE_FROM = Query(select(func.inet_server_port()))
RELOAD = "SELECT pg_reload_conf()"


async def until_back(database: PostgresqlDatabase) -> None:
    """That the hosts cannot be reached is remembered for a moment."""
    began_s = monotonic()
    while True:
        try:
            await stored(database)
            return
        except StoreUnavailableError:
            assert monotonic() - began_s < DEADLINE_S
            await asyncio.sleep(0.01)


async def test_an_outage_is_reported_at_once_and_ends_by_itself(server: Server) -> None:
    database = opened(server.url)
    await migrate(database)
    await database.write(add)
    await asyncio.to_thread(server.stop)
    for attempt in (stored, lambda each: each.write(lambda tx: add(tx, "lost"))):
        began_s = monotonic()
        with pytest.raises(StoreUnavailableError):
            await attempt(database)
        assert monotonic() - began_s < AT_ONCE_S
    # Nothing is vouched for.
    await until_changed(database, database.change_mark())
    await asyncio.to_thread(server.start)
    await until_back(database)
    assert await stored(database) == 1
    await database.write(lambda tx: add(tx, "b"))
    assert await stored(database) == 2
    await database.close()


def test_an_outage_is_logged_once_with_its_host_and_so_is_its_end(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="tollway.store")

    def lines() -> list[str]:
        return [record.getMessage() for record in caplog.records]

    async def until_logged(part: str) -> None:
        began_s = monotonic()
        while not any(part in line for line in lines()):
            assert monotonic() - began_s < DEADLINE_S, (part, lines())
            await asyncio.sleep(0.01)

    async def work() -> None:
        database = opened(server.url)
        await migrate(database)
        await settled(database)
        await asyncio.to_thread(server.stop)
        refused = f"polling for them instead: 127.0.0.1:{server.port}: connection refused"
        await until_logged(refused)
        # The listener tries as often as the mark changes meanwhile.
        for _ in range(6):
            await until_changed(database, database.change_mark())
        assert sum(refused in line for line in lines()) == 1
        await asyncio.to_thread(server.start)
        await until_logged("notifications of changes are back, after ")
        await database.close()

    asyncio.run(work())


def test_the_next_host_is_used_when_one_is_away_or_only_read(server: Server) -> None:
    away = free_port()
    url = server.url.replace("@127.0.0.1", f"@127.0.0.1:{away},127.0.0.1")

    async def work() -> None:
        database = opened(url)
        await migrate(database)
        await database.write(add)
        await database.close()
        run_on_server = "ALTER DATABASE postgres SET default_transaction_read_only = on"
        await asyncio.to_thread(run_on, server.url, run_on_server)
        refused = opened(url)
        with pytest.raises(StoreUnavailableError) as error:
            await refused.write(add)
        # Of every host, which it is and why it would not do.
        assert str(error.value).split("; ") == [
            f"127.0.0.1:{away}: connection refused",
            f"127.0.0.1:{server.port}: it takes no writes",
        ]
        await refused.close()

    asyncio.run(work())


def test_no_connection_is_kept_to_a_primary_that_takes_no_more_writes() -> None:
    pair = Pair(is_synchronous=False)

    async def work() -> None:
        database = opened(pair.url)
        await migrate(database)
        before = await asyncio.gather(*(database.fetch_one(WHERE_FROM) for _ in range(5)))
        assert set(before) == {(pair.primary.port,)}
        for fence in ("ALTER SYSTEM SET default_transaction_read_only = on", RELOAD):
            await asyncio.to_thread(run_on, pair.primary.url, fence)
        await asyncio.to_thread(run_on, pair.standby.url, "SELECT pg_promote(wait => true)")
        began_s = monotonic()
        while True:
            try:
                await database.write(lambda tx: add(tx, "b"))
                break
            except StoreUnavailableError:
                assert monotonic() - began_s < DEADLINE_S
                await asyncio.sleep(0.01)
        after = await asyncio.gather(*(database.fetch_one(WHERE_FROM) for _ in range(5)))
        assert set(after) == {(pair.standby.port,)}
        await database.close()

    try:
        asyncio.run(work())
    finally:
        pair.remove()


def test_while_no_host_answers_one_is_tried_and_other_tasks_fail_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The hosts take connections and say nothing, as one does that swallows packets."""
    monkeypatch.setattr(hosts, "_HOST_TIMEOUT_S", 1.0)
    silent = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    ports = ",".join(f"127.0.0.1:{each.getsockname()[1]}" for each in silent)

    async def attempt(database: PostgresqlDatabase) -> float:
        began_s = monotonic()
        with pytest.raises(StoreUnavailableError, match="no answer within 1 s; 127"):
            await stored(database)
        return monotonic() - began_s

    async def work() -> None:
        # As a gateway does, which has a limit for each of the two.
        database = opened(f"postgresql://postgres@{ports}/postgres", 2)
        await attempt(database)
        await asyncio.sleep(0.2)
        times = await asyncio.gather(*(attempt(database) for _ in range(50)))
        assert sum(each > 1.5 for each in times) == 1
        await database.close()

    asyncio.run(work())
    for each in silent:
        each.close()

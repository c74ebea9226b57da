"""The shared engine: what comes in its way, and what it does when the server goes away."""

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import asyncpg
import pytest
from sqlalchemy import bindparam, func, select

from tests.support.pair import Pair
from tests.support.ports import free_port
from tests.support.postgresql import Server, new_database, run_on
from tests.support.stores import Store
from tollway.store.database import (
    StoreBusyError,
    StoreDoubtError,
    StoreError,
    StoreUnavailableError,
    Transaction,
)
from tollway.store.migrate import migrate, newest_revision
from tollway.store.open import key_path, without_password
from tollway.store.postgresql.database import PostgresqlDatabase
from tollway.store.postgresql.urls import unverified_hosts, urls_by_host
from tollway.store.query import Query
from tollway.store.schema import product
from tollway.store.versions import Versions, directory_changed, figures_changed, write_nothing_new
from tollway.telemetry.metrics import Metrics

pytestmark = pytest.mark.postgresql

DEADLINE_S = 20
# Less than a single host is waited for.
AT_ONCE_S = 9
TRIES = 5
ADD = Query(
    product.insert().values(
        product_id=bindparam("product_id"), title="t", picture_url="", shop_name="s"
    )
)
COUNT = Query(select(func.count()).select_from(product))
SLEEP = Query(select(func.pg_sleep(30)))
WHERE_FROM = Query(select(func.inet_server_port()))
CANCEL = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
RELOAD = "SELECT pg_reload_conf()"
NAMES = Query(select(product.c.product_id).order_by(product.c.product_id))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "tollway.db")


@pytest.fixture
def server() -> Iterator[Server]:
    """A server for one test alone, which may stop it."""
    made = Server()
    yield made
    made.remove()


def opened(url: str, call_timeout_s: float | None = None) -> PostgresqlDatabase:
    return PostgresqlDatabase(url, call_timeout_s, Metrics())


async def add(transaction: Transaction, name: str = "a") -> None:
    await transaction.execute(ADD, product_id=name)


async def count(database: PostgresqlDatabase) -> int:
    row = await database.fetch_one(COUNT)
    assert row is not None
    return int(row[0])


async def until_changed(database: PostgresqlDatabase, before: object) -> None:
    began_s = monotonic()
    while database.change_mark() == before:
        assert monotonic() - began_s < DEADLINE_S
        await asyncio.sleep(0.01)


async def settled(database: PostgresqlDatabase) -> object:
    """The mark once the listener is there: it stays the same for longer than a deaf one would."""
    began_s = monotonic()
    while True:
        mark = database.change_mark()
        await asyncio.sleep(1.6)
        if database.change_mark() == mark:
            return mark
        assert monotonic() - began_s < DEADLINE_S


async def until_back(database: PostgresqlDatabase) -> None:
    """That the hosts cannot be reached is remembered for a moment."""
    began_s = monotonic()
    while True:
        try:
            await count(database)
            return
        except StoreUnavailableError:
            assert monotonic() - began_s < DEADLINE_S
            await asyncio.sleep(0.01)


def test_two_that_do_the_same_at_once_are_done_one_after_the_other(store: Store) -> None:
    async def work(database: PostgresqlDatabase) -> None:
        met = asyncio.Barrier(2)
        runs = 0

        async def add_if_none(transaction: Transaction) -> bool:
            nonlocal runs
            runs += 1
            (found,) = await transaction.fetch_one(COUNT) or (0,)
            if runs <= 2:
                await met.wait()
            if found:
                return False
            await add(transaction)
            return True

        done = await asyncio.gather(*(database.write(add_if_none) for _ in range(2)))
        assert sorted(done) == [False, True]
        assert (await count(database), runs) == (1, 3)

    store.do(work)


def test_two_that_wait_for_each_other_both_get_done(store: Store) -> None:
    store.do(lambda database: database.write(lambda tx: add(tx, "x")))
    store.do(lambda database: database.write(lambda tx: add(tx, "y")))
    touch = Query(
        product.update().where(product.c.product_id == bindparam("its")).values(title="changed")
    )

    async def work(database: PostgresqlDatabase) -> None:
        met, runs = asyncio.Barrier(2), 0

        async def both(transaction: Transaction, names: tuple[str, str]) -> None:
            nonlocal runs
            runs += 1
            await transaction.execute(touch, its=names[0])
            if runs <= 2:
                await met.wait()
            await transaction.execute(touch, its=names[1])

        await asyncio.gather(
            database.write(lambda tx: both(tx, ("x", "y"))),
            database.write(lambda tx: both(tx, ("y", "x"))),
        )
        # The server ended one of the two, or both in turn: a row that is let go may be taken again
        # by the one that was ended before the other, which waits for it, wakes up.
        assert runs >= 3

    store.do(work)


def test_text_is_in_the_order_of_its_bytes(store: Store) -> None:
    names = ["B", "a", "Z", "ä", "b", "_", "中", "0"]

    async def work(database: PostgresqlDatabase) -> None:
        for name in names:
            await database.write(lambda tx, name=name: add(tx, name))  # type: ignore[misc]
        found = [row[0] for row in await database.fetch_all(NAMES)]
        assert found == sorted(names, key=str.encode)

    store.do(work)
    columns = store.run(
        "SELECT DISTINCT collation_name FROM information_schema.columns "
        "WHERE table_schema = 'public' AND data_type = 'character varying' "
        "AND table_name <> 'alembic_version'"
    )
    assert columns == [("C",)]


def test_nodes_that_start_together_migrate_once() -> None:
    url = new_database(is_migrated=False)

    async def work() -> None:
        nodes = [opened(url) for _ in range(4)]
        found = await asyncio.gather(*map(migrate, nodes))
        newest = newest_revision()
        assert sorted(before or "" for before, _ in found) == ["", newest, newest, newest]
        await asyncio.gather(*(node.close() for node in nodes))

    asyncio.run(work())


def test_a_change_by_anybody_is_heard_and_others_are_not(store: Store) -> None:
    async def work(database: PostgresqlDatabase) -> None:
        # A process that is held up for a moment hears nothing meanwhile, and must not vouch for it;
        # but that does not happen every time.
        for attempt in range(TRIES):
            if await _is_left_in_peace(database, f"a{attempt}"):
                break
        else:
            pytest.fail("what changes no version is taken for a change")
        other = opened(store.url)
        for change in (directory_changed, figures_changed):
            before = database.change_mark()
            await other.write(change)
            await until_changed(database, before)
        await other.close()

    store.do(work)


async def _is_left_in_peace(database: PostgresqlDatabase, name: str) -> bool:
    """Whether what is kept in memory stays good through writes that change no version."""
    versions = Versions(database)
    before = await settled(database)
    await versions.refresh()
    await database.write(lambda tx: add(tx, name))
    await database.write(write_nothing_new)
    with pytest.raises(LookupError):
        await database.write(_change_and_fail)
    await asyncio.sleep(0.2)
    return database.change_mark() == before and versions.is_fresh


async def _change_and_fail(transaction: Transaction) -> None:
    await directory_changed(transaction)
    raise LookupError


def test_a_listener_that_was_cut_off_comes_back_and_vouches_for_nothing_meanwhile(
    store: Store,
) -> None:
    async def work(database: PostgresqlDatabase) -> None:
        before = await settled(database)
        cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE "
        cut += "application_name = 'tollway' AND datname = current_database()"
        await asyncio.to_thread(run_on, store.url, cut)
        await until_changed(database, before)
        again = await settled(database)
        await database.write(directory_changed)
        await until_changed(database, again)

    store.do(work)


def test_an_outage_is_told_at_once_and_ends_by_itself(server: Server) -> None:
    async def work() -> None:
        database = opened(server.url)
        await migrate(database)
        await database.write(add)
        await asyncio.to_thread(server.stop)
        for attempt in (count, lambda each: each.write(lambda tx: add(tx, "lost"))):
            began_s = monotonic()
            with pytest.raises(StoreUnavailableError):
                await attempt(database)
            assert monotonic() - began_s < AT_ONCE_S
        # Nothing is vouched for.
        await until_changed(database, database.change_mark())
        await asyncio.to_thread(server.start)
        await until_back(database)
        assert await count(database) == 1
        await database.write(lambda tx: add(tx, "b"))
        assert await count(database) == 2
        await database.close()

    asyncio.run(work())


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
        refused = f"looked for instead: 127.0.0.1:{server.port}: connection refused"
        await until_logged(refused)
        # The listener tries as often as the mark changes meanwhile.
        for _ in range(6):
            await until_changed(database, database.change_mark())
        assert sum(refused in line for line in lines()) == 1
        await asyncio.to_thread(server.start)
        await until_logged("changes are heard of again, after ")
        await database.close()

    asyncio.run(work())


def test_a_connection_lost_during_a_commit_leaves_a_doubt(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lose(transaction: asyncpg.transaction.Transaction) -> None:
        raise asyncpg.ConnectionDoesNotExistError("connection was closed")

    async def work(database: PostgresqlDatabase) -> None:
        with monkeypatch.context() as broken:
            broken.setattr(asyncpg.transaction.Transaction, "commit", lose)
            with pytest.raises(StoreDoubtError):
                await database.write(add)
        await database.write(lambda tx: add(tx, "b"))

    store.do(work)


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
        with pytest.raises(StoreUnavailableError) as told:
            await refused.write(add)
        # Of every host, which it is and why it would not do.
        assert str(told.value).split("; ") == [
            f"127.0.0.1:{away}: connection refused",
            f"127.0.0.1:{server.port}: it takes no writes",
        ]
        await refused.close()

    asyncio.run(work())


def test_who_finds_no_free_connection_is_told_so(store: Store) -> None:
    async def work() -> None:
        database = PostgresqlDatabase(store.url, 2, Metrics(), connections=1)
        assert await count(database) == 0
        # From now on nobody has to connect, only to find the connection free.
        database._patience_s = 0.1
        slow = asyncio.ensure_future(database.fetch_one(SLEEP))
        await asyncio.sleep(0)
        with pytest.raises(StoreBusyError, match="in use"):
            await count(database)
        with pytest.raises(StoreBusyError, match="statement timeout"):
            await slow
        assert await count(database) == 0
        await database.close()

    asyncio.run(work())


def test_a_commit_that_did_not_wait_for_the_standby_leaves_a_doubt() -> None:
    """It is on the primary alone then, and a failover would lose it."""
    pair = Pair(is_synchronous=True)

    async def work() -> None:
        impatient, patient = opened(pair.primary.url, 1), opened(pair.primary.url)
        await migrate(patient)
        await patient.write(add)
        with pair.standby.held():
            with pytest.raises(StoreDoubtError):
                await impatient.write(lambda tx: add(tx, "b"))
            waiting = asyncio.create_task(patient.write(lambda tx: add(tx, "c")))
            while not waiting.done():
                await asyncio.to_thread(run_on, pair.primary.url, CANCEL)
            with pytest.raises(StoreDoubtError, match="synchronous replication"):
                await waiting
            assert await count(patient) == 3, "the server itself holds both for committed"
        await patient.write(lambda tx: add(tx, "d"))
        await asyncio.gather(impatient.close(), patient.close())

    try:
        asyncio.run(work())
    finally:
        pair.remove()


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


def test_while_no_host_answers_one_is_tried_and_the_others_are_told_at_once() -> None:
    """The hosts take connections and say nothing, as one does that swallows packets."""
    silent = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    ports = ",".join(f"127.0.0.1:{each.getsockname()[1]}" for each in silent)

    async def attempt(database: PostgresqlDatabase) -> float:
        began_s = monotonic()
        with pytest.raises(StoreUnavailableError, match="no answer within 2 s; 127"):
            await count(database)
        return monotonic() - began_s

    async def work() -> None:
        # As a gateway does: 2 s for each of the two.
        database = opened(f"postgresql://postgres@{ports}/postgres", 2)
        await attempt(database)
        await asyncio.sleep(0.2)
        times = await asyncio.gather(*(attempt(database) for _ in range(50)))
        assert sum(each > 3 for each in times) == 1
        await database.close()

    asyncio.run(work())
    for each in silent:
        each.close()


def test_nobody_is_told_a_password() -> None:
    url = "postgresql://me:secret@one:5432,two:5433/books?sslmode=require"
    assert without_password(url) == "postgresql://me@one:5432,two:5433/books"
    assert urls_by_host(url) == [
        "postgresql://me:secret@one:5432/books?sslmode=require",
        "postgresql://me:secret@two:5433/books?sslmode=require",
    ]


@pytest.mark.parametrize(
    ("rest", "unverified"),
    [
        ("me@localhost,127.0.0.2:1,[::1]:1/books", []),
        ("/books", []),
        ("me@%2Frun%2Fpostgresql/books", []),
        ("/books?host=/run/postgresql", []),
        ("me@127.0.0.1:1,db1:1,db2/books", ["db1", "db2"]),
        ("me@10.0.0.1,[fd00::1]:1/books", ["10.0.0.1", "fd00::1"]),
        ("/books?host=db1", ["db1"]),
        ("db1/books?sslmode=require", ["db1"]),
        ("db1/books?sslmode=verify-ca", ["db1"]),
        ("db1/books?sslmode=verify-full", []),
    ],
)
def test_hosts_elsewhere_must_prove_who_they_are(rest: str, unverified: list[str]) -> None:
    assert unverified_hosts(f"postgresql://{rest}") == unverified


def test_the_key_file_must_be_named() -> None:
    with pytest.raises(StoreError, match="set key_file to a file"):
        key_path("postgresql://localhost/books", "")

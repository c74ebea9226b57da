"""The shared engine is notified of changes, and trusts no cache while it cannot be."""

import asyncio

import pytest

from tests.store.on_postgresql import DEADLINE_S, add, opened, settled, until_changed
from tests.support.postgresql import run_on, server_url
from tests.support.stores import Store
from tollway.store.cache_versions import (
    Versions,
    directory_changed,
    figures_changed,
    write_nothing_new,
)
from tollway.store.database import Transaction
from tollway.store.postgresql.change_listener import ChangeListener
from tollway.store.postgresql.database import PostgresqlDatabase

pytestmark = pytest.mark.postgresql

TRIES = 5


async def test_a_change_by_anybody_is_heard_and_others_are_not(
    database: PostgresqlDatabase, store: Store
) -> None:
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


async def test_a_process_sees_its_own_change_before_it_is_notified(
    database: PostgresqlDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ChangeListener, "_on_change", lambda *_: None)
    before = await settled(database)
    await database.write(directory_changed)
    assert database.change_mark() != before


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
    return database.change_mark() == before and versions.is_fresh()


async def _change_and_fail(transaction: Transaction) -> None:
    await directory_changed(transaction)
    raise LookupError


async def test_a_listener_that_was_cut_off_comes_back_and_vouches_for_nothing_meanwhile(
    database: PostgresqlDatabase, store: Store
) -> None:
    before = await settled(database)
    cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE "
    cut += "application_name = 'tollway' AND datname = current_database()"
    await asyncio.to_thread(run_on, store.url, cut)
    await until_changed(database, before)
    again = await settled(database)
    await database.write(directory_changed)
    await until_changed(database, again)


def test_a_listener_that_is_refused_for_any_reason_comes_back(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    name = store.url.rpartition("/")[2]

    def allow(is_allowed: bool) -> None:
        run_on(server_url(), f"ALTER DATABASE {name} ALLOW_CONNECTIONS {is_allowed}")

    async def work() -> None:
        database = opened(store.url, 5)
        await settled(database)
        await asyncio.to_thread(allow, False)
        end = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
        await asyncio.to_thread(run_on, server_url(), end)
        async with asyncio.timeout(DEADLINE_S):
            while "not currently accepting connections" not in caplog.text:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await asyncio.to_thread(allow, True)
        await settled(database)
        await database.close()

    asyncio.run(work())

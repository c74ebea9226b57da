"""The notes of calls that were not charged: bounded, written together, swept in time."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from sqlalchemy import bindparam, select

from tests.support.months import NOW_MS, OLD, OLD_MS, make_month
from tests.support.stores import Store
from tollway.ledger import refused_calls
from tollway.ledger.entries import Entry
from tollway.ledger.receipts import Traces
from tollway.ledger.receipts import receipt_of as receipt_from
from tollway.ledger.refused_calls import RefusedCall, RefusedCallLog
from tollway.store.database import Database, StoreBusyError, Transaction
from tollway.store.months import close_month
from tollway.store.query import Query
from tollway.store.schema.ledger import refused_call
from tollway.telemetry.metrics import Metrics

_IDS = Query(refused_call.select().order_by(refused_call.c.request_id))


def note(account_id: str, number: int) -> RefusedCall:
    """The first of its kind."""
    return like(account_id, number, operation=f"operation {number}")


def like(
    account_id: str, number: int, operation: str = "orders", reason: str = "BODY_TOO_LARGE"
) -> RefusedCall:
    return RefusedCall(account_id, f"{number:05d}", number, operation, 100, reason, None)


async def ids_of(database: Database, account_id: str) -> list[str]:
    return [row[1] for row in await database.fetch_all(_IDS) if row[0] == account_id]


def dropped(metrics: Metrics) -> bool:
    none = 'tollway_receipts_dropped_total{cause="queue_full"} 0.0'
    return none not in metrics.render().decode()


class Counting:
    """A database that counts its commits, and refuses the first few."""

    def __init__(self, database: Database, refusals: int = 0) -> None:
        self._database = database
        self.refusals = refusals
        self.commits = 0
        self.at_once = 0
        self.at_once_max = 0

    async def write(self, work: Callable[[Any], Awaitable[Any]]) -> Any:
        self.at_once += 1
        self.at_once_max = max(self.at_once_max, self.at_once)
        try:
            await asyncio.sleep(0)
            if self.refusals:
                self.refusals -= 1
                raise StoreBusyError("another process writes")
            self.commits += 1
            return await self._database.write(work)
        finally:
            self.at_once -= 1


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refused_calls, "_WRITE_AFTER_S", 0)
    monkeypatch.setattr(refused_calls, "_RETRY_AFTER_S", 0)


async def until_written(database: Database, account_id: str, count: int) -> list[str]:
    async with asyncio.timeout(20):
        while len(await ids_of(database, account_id)) < count:  # noqa: ASYNC110 - it can only be polled
            await asyncio.sleep(0.01)
    return await ids_of(database, account_id)


def test_many_notes_are_few_commits_one_at_a_time(store: Store) -> None:
    async def work(database: Database) -> tuple[Counting, list[str]]:
        counting = Counting(database)
        notes = RefusedCallLog(counting, Metrics())  # type: ignore[arg-type]
        for number in range(1200):
            notes.add(note("many", number))
        return counting, await until_written(database, "many", 1200)

    counting, ids = store.do(work)
    assert ids == [f"{number:05d}" for number in range(1200)]
    assert (counting.commits, counting.at_once_max) == (3, 1)


def test_what_the_database_does_not_take_is_tried_again_and_logged_once(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(database: Database) -> list[str]:
        notes = RefusedCallLog(Counting(database, refusals=3), Metrics())  # type: ignore[arg-type]
        notes.add(note("again", 1))
        return await until_written(database, "again", 1)

    assert store.do(work) == ["00001"]
    begun, ended = caplog.messages
    assert begun.endswith("receipts failed and will be tried again: another process writes")
    assert ended.startswith("writing notes for receipts succeeds again, ")


@pytest.mark.parametrize(("most", "kept"), [(5, 5), (50, 8)])
def test_when_too_much_waits_the_newest_are_dropped_and_counted(
    store: Store, monkeypatch: pytest.MonkeyPatch, most: int, kept: int
) -> None:
    monkeypatch.setattr(refused_calls, "_WAITING_MAX", most)
    metrics = Metrics()

    async def work(database: Database) -> list[str]:
        notes = RefusedCallLog(database, metrics)
        for number in range(8):
            notes.add(note(f"full {most}", number))
        await notes.finish()
        return await ids_of(database, f"full {most}")

    assert store.do(work) == [f"{number:05d}" for number in range(kept)]
    assert dropped(metrics) == (kept < 8)


def test_a_stop_writes_what_waits_and_says_what_it_could_not(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(database: Database) -> list[str]:
        counting = Counting(database)
        notes = RefusedCallLog(counting, Metrics())  # type: ignore[arg-type]
        for number in range(700):
            notes.add(note("stop", number))
        await notes.finish()
        counting.refusals = 1
        notes.add(note("stop", 9999))
        await notes.finish()
        return await ids_of(database, "stop")

    assert len(store.do(work)) == 700
    assert "1 notes for receipts are lost" in caplog.text


_COUNTS = Query(
    select(refused_call.c.request_id, refused_call.c.more)
    .where(refused_call.c.account_id == bindparam("of_account"))
    .order_by(refused_call.c.request_id)
)


def test_of_many_calls_of_a_kind_the_first_few_are_kept_and_the_others_counted(
    store: Store,
) -> None:
    counting: Counting | None = None

    async def work(database: Database) -> list[tuple[str, int]]:
        nonlocal counting
        counting = Counting(database, refusals=2)
        notes = RefusedCallLog(counting, Metrics())  # type: ignore[arg-type]
        for number in range(10_000):
            notes.add(like("flood", number))
            if number % 1000 == 0:
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.01)
        counting.refusals = 0
        # The next minute has rows of its own.
        for number in range(60_000, 60_015):
            notes.add(like("flood", number))
            # A slow call of the minute before does not begin the counts again.
            notes.add(like("flood", number - 30_000))
        await notes.finish()
        return [
            (str(row[0]), row[1]) for row in await database.fetch_all(_COUNTS, of_account="flood")
        ]

    rows = store.do(work)
    first, second = rows[:10], rows[10:]
    assert first == [*((f"{number:05d}", 0) for number in range(9)), ("00009", 9_990)]
    assert len(second) == 10 and sum(1 + more for _, more in second) == 30
    assert counting is not None and counting.commits < 40


def test_calls_after_the_clock_was_set_back_have_rows_of_their_own(store: Store) -> None:
    async def work(database: Database) -> list[str]:
        notes = RefusedCallLog(database, Metrics())
        for number in range(15):
            notes.add(like("back", 7_200_000 + number))
        for number in range(15):
            notes.add(like("back", 3_600_000 + number))
        await notes.finish()
        return await ids_of(database, "back")

    assert len(store.do(work)) == 20


def test_an_account_with_many_kinds_has_few_rows_of_each(store: Store) -> None:
    async def work(database: Database) -> list[tuple[str, int]]:
        notes = RefusedCallLog(database, Metrics())
        for number in range(10_000):
            notes.add(like("kinds", number, operation=f"operation {number % 100}"))
        await notes.finish()
        return [
            (str(row[0]), row[1]) for row in await database.fetch_all(_COUNTS, of_account="kinds")
        ]

    rows = store.do(work)
    assert len(rows) == 100 + 240
    assert sum(1 + more for _, more in rows) == 10_000


@pytest.mark.parametrize("reason", ["CARRIER_SILENT", "COMMIT_IN_DOUBT", "TIMED_OUT"])
def test_what_may_become_a_success_is_always_kept(store: Store, reason: str) -> None:
    async def work(database: Database) -> list[str]:
        notes = RefusedCallLog(database, Metrics())
        for number in range(50):
            notes.add(like(reason, number, reason=reason))
            # A test call can ask for any outcome, and is never charged.
            tried = like(f"test {reason}", number, reason=reason)
            notes.add(msgspec.structs.replace(tried, is_test=1))
        await notes.finish()
        return await ids_of(database, reason) + await ids_of(database, f"test {reason}")

    assert len(store.do(work)) == 50 + 10


def test_successes_that_cost_nothing_do_not_fill_the_disk(store: Store) -> None:
    async def work(database: Database) -> list[tuple[str, int]]:
        notes = RefusedCallLog(database, Metrics())
        for number in range(500):
            notes.add(like("free", number, reason="FREE"))
        await notes.finish()
        rows = await database.fetch_all(_COUNTS, of_account="free")
        return [(str(row[0]), row[1]) for row in rows]

    rows = store.do(work)
    assert (len(rows), rows[-1]) == (60, ("00059", 440))


def test_a_sweep_takes_what_is_older_and_nothing_else(store: Store) -> None:
    async def work(database: Database) -> list[str]:
        notes = RefusedCallLog(database, Metrics())
        for number in range(10):
            notes.add(note("sweep", number))
        await notes.finish()
        # In pieces smaller than what there is to sweep.
        while await database.write(lambda tx: refused_calls.remove_old(tx, before_ms=8, most=3)):
            pass
        return await ids_of(database, "sweep")

    assert store.do(work) == ["00008", "00009"]


class Meanwhile:
    """A database during whose next write something happens."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.then: Callable[[], None] | None = None

    async def write(self, work: Callable[[Any], Awaitable[Any]]) -> Any:
        then, self.then = self.then, None
        written = await self._database.write(work)
        if then is not None:
            then()
        return written


def test_calls_of_a_kind_that_come_while_its_count_is_written_are_counted_too(
    store: Store,
) -> None:
    async def work(database: Database) -> list[tuple[str, int]]:
        slow = Meanwhile(database)
        notes = RefusedCallLog(slow, Metrics())  # type: ignore[arg-type]
        # Nothing was refused yet.
        await notes.finish()
        for number in range(12):
            notes.add(like("meanwhile", number))
        slow.then = lambda: notes.add(like("meanwhile", 12))
        await notes.finish()
        # One more, of which no row is kept: its count alone is written.
        notes.add(like("meanwhile", 13))
        await notes.finish()
        rows = await database.fetch_all(_COUNTS, of_account="meanwhile")
        return [(str(row[0]), row[1]) for row in rows]

    assert store.do(work) == [*((f"{number:05d}", 0) for number in range(9)), ("00009", 4)]


@pytest.mark.postgresql
def test_counts_are_written_while_an_old_month_is_dropped(store: Store) -> None:
    """A plan for all values would lock all months, and wait for the one that goes."""
    make_month(store, "refused_call", OLD_MS)
    minute_ms = NOW_MS // 60_000 * 60_000

    async def work(database: Database) -> list[tuple[str, int]]:
        notes = RefusedCallLog(database, Metrics())

        async def drop_slowly(transaction: Transaction) -> None:
            await close_month(transaction, refused_call, OLD)
            for number in range(12):
                notes.add(like("dropping", minute_ms + number))
            await notes.finish()

        await database.write(drop_slowly)
        rows = await database.fetch_all(_COUNTS, of_account="dropping")
        return [(str(row[0]), row[1]) for row in rows]

    assert store.do(work)[-1] == (str(minute_ms + 9), 2)


def test_a_call_in_doubt_that_was_charged_names_the_shop_that_it_asked_for() -> None:
    """Its answer said that the commit is in doubt, and it names no consent for that."""
    note = RefusedCall(
        "acc", "id", 1, "orders", 5030, "COMMIT_IN_DOUBT", None, owner_kind="shop", owner_id="7001"
    )
    charge = Entry("acc", "credits", 1, "charge", -1, 9, 1, "orders", "id")
    receipt = receipt_from(Traces(note, {"charge": charge}, None), "en")
    assert (receipt.outcome, receipt.owner_kind, receipt.owner_id) == ("charged", "shop", "7001")

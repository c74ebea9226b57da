"""One fault at a chosen moment: what the calls of a batch get, and what is left of them."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Protocol

import apsw
import pytest

from tests.faults.disk import AFTER, BUSY, CORRUPT, FULL, IOERR, KINDS, NOMEM, Fault, FaultyDisk
from tests.support.any_rows import ADD, COUNT, stored
from tests.support.in_loop import InLoop
from tests.support.stores import Store
from tollway.ledger.accounts import open_account
from tollway.ledger.charges import Act, ActResult, Charge
from tollway.ledger.charging import ChargeBatcher
from tollway.ledger.entries import amount_left, newest_entries, top_up
from tollway.ledger.runtime import Runtime
from tollway.store.database import (
    CommitUnknownError,
    StoreBusyError,
    StoreError,
    StoreUnavailableError,
    Transaction,
)
from tollway.store.open import OpenDatabase, open_database
from tollway.store.sqlite.database import SqliteDatabase
from tollway.telemetry.metrics import Metrics

pytestmark = pytest.mark.sqlite

RUNTIME = Runtime()
ENDLESS = 10**6


class Bench:
    """A settler over one account with 100 credits, on a disk that can fail."""

    def __init__(self, database: OpenDatabase, disk: FaultyDisk, path: Path, account: str) -> None:
        self.database = database
        self.disk = disk
        self._path = path
        self._account = account
        self._settler = ChargeBatcher(database, Metrics(), 60, lambda *_: None)

    async def settle(self, acts: Sequence[Act | None]) -> list[ActResult | BaseException | None]:
        """What each call of one batch gets."""
        answers = [
            self._settler.settle(
                Charge(self._account, "credits", 10, "waybills", f"r{position}", "tok_x", 0, act)
            )
            for position, act in enumerate(acts)
        ]
        return await asyncio.gather(*answers, return_exceptions=True)

    async def left(self) -> tuple[int, list[str | None], int]:
        """The balance, the requests that were charged, and how many acts were done."""
        entries = await newest_entries(self.database, self._account, "credits", 100)
        done = await stored(self.database)
        charged = sorted(str(each.request_id) for each in entries if each.kind == "charge")
        return await amount_left(self.database, self._account, "credits"), charged, done

    def charged_after_a_kill(self) -> int:
        """How many charges a gateway would find that begins after a kill at this moment."""
        copy = self._path.with_name("killed.db")
        for ending in ("", "-wal"):
            shutil.copyfile(f"{self._path}{ending}", f"{copy}{ending}")
        with closing(apsw.Connection(str(copy))) as opened:
            count: int = opened.execute(
                "SELECT count(*) FROM entry WHERE kind = 'charge'"
            ).fetchone()[0]
        for each in copy.parent.glob(f"{copy.name}*"):
            each.unlink()
        return count

    def act(self, name: str, fault: Fault | None = None, *, is_swallowed: bool = False) -> Act:
        async def work(transaction: Transaction, _: Charge) -> ActResult:
            with nullcontext() if fault is None else self.disk.failing(fault):
                try:
                    await transaction.execute(ADD, product_id=name)
                except StoreError:
                    if not is_swallowed:
                        raise
            return ActResult(b"{}", is_paid=True)

        return work

    def commit_fails(self, fault: Fault) -> Act:
        """An act after which calls to the disk fail: those of its commit. It writes so much that
        the index of the log needs another piece of shared memory; of waits for the disk, one kind
        of fault is tried with that."""
        rows = 1 if fault.name == "xSync" and fault.kind != IOERR else 4100

        async def work(transaction: Transaction, _: Charge) -> ActResult:
            names = [f"{number}{'x' * 4000}" for number in range(rows)]
            await transaction.execute_many(ADD, [{"product_id": name} for name in names])
            self.disk.fail(fault)
            return ActResult(b"{}", is_paid=True)

        return work


class OnBench(Protocol):
    def __call__(
        self, test: Callable[[Bench], Awaitable[None]], *, has_empty_log: bool = False
    ) -> None: ...


@pytest.fixture
def on_bench(tmp_path: Path) -> OnBench:
    def run(test: Callable[[Bench], Awaitable[None]], *, has_empty_log: bool = False) -> None:
        store = Store(tmp_path / "tollway.db")
        disk = FaultyDisk(store.path)

        async def work() -> None:
            database = open_database(store.url, Metrics())
            account = (await open_account(database, RUNTIME, "account")).id
            await top_up(database, RUNTIME, account, "credits", 100)
            if has_empty_log:
                await database.close()
                database = open_database(store.url, Metrics())
            try:
                await test(Bench(database, disk, store.path, account))
            finally:
                await database.close()

        with disk.in_use():
            asyncio.run(work())

    return run


@pytest.fixture
def bench(on_bench: OnBench) -> InLoop[Bench]:
    return InLoop(on_bench)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_swallowed", [False, True])
async def test_a_fault_within_an_act_fails_the_whole_batch(
    bench: Bench, kind: str, is_swallowed: bool
) -> None:
    failing = bench.act("b", Fault(1, kind), is_swallowed=is_swallowed)
    answers = await bench.settle([None, failing, bench.act("a"), bench.act("c")])
    assert bench.disk.failed == ["xRead"]
    assert {type(each) for each in answers} == {
        StoreBusyError if kind == BUSY else StoreUnavailableError
    }
    assert await bench.left() == (100, [], 0)
    assert bench.charged_after_a_kill() == 0
    answers = await bench.settle([None, bench.act("a"), bench.act("b")])
    assert not any(isinstance(each, BaseException) for each in answers)
    assert await bench.left() == (70, ["r0", "r1", "r2"], 2)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["xSync", "xShmMap"])
async def test_a_commit_that_has_failed_does_not_come_back(
    bench: Bench, kind: str, name: str
) -> None:
    answers = await bench.settle([None, bench.commit_fails(Fault(1, kind, name=name))])
    bench.disk.work()
    assert bench.disk.failed == [name]
    assert {type(each) for each in answers} == {
        StoreBusyError if kind == BUSY else StoreUnavailableError
    }
    assert await bench.left() == (100, [], 0)
    assert bench.charged_after_a_kill() == 0
    await bench.settle([None])
    assert await bench.left() == (90, ["r0"], 0)


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_commit_of_a_log_does_not_come_back_either(on_bench: OnBench, kind: str) -> None:
    """It gives the log new numbers, which the index does not have if it fails."""

    async def test(bench: Bench) -> None:
        # The first wait is for the header of the log, the second for what was committed.
        fault = Fault(2, kind, name="xSync", is_alone=True)
        answers = await bench.settle([None, bench.commit_fails(fault)])
        bench.disk.work()
        assert bench.disk.failed == ["xSync"]
        assert not any(isinstance(each, CommitUnknownError) for each in answers)
        assert await bench.left() == (100, [], 0)
        assert bench.charged_after_a_kill() == 0

    on_bench(test, has_empty_log=True)


@pytest.mark.parametrize("kind", [IOERR, FULL, NOMEM, CORRUPT])
async def test_a_commit_that_may_come_back_is_in_doubt(bench: Bench, kind: str) -> None:
    fault = Fault(1, kind, AFTER, ENDLESS, name="xSync")
    answers = await bench.settle([None, bench.commit_fails(fault)])
    bench.disk.work()
    assert {type(each) for each in answers} == {CommitUnknownError}
    assert await bench.left() == (100, [], 0)
    assert bench.charged_after_a_kill() == 2, "there was nothing to doubt"
    await bench.settle([None])
    assert await bench.left() == (90, ["r0"], 0)
    assert bench.charged_after_a_kill() == 1


async def test_a_connection_that_could_not_undo_is_not_used_again(bench: Bench) -> None:
    # The first call is of the commit, the second of the rollback.
    await bench.settle([None, bench.commit_fails(Fault(1, BUSY, AFTER, 2))])
    bench.disk.work()
    assert bench.disk.failed == ["xWrite", "xRead"]
    await bench.settle([None, bench.act("b")])
    assert await bench.left() == (80, ["r0", "r1"], 1)


async def test_a_connection_that_is_lost_is_replaced_and_changes_are_still_noticed(
    bench: Bench,
) -> None:
    assert isinstance(bench.database, SqliteDatabase)
    lost = bench.database._writer._connection
    assert lost is not None
    lost.close()
    (answer,) = await bench.settle([None])
    assert isinstance(answer, StoreUnavailableError)
    for expected in (90, 80):
        mark = bench.database.change_mark()
        await bench.settle([None])
        assert bench.database.change_mark() != mark
        assert (await bench.left())[0] == expected


@pytest.mark.parametrize("kind", [IOERR, FULL, NOMEM, CORRUPT])
async def test_a_batch_that_cannot_begin_fails_alone(bench: Bench, kind: str) -> None:
    with bench.disk.failing(Fault(1, kind)):
        (answer,) = await bench.settle([None])
    assert bench.disk.failed == ["xShmLock"]
    assert isinstance(answer, StoreUnavailableError)
    await bench.settle([None])
    assert await bench.left() == (90, ["r0"], 0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("at", [1, 2, 3])
async def test_a_read_that_fails_spoils_no_other(bench: Bench, kind: str, at: int) -> None:
    with (
        bench.disk.failing(Fault(at, kind, times=ENDLESS)),
        pytest.raises(StoreBusyError if kind == BUSY else StoreUnavailableError),
    ):
        await bench.database.fetch_one(COUNT)
    assert await bench.left() == (100, [], 0)

"""One migrated database for all tests of the ledger: each test uses accounts of its own."""

from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

import pytest

from tests.ledger.charging_bench import Bench, OnBench
from tests.ledger.queue_bench import OnQueue, QueueBench
from tests.support.fake_time import FakeTimeLoop, in_fake_time
from tests.support.in_loop import InLoop
from tests.support.stores import Store
from tollway.ledger import charge_queue
from tollway.ledger.accounts import open_account
from tollway.ledger.entries import top_up
from tollway.ledger.runtime import Runtime
from tollway.store.database import Database

RUNTIME = Runtime()


@pytest.fixture(scope="package")
def store(tmp_path_factory: pytest.TempPathFactory, engine: str) -> Store:
    return Store(tmp_path_factory.mktemp("ledger") / "ledger.db")


@pytest.fixture(scope="package")
def new_name() -> Callable[[], str]:
    """A name that no other test uses."""
    numbers = count()
    return lambda: f"account {next(numbers)}"


@pytest.fixture
def on_bench(store: Store, new_name: Callable[[], str]) -> OnBench:
    """Runs a test on a batcher over an account with 100 credits."""

    def run(
        test: Callable[[Bench], Awaitable[None]], *, timeout_s: float = 10, wait_s: float = 0
    ) -> None:
        async def work(database: Database) -> None:
            account = await open_account(database, RUNTIME, new_name())
            await top_up(database, RUNTIME, account.id, "credits", 100)
            bench = Bench(database, account.id, timeout_s, wait_s)
            try:
                await test(bench)
            finally:
                # What a test that failed holds up would otherwise be waited for without an end.
                bench.database.gate.set()
                bench.database.slow_commit.set()

        store.do(work)

    return run


@pytest.fixture
def bench(on_bench: OnBench) -> InLoop[Bench]:
    return InLoop(on_bench)


@pytest.fixture
def on_queue(monkeypatch: pytest.MonkeyPatch) -> OnQueue:
    """Runs a test on a queue without a database."""

    def run(test: Callable[[QueueBench], Awaitable[None]], **options: Any) -> None:
        loop = FakeTimeLoop()
        monkeypatch.setattr(charge_queue, "monotonic", loop.time)

        async def work() -> None:
            await test(QueueBench(loop, **options))

        in_fake_time(loop, work())

    return run

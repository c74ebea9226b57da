"""A batcher over one account whose commits a test holds up, counts, or has fail."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from tollway.ledger.charges import Act, Charge, IdempotencyKey
from tollway.ledger.charging import ChargeBatcher
from tollway.ledger.entries import amount_left
from tollway.store.database import Database, Row, Transaction
from tollway.store.query import Query
from tollway.telemetry.metrics import Metrics

T = TypeVar("T")
Shortages = list[tuple[str, str, int]]


class Gated:
    """A database whose commits wait at a gate, are counted, and can be made to fail."""

    def __init__(self, inner: Database) -> None:
        self._inner = inner
        self.is_shared = inner.is_shared
        self.gate = asyncio.Event()
        self.gate.set()
        self.has_begun = asyncio.Event()
        self.commits = 0
        self.fails_with: Exception | None = None
        # Set from the event loop, waited for in the thread that writes to a file.
        self.slow_commit = threading.Event()
        self.slow_commit.set()
        self.has_worked = threading.Event()

    async def write_statement(self, query: Query, **values: object) -> Sequence[Row]:
        return await self.write(lambda transaction: transaction.fetch_all(query, **values))

    async def write(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        self.commits += 1
        self.has_begun.set()
        await self.gate.wait()
        error = self.fails_with

        async def watched(transaction: Transaction) -> T:
            result = await work(transaction)
            self.has_worked.set()
            if error is not None:
                raise error  # After the work and before the commit.
            if self.is_shared:
                await asyncio.to_thread(self.slow_commit.wait)
            else:
                self.slow_commit.wait()
            return result

        return await self._inner.write(watched)


class Bench:
    """A batcher over one new account."""

    def __init__(
        self, database: Database, account_id: str, timeout_s: float = 10, wait_s: float = 0
    ) -> None:
        self.database = Gated(database)
        self.account_id = account_id
        self.shortages: Shortages = []
        self.inner = database
        self.late: asyncio.Future[object]
        self._batcher = ChargeBatcher(
            self.database,  # type: ignore[arg-type]
            Metrics(),
            timeout_s,
            lambda *shortage: self.shortages.append(shortage),
            wait_s=wait_s,
        )

    def settle(
        self, number: int, key: IdempotencyKey | None = None, act: Act | None = None
    ) -> asyncio.Future[object]:
        charge = Charge(
            *(self.account_id, "credits", 1, "orders", f"r{number}", "tok_x", number, act),
            idempotency_key=key,
        )
        return self._batcher.settle(charge)  # type: ignore[return-value]

    async def left(self) -> int:
        return await amount_left(self.inner, self.account_id, "credits")


class OnBench(Protocol):
    """Runs a test on a batcher that lets calls wait for so long, and batches for so long."""

    def __call__(
        self, test: Callable[[Bench], Awaitable[None]], *, timeout_s: float = 10, wait_s: float = 0
    ) -> None: ...

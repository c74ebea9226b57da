"""A queue of charges whose batches a test holds up, answers, or has fail, in a time of its own."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Protocol

from tests.support.fake_time import FakeTimeLoop
from tollway.ledger.charge_queue import Begin, ChargeQueue, PendingCharge
from tollway.ledger.charge_transaction import ChargeResults
from tollway.ledger.charges import Act, ActResult, Charge, JointAct
from tollway.store.database import Transaction
from tollway.telemetry.metrics import Metrics

DONE = ActResult(b"{}", is_paid=True)


async def act(_: Transaction, __: Charge) -> ActResult:
    return DONE


async def _together(_: Transaction, charges: object) -> list[ActResult | None]:
    raise NotImplementedError  # The queue only asks whether an act could be done with others.


JOINT = JointAct(act, _together, None)


def charge(name: str, act: Act | None = None) -> Charge:
    return Charge("acc", "credits", 1, "orders", name, "tok", 0, act)


class QueueBench:
    """A queue, and what posts its batches.

    A batch waits for its `turn`, begins, and waits for its `commit`. `results` are what a call
    gets, by its name: one after the other if it is posted again, and then nothing.
    """

    def __init__(self, loop: FakeTimeLoop, **options: Any) -> None:
        self.loop = loop
        self.metrics = Metrics()
        self.shortages: list[tuple[str, str, int]] = []
        self.begun: list[list[Charge]] = []
        self.turn, self.commit = asyncio.Event(), asyncio.Event()
        self.turn.set()
        self.commit.set()
        self.results: defaultdict[str, list[ActResult | Exception]] = defaultdict(list)
        self.fails_with: Exception | None = None
        options = {"timeout_s": 60, "batch_max": 512, **options}
        self.queue = ChargeQueue(
            self.metrics,
            on_shortage=lambda *shortage: self.shortages.append(shortage),
            post=self._post,
            **options,
        )

    @property
    def batches(self) -> list[list[str]]:
        """The names of the calls of each batch that has begun."""
        return [[each.request_id for each in batch] for batch in self.begun]

    def settle(self, name: str, act: Act | None = None) -> PendingCharge:
        return self.queue.settle(charge(name, act))

    def settle_all(self, names: Iterable[object]) -> list[PendingCharge]:
        return [self.settle(str(name)) for name in names]

    async def at(self, time_s: float) -> None:
        """Waits until then, and for all that happens at that moment."""
        await asyncio.sleep(time_s - self.loop.time())
        for _ in range(20):
            await asyncio.sleep(0)

    async def _post(self, begin: Begin) -> ChargeResults:
        await self.turn.wait()
        charges = list(begin())
        self.begun.append(charges)
        await self.commit.wait()
        assert list(begin()) == charges, "work that is tried again begins with the same"
        if self.fails_with is not None:
            raise self.fails_with
        results = {nth: self.results[each.request_id] for nth, each in enumerate(charges)}
        return {nth: each.pop(0) for nth, each in results.items() if each}


class OnQueue(Protocol):
    """Runs a test on a queue with these options."""

    def __call__(self, test: Callable[[QueueBench], Awaitable[None]], **options: Any) -> None: ...

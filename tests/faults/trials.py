"""Trials: a batch of calls meets a fault of the disk, or of the connections to a server, and
everything is checked afterwards.

Every acknowledged call must have one charge, and one that failed must have none, also if the
gateway were killed at that moment and its database opened again. The audit must find nothing. And
the same gateway must do everything that failed, once all works again.

What is broken in a ledger stays broken, so the audit need not run after every single trial.
"""

import asyncio
import random
import shutil
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, closing
from datetime import date
from itertools import count

import apsw
from sqlalchemy import text

from tests.faults.batches import Batch, Call
from tests.faults.disk import AFTER, BEFORE, BUSY, CHANGES, HALF, KINDS, Fault
from tests.faults.gateway import FEW_CALLS, FEW_CREDITS, Answer, FaultyGateway
from tests.support.all_operations import good_request
from tests.support.ledger import CALLS, CREDITS, RUNTIME
from tests.support.remote import age_pending
from tollway.audit.report import audit
from tollway.contract.reasons import Reason
from tollway.ledger.entries import amount_left, top_up
from tollway.operations.product_analysis.operation import PRODUCT_ANALYSIS
from tollway.store.open import OpenDatabase, open_database
from tollway.store.query import Query
from tollway.telemetry.metrics import Metrics

_CHARGES = Query(
    text("SELECT request_id, count(*) FROM entry WHERE kind = 'charge' GROUP BY request_id")
)
# How many calls to the disk fail. The most is all of them, until it works again; but not of those
# that are tried again until they are no longer busy.
_TIMES = (1, 1, 1, 2, 5, 10**6)
_BUSY_TIMES = (1, 1, 2, 5)
# A batch does not make quite as many calls to the disk each time. After so many trials in which the
# call that was to fail was not made, there are no more.
_SPARED_MAX = 3
_RECONNECTS_MAX, _RECONNECTS_AFTER_S = 20, 0.1


def random_fault(chance: random.Random, at: int) -> Fault:
    kind = chance.choice(KINDS)
    times = chance.choice(_BUSY_TIMES if kind == BUSY else _TIMES)
    return Fault(at, kind, chance.choice((BEFORE, HALF, AFTER)), times)


class Trials:
    """Trials over one database, with the answers to all calls so far."""

    def __init__(self, faulty: FaultyGateway, today: date, audit_every: int) -> None:
        self._faulty = faulty
        self._database = faulty.database
        self._audit_every = audit_every
        self._question = good_request(PRODUCT_ANALYSIS, today)
        self._paid: set[str] = set()
        self._doubtful: set[str] = set()
        self._requests: defaultdict[str, set[str]] = defaultdict(set)
        self.figures: Counter[str] = Counter()

    async def of_batch(self, batch: Batch, fault_at: Callable[[int], Fault]) -> AsyncIterator[str]:
        """What is wrong after any of the trials of a batch: one for each of its calls to the disk.

        Ends when anything is wrong.
        """
        self.figures["batches"] += 1
        if self._database.is_shared:
            # Otherwise the first round trips would be those that connect and prepare statements.
            self._note(await self._faulty.send(batch.calls()))
        spared = 0
        for at in count(1):
            fault = fault_at(at)
            if batch.connects:
                await self._faulty.lose_connection()
            wrong = await self._trial(batch.calls(), fault)
            spared += not self._faulty.faults.failed
            self.figures["faults"] += bool(self._faulty.faults.failed)
            is_last = spared == _SPARED_MAX
            if is_last or at % self._audit_every == 0:
                wrong += await _damage(self._database)
            for each in wrong:
                yield f"{each} (after {fault} in {self._faulty.faults.failed[:3]})"
            if wrong or is_last:
                return

    async def _trial(self, calls: list[Call], fault: Fault) -> list[str]:
        await self._top_up()
        with self._faulty.faults.failing(fault):
            answers = await self._faulty.send(calls)
        self._note(answers)
        unexpected = [each for each in answers if each.code == Reason.INTERNAL.value.code]
        return [
            *(f"unexpected: {each}" for each in unexpected),
            *(f"after a kill: {breach}" for breach in await self._after_a_kill(answers)),
            *await self._when_repeated(answers),
            *self._wrong(charges := await _charges(self._database)),
            *self._not_once(calls, charges),
        ]

    async def _top_up(self) -> None:
        """So that some of what the poor account calls for is covered, and some is not."""
        account_id = self._faulty.callers.poor.account_id
        for unit, amount in ((CREDITS, FEW_CREDITS), (CALLS, FEW_CALLS)):
            missing = amount - await amount_left(self._database, account_id, unit)
            if missing:
                await top_up(self._database, RUNTIME, account_id, unit, missing)

    def _note(self, answers: list[Answer]) -> None:
        for each in answers:
            self.figures[
                "acknowledged" if each.is_success else "doubtful" if each.is_in_doubt else "failed"
            ] += 1
            if each.is_success:
                self._paid.add(each.paid_by)
            elif each.is_in_doubt:
                self._doubtful.add(each.request_id)
            if each.call.deed is not None:
                self._requests[each.call.deed].add(each.request_id)

    async def _after_a_kill(self, answers: list[Answer]) -> list[str]:
        """What would be wrong if the gateway had been killed now, and begun again."""
        if not CHANGES.intersection(self._faulty.faults.failed):
            return []  # No commit has failed.
        path = self._faulty.store.path
        copy = path.with_name("killed.db")
        copy.with_name("killed.db-shm").unlink(missing_ok=True)
        with self._faulty.store.held():
            for ending in ("", "-wal"):
                shutil.copyfile(f"{path}{ending}", f"{copy}{ending}")
        with closing(apsw.Connection(str(copy))) as opened:
            wrong = list(self._wrong(dict(opened.execute(_CHARGES.sqlite.text).fetchall())))
        # Nothing but what is in doubt can differ from what it is without the kill.
        if any(each.is_in_doubt for each in answers):
            self.figures["kills in doubt"] += 1
            if self.figures["kills in doubt"] % self._audit_every == 1:
                async with _opened(f"sqlite:///{copy}") as database:
                    wrong += await _damage(database)
        return wrong

    async def _when_repeated(self, answers: list[Answer]) -> list[str]:
        """Sends everything again that had no success, and something new."""
        again = [each.call for each in answers if not self._is_final(each)]
        remote = self._faulty.callers.remote
        if any(each.is_in_doubt and remote in each.call.body.values() for each in answers):
            # As long as a waybill is young, its repetition waits for the first call to end it.
            await asyncio.to_thread(age_pending, self._faulty.store)
        again.append(Call(self._faulty.callers.rich[0], PRODUCT_ANALYSIS, self._question))
        for _ in range(_RECONNECTS_MAX if self._database.is_shared else 1):
            answers = await self._faulty.send(again)
            self._note(answers)
            again = [each.call for each in answers if not self._is_final(each)]
            if not again:
                break
            # A server that could not be reached is tried again ten times a second.
            await asyncio.sleep(_RECONNECTS_AFTER_S)
        return [f"still fails: {each}" for each in answers if not self._is_final(each)]

    def _is_final(self, answer: Answer) -> bool:
        """Whether the same call would be answered in the same way."""
        is_short = answer.code == Reason.CREDITS_USED_UP.value.code
        differs = answer.code == Reason.WAYBILL_DIFFERS.value.code
        return (
            answer.is_success
            or (is_short and answer.call.caller == self._faulty.callers.poor)
            or (differs and answer.call.has_rival)
        )

    def _wrong(self, charges: Mapping[str, int]) -> Iterator[str]:
        for request_id, times in charges.items():
            if times > 1:
                yield f"{request_id} is charged {times} times"
            if request_id not in self._paid and request_id not in self._doubtful:
                yield f"{request_id} is charged, although it failed"
        for request_id in self._paid - charges.keys():
            yield f"{request_id} is acknowledged, and not charged"

    def _not_once(self, calls: list[Call], charges: Mapping[str, int]) -> Iterator[str]:
        for deed in {call.deed for call in calls if call.deed is not None}:
            requests = self._requests[deed]
            is_done = any(each in self._paid for each in requests)
            if sum(charges.get(each, 0) for each in requests) != is_done:
                yield f"{deed} is not charged once"


@asynccontextmanager
async def _opened(url: str) -> AsyncIterator[OpenDatabase]:
    database = open_database(url, Metrics())
    try:
        yield database
    finally:
        await database.close()


async def _charges(database: OpenDatabase) -> dict[str, int]:
    return dict(await database.fetch_all(_CHARGES))


async def _damage(database: OpenDatabase) -> list[str]:
    return [str(breach) for breach in (await audit(database, RUNTIME.at_ms())).damage]

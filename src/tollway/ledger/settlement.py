"""Charging calls: the calls that arrive while one commit is under way share the next one.

That is what makes a durable charge cheap: one wait for the disk, and one debit per account, pay for
a whole batch. Nobody is answered before the commit that carries their own charge. What a call read
under an owner's grant is written down for the owner in that same commit.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from time import monotonic

import msgspec
from sqlalchemy import bindparam

from tollway.ledger.entries import ADD_ENTRY, TAKE, amount_left
from tollway.store.consent_tables import consent_use
from tollway.store.database import Database, StoreBusyError, Transaction
from tollway.store.query import Query
from tollway.telemetry.metrics import Metrics

_BATCH_MAX = 512
_ADD_USE = Query(consent_use.insert().values({c.name: bindparam(c.name) for c in consent_use.c}))


class GrantKey(msgspec.Struct, frozen=True, gc=False):
    """The grant that a call was made under."""

    owner_kind: str
    owner_id: str
    consent_id: str


class Charge(msgspec.Struct, frozen=True, gc=False):
    """What one call owes, which may be nothing when it was made under a grant."""

    account_id: str
    unit: str
    amount: int
    operation: str
    request_id: str
    token_id: str
    at_ms: int
    grant: GrantKey | None = None


class ShortageError(Exception):
    """A charge was refused, because the balance does not cover it."""

    def __init__(self, left: int) -> None:
        super().__init__(left)
        self.left = left


class _Waiting(msgspec.Struct, frozen=True, gc=False):
    charge: Charge
    answer: asyncio.Future[None]
    since_s: float


class Settler:
    """Collects charges and posts them batch by batch.

    `on_shortage` hears of a balance that does not cover a charge: account, unit, what is left.
    """

    def __init__(
        self,
        database: Database,
        metrics: Metrics,
        timeout_s: float,
        on_shortage: Callable[[str, str, int], None],
    ) -> None:
        self._database = database
        self._metrics = metrics
        self._timeout_s = timeout_s
        self._on_shortage = on_shortage
        self._waiting: list[_Waiting] = []
        self._running: asyncio.Task[None] | None = None

    def settle(self, charge: Charge) -> asyncio.Future[None]:
        """Done once the charge is durable.

        Fails with ShortageError if it was refused, with StoreError if it could not be tried.
        """
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(charge, answer, monotonic()))
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        return answer

    async def _run(self) -> None:
        try:
            while self._waiting:
                batch = self._waiting[:_BATCH_MAX]
                del self._waiting[:_BATCH_MAX]
                await self._post(self._in_time(batch))
        finally:
            self._running = None

    def _in_time(self, batch: list[_Waiting]) -> list[_Waiting]:
        """The calls that have not waited too long already; the others are let go uncharged."""
        oldest_s = monotonic() - self._timeout_s
        for waiting in batch:
            if waiting.since_s >= oldest_s:
                break  # They are in the order of arrival: the rest came later still.
            if not waiting.answer.done():
                waiting.answer.set_exception(StoreBusyError("waited too long to be charged"))
        # A caller that has gone away (its future is cancelled) is not charged either.
        return [waiting for waiting in batch if not waiting.answer.done()]

    async def _post(self, batch: list[_Waiting]) -> None:
        if not batch:
            return
        charges = [waiting.charge for waiting in batch]
        self._metrics.settle_batch.observe(len(batch))
        try:
            shortages = await self._database.write(lambda tx: post_charges(tx, charges))
        except Exception as error:
            for waiting in batch:
                if not waiting.answer.done():
                    waiting.answer.set_exception(error)
            return
        for position, waiting in enumerate(batch):
            left = shortages.get(position)
            if left is not None:
                self._on_shortage(waiting.charge.account_id, waiting.charge.unit, left)
            if not waiting.answer.done():
                if left is None:
                    waiting.answer.set_result(None)
                else:
                    waiting.answer.set_exception(ShortageError(left))


async def post_charges(transaction: Transaction, charges: Sequence[Charge]) -> dict[int, int]:
    """Posts charges in one transaction; each is posted whole or refused.

    Gives the positions of those that were refused, with what is left of their balances.
    """
    by_balance: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for position, charge in enumerate(charges):
        if charge.amount:
            by_balance[charge.account_id, charge.unit].append(position)
    shortages: dict[int, int] = {}
    entries: list[tuple[object, ...]] = []
    for (account_id, unit), positions in by_balance.items():
        # Almost always the balance covers the whole group, and one debit does. When it does not,
        # each call is tried alone, in the order of arrival.
        group = [charges[position] for position in positions]
        if await _take(transaction, group, entries):
            continue
        for position in positions:
            if not await _take(transaction, [charges[position]], entries):
                shortages[position] = await amount_left(transaction, account_id, unit)
    await transaction.execute_many(ADD_ENTRY, entries)
    uses = [
        _use(charge, charge.grant)
        for position, charge in enumerate(charges)
        if charge.grant is not None and position not in shortages
    ]
    if uses:
        await transaction.execute_many(_ADD_USE, uses)
    return shortages


def _use(charge: Charge, grant: GrantKey) -> tuple[object, ...]:
    """In the order of the table's columns."""
    return (
        grant.owner_kind,
        grant.owner_id,
        grant.consent_id,
        charge.request_id,
        charge.at_ms,
        charge.operation,
    )


async def _take(
    transaction: Transaction, charges: Sequence[Charge], entries: list[tuple[object, ...]]
) -> bool:
    """Debits charges of one balance together, or none of them; adds their entries."""
    first = charges[0]
    total = sum([charge.amount for charge in charges])
    row = await transaction.fetch_one(
        TAKE,
        of_account=first.account_id,
        of_unit=first.unit,
        total=total,
        count=len(charges),
    )
    if row is None:
        return False
    left, number = row[0] + total, row[1] - len(charges)
    for charge in charges:
        left -= charge.amount
        number += 1
        # In the order of the table's columns.
        entries.append(
            (
                charge.account_id,
                charge.unit,
                number,
                "charge",
                -charge.amount,
                left,
                charge.at_ms,
                charge.operation,
                charge.request_id,
                charge.token_id,
                None,
            )
        )
    return True

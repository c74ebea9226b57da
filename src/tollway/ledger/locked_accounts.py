"""An account whose rows stay locked, by a node that hangs, say, holds up its own calls only.

Charges and acts whose rows another transaction has locked are reported as busy. Plain charges skip
what is locked; acts cannot, so those of a batch wait for their locks, and if that takes too long,
those of each account are posted apart.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Container, Sequence
from functools import partial

from tollway.ledger.charge_postgresql import post_acts, post_unless_locked, post_waiting_for_locks
from tollway.ledger.charge_queue import Begin
from tollway.ledger.charge_transaction import ChargeResults
from tollway.ledger.charges import BusyError, Charge
from tollway.store.database import Database, Transaction

Post = Callable[[Sequence[Charge]], Awaitable[ChargeResults]]
# Longer than the transactions of a few nodes that lock the same account one after the other.
_WAIT_MS = 500
# Longer than a few batches of plain charges: how long the acts of a batch wait for each lock.
_BATCH_WAIT_MS = 100
# As long as plain charges wait for what they cannot skip.
_MOMENT_MS = 10


async def post_unless_stuck(
    database: Database, begin: Begin, stuck: Container[str]
) -> ChargeResults:
    """Posts acts. Those whose rows stay locked get BusyError; those of accounts that are known to
    be stuck get it at once."""

    def others() -> list[int]:
        return [nth for nth, charge in enumerate(begin()) if charge.account_id not in stuck]

    async def post_together(transaction: Transaction) -> ChargeResults:
        post = partial(post_acts, transaction, wait_ms=_BATCH_WAIT_MS)
        return await _post_some(post, begin(), others())

    try:
        results = await database.write(post_together)
    except BusyError:
        results = await _post_soon(database, begin(), others())
    left = set(range(len(begin()))).difference(others())
    return results | dict.fromkeys(left, BusyError())


async def post_busy(database: Database, charges: Sequence[Charge]) -> ChargeResults:
    """Posts charges whose rows were locked. Most are not any more. Of the others, it waits for
    those of one account, and not for long: the rest would wait as well, and if it had the locks of
    a second account meanwhile, so would all calls of that."""
    results = await _post_soon(database, charges, range(len(charges)))
    busy = [position for position in sorted(results) if isinstance(results[position], BusyError)]
    if not busy:
        return results
    first = charges[busy[0]]
    own = [
        position
        for position in busy
        if charges[position].account_id == first.account_id
        and charges[position].is_plain == first.is_plain
    ]
    waiting = post_waiting_for_locks if first.is_plain else _write_acts
    found = await _post_apart(partial(waiting, database, wait_ms=_WAIT_MS), charges, own)
    left = {position: result for position, result in results.items() if position not in own}
    return left | found


async def _post_soon(
    database: Database, charges: Sequence[Charge], positions: Sequence[int]
) -> ChargeResults:
    """Posts what is not locked: the plain charges together, the acts account by account."""
    acts = partial(_write_acts, database, wait_ms=_MOMENT_MS)
    groups: defaultdict[str | None, list[int]] = defaultdict(list)
    for position in positions:
        charge = charges[position]
        groups[None if charge.is_plain else charge.account_id].append(position)
    results: ChargeResults = {}
    for account_id, group in groups.items():
        post = partial(post_unless_locked, database) if account_id is None else acts
        results |= await _post_apart(post, charges, group)
    return results


async def _post_apart(post: Post, charges: Sequence[Charge], own: Sequence[int]) -> ChargeResults:
    """Posts some of the charges. An error is theirs alone: others may be posted."""
    try:
        return await _post_some(post, charges, own)
    except Exception as error:
        return dict.fromkeys(own, error)


async def _post_some(post: Post, charges: Sequence[Charge], own: Sequence[int]) -> ChargeResults:
    found = await post([charges[position] for position in own])
    return {own[nth]: result for nth, result in found.items()}


async def _write_acts(database: Database, charges: Sequence[Charge], wait_ms: int) -> ChargeResults:
    return await database.write(lambda transaction: post_acts(transaction, charges, wait_ms))

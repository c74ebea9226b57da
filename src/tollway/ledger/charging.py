"""Charging calls, batch by batch: a whole batch needs one disk sync, and one debit per balance.
That makes a durable charge cheap.

`charge_queue.py` decides how, and how long, calls wait for a batch. This module decides which queue
a charge goes to, how large batches are, and what posts them on which database. On a shared database
a commit costs as much as charging a dozen calls, so a small batch may wait there for more.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from tollway.ledger.charge_postgresql import ALONE_MAX, post_unless_locked
from tollway.ledger.charge_queue import Begin, ChargeQueue, PendingCharge
from tollway.ledger.charge_transaction import ChargeResults, post_charges
from tollway.ledger.charges import Charge
from tollway.ledger.locked_accounts import post_busy, post_unless_stuck
from tollway.ledger.shared_windows import SharedWindows, post_counted
from tollway.store.database import Database, Transaction
from tollway.telemetry.metrics import Metrics

_BATCH_MAX = 512
_JOINT_MAX = 128


class ChargeBatcher:
    """Collects charges and posts them batch by batch.

    `on_shortage` is called with a balance that does not cover a charge: account, unit, amount.
    `windows` are those that the workers of a SQLite file share, if there are several. `wait_s` is
    the longest that a batch on a shared database waits for more calls.
    """

    def __init__(
        self,
        database: Database,
        metrics: Metrics,
        timeout_s: float,
        on_shortage: Callable[[str, str, int], None],
        windows: SharedWindows | None = None,
        wait_s: float = 0.0,
    ) -> None:
        queue = partial(ChargeQueue, metrics, timeout_s, on_shortage)
        # Whether charging counts the calls of all nodes, or of all workers of a file: then each
        # charge names its limit.
        self.counts_calls = database.is_shared or windows is not None
        if database.is_shared:
            # Separate queues, so that one-round-trip charges wait for no act. Only those whose rows
            # an act or another node has locked, and acts whose rows stay locked, go on to the queue
            # that waits for locks.
            waiting = queue(partial(_post, database, post_busy), _BATCH_MAX)
            unless_locked = partial(_post, database, post_unless_locked)
            self._plain = queue(unless_locked, _BATCH_MAX, waiting.add, wait_s)
            acts = partial(_post_acts, database, waiting)
            self._acts = queue(acts, _JOINT_MAX, waiting.add, alone_max=ALONE_MAX)
        else:
            post = post_charges if windows is None else partial(post_counted, windows)
            self._plain = self._acts = queue(partial(_write, database, post), _BATCH_MAX)

    def settle(self, charge: Charge) -> PendingCharge:
        """Completes with the result of the act once the charge is durable.

        Raises ShortageError, DayCapError or OverLimitError if the charge was refused,
        AlreadyAnswered if its key was used before, the act's own error if that failed,
        OutdatedCallerError if its caller must be looked up again, StoreError if the charge could
        not be tried.
        """
        return (self._plain if charge.is_plain else self._acts).settle(charge)


async def _post(
    database: Database,
    post: Callable[[Database, Sequence[Charge]], Awaitable[ChargeResults]],
    begin: Begin,
) -> ChargeResults:
    return await post(database, begin())


async def _post_acts(database: Database, waiting: ChargeQueue, begin: Begin) -> ChargeResults:
    # Others need not find out again which rows stay locked.
    return await post_unless_stuck(database, begin, waiting.accounts_of_acts())


async def _write(
    database: Database,
    post: Callable[[Transaction, Sequence[Charge]], Awaitable[ChargeResults]],
    begin: Begin,
) -> ChargeResults:
    # The batch begins with its transaction, not while that waits for other writers.
    return await database.write(lambda transaction: post(transaction, begin()))

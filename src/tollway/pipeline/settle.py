"""Stage: the one commit. A call that gets here has succeeded, and now pays."""

import logging
from collections.abc import Awaitable
from functools import partial
from zoneinfo import ZoneInfo

from msgspec.structs import replace

from tollway.contract.reasons import Reason, Refusal
from tollway.ledger.charge_queue import PendingCharge
from tollway.ledger.charges import ActResult, Charge, ClosingAct
from tollway.ledger.charging import ChargeBatcher
from tollway.ledger.token_limits import DayCap
from tollway.pipeline.call import Call
from tollway.pipeline.ending_holds import Closings
from tollway.pipeline.permit import day_cap
from tollway.store.database import StoreError

logger = logging.getLogger("tollway.call")


class Settle:
    """Charges the call, together with the operation's act, if it has one.

    A free call has no ledger entry. What was done under an owner's grant is recorded for the owner,
    even if it was free, but not in the sandbox. A call ends with a ShortageError if the balance no
    longer covers it, with a DayCapError if the token's cap is reached, with AlreadyAnswered if its
    key was used before. Where nodes share a limit, a call beyond it ends with an OverLimitError;
    there even free, failed and repeated calls are settled, to be counted; and a call whose caller
    was changed meanwhile by another node ends with an OutdatedCallerError.
    """

    def __init__(self, zone: ZoneInfo) -> None:
        self._zone = zone
        self.closings = Closings()

    def __call__(self, call: Call) -> PendingCharge | None:
        if call.act is not None:
            return self._act(call)
        batcher = call.environment.batcher
        is_recorded = call.grant is not None and not call.caller.is_test
        is_free = call.price == 0 and not is_recorded and call.idempotency_key is None
        cap = None if call.caller.limits is None else day_cap(call, self._zone)
        if is_free and cap is None and not batcher.counts_calls:
            return None
        call.charged = call.price
        return batcher.settle(_charge(call, batcher, cap))

    def counts(self, call: Call) -> bool:
        """Whether a call that was not charged must be counted: it was admitted here, and the nodes
        share a limit."""
        return (
            call.admission is not None
            and not call.is_settled
            and call.environment.batcher.counts_calls
        )

    def count(self, call: Call, directory: int | None = None) -> Awaitable[object] | None:
        """Counts a call that was not charged, if it must be counted; if a directory is given, only
        if its caller is known under the current one."""
        if not self.counts(call):
            return None
        batcher = call.environment.batcher
        counted = _charge(call, batcher, is_counted_only=True)
        return batcher.settle(replace(counted, directory=directory))

    def replay(self, call: Call, replay_of: str, answer: bytes) -> Awaitable[object] | None:
        """Counts a call that gets the stored answer of another, and records it for the owner."""
        batcher = call.environment.batcher
        grant = None if call.caller.is_test else call.grant
        counted = _charge(call, batcher, is_counted_only=True)
        limit = None if call.is_settled else counted.limit
        if grant is None and limit is None:
            return None
        charge = replace(
            counted,
            grant=grant,
            limit=limit,
            replay_of=replay_of,
            records=_counted(call, answer),
            directory=call.directory,
        )
        return batcher.settle(charge)

    def _act(self, call: Call) -> PendingCharge:
        charge = _charge(call, call.environment.batcher, day_cap(call, self._zone))
        pending = call.environment.batcher.settle(charge)
        pending.then = partial(self._acted, call, charge)
        return pending

    def _acted(
        self, call: Call, charge: Charge, result: ActResult | None
    ) -> Awaitable[None] | None:
        call.is_settled = True
        assert result is not None
        if result.then is not None:
            return self._act_on(call, charge, result)
        _answer(call, result)
        return None

    async def _act_on(self, call: Call, charge: Charge, result: ActResult) -> None:
        """Continues after the first commit: asks a carrier, or waits for another call."""
        while result.then is not None:
            try:
                charge, result = await self._go_on(call.environment.batcher, charge, result)
            except Refusal:
                raise
            except Exception as error:
                if not result.is_held:
                    raise
                # Its price stays held: it may still be charged.
                _log_unknown(call, error)
                raise Refusal(Reason.CARRIER_SILENT, cost=charge.amount) from None
        _answer(call, result)

    async def _go_on(
        self, batcher: ChargeBatcher, charge: Charge, result: ActResult
    ) -> tuple[Charge, ActResult]:
        """Does what follows a commit, and posts the next act."""
        assert result.then is not None
        act = await result.then()
        # A committed hold carries the grant from here on.
        grant = None if result.is_held else charge.grant
        # It carries the key too; a call that only waited for another must look it up again.
        idempotency_key = charge.idempotency_key
        if idempotency_key is not None:
            idempotency_key = replace(idempotency_key, late=result.is_held)
        # The first commit has counted the call, and was made while its caller was known.
        charge = replace(
            charge,
            act=act,
            grant=grant,
            idempotency_key=idempotency_key,
            limit=None,
            directory=None,
            since_s=None,
        )
        if isinstance(act, ClosingAct):
            return charge, await self.closings.post(batcher, charge, act)
        posted = await batcher.settle(charge)
        assert posted is not None
        return charge, posted


def _log_unknown(call: Call, error: Exception) -> None:
    """For the operator: the answer names the carrier, which may not be the cause."""
    extra = {"request_id": call.request_id}
    if isinstance(error, StoreError):
        logger.error("the outcome of a call with a hold is not known: %s", error, extra=extra)
    else:
        logger.error("a call with a hold failed unexpectedly", exc_info=error, extra=extra)


def _answer(call: Call, result: ActResult) -> None:
    call.data = result.data
    call.replay_of = result.replay_of
    call.charged = call.price if result.is_paid else result.captured or 0


def _charge(
    call: Call, batcher: ChargeBatcher, cap: DayCap | None = None, *, is_counted_only: bool = False
) -> Charge:
    """What a call is charged. A call that only counts against the limit pays and stores nothing,
    and may have failed before it had an answer."""
    key = None if is_counted_only else call.idempotency_key
    if key is not None and call.act is None:
        key = replace(key, data=call.data)
    grant = None if is_counted_only or call.caller.is_test else call.grant
    return Charge(
        call.caller.account_id,
        call.operation.balance_unit,
        0 if is_counted_only else call.price,
        call.operation_name,
        call.request_id,
        call.caller.token_id,
        int(call.at_s * 1000),
        None if is_counted_only else call.act,
        grant,
        key,
        call.admission.limit if batcher.counts_calls and call.admission is not None else None,
        # replay_of and cap; positional, because keywords are slower.
        None,
        cap,
        # Counted only for the owner of a grant.
        None if grant is None or call.act is not None else _records(call),
        call.operation.count_records,
        None if is_counted_only else call.directory,
        call.charging_since_s,
    )


def _records(call: Call) -> int | None:
    """How many records of the grant's owner a call returned."""
    return _counted(call, call.data) if call.records is None else call.records


def _counted(call: Call, answer: bytes) -> int | None:
    count = call.operation.count_records
    return None if count is None else count(answer)

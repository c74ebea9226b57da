"""Stage: is the operation open, enabled for this account, and affordable."""

from collections.abc import Awaitable

from tollway.contract.operation import Operation, Unit
from tollway.contract.reasons import Reason, Refusal
from tollway.ledger.directory import Caller, Directory
from tollway.pipeline.call import KEY_HEADER, Call


class Permit:
    """A call that cannot be paid is refused here, before work is done; Settle checks again.

    One with an Idempotency-Key may have been paid before: Replay finds out, and checks then.
    """

    def __init__(self, directory: Directory) -> None:
        self._directory = directory

    def __call__(self, call: Call) -> Awaitable[None] | None:
        operation = call.operation
        state = self._directory.operation_states.get(operation.charged_as)
        if state is not None and state.is_closed:
            raise Refusal(Reason.OPERATION_CLOSED)
        price = self.price_of(call.caller, operation)
        if price is None:
            raise Refusal(Reason.PERMISSION_MISSING)
        call.price = price
        if call.caller.is_test:
            return None
        if KEY_HEADER in call.headers or self._seems_affordable(call):
            return None
        return self.check_affordable(call)

    def price_of(self, caller: Caller, operation: Operation) -> int | None:
        """What a call costs this caller; None if the account may not call the operation."""
        permission = caller.permissions.get(operation.charged_as)
        if permission is None:
            return None
        if caller.is_test:
            return 0
        if permission.price is not None:
            return permission.price
        state = self._directory.operation_states.get(operation.charged_as)
        common = None if state is None else state.price
        return operation.default_price if common is None else common

    async def check_affordable(self, call: Call) -> None:
        operation = call.operation
        if call.price == 0 or self._seems_affordable(call):
            return
        left = await self._directory.amount_left(call.caller.account_id, operation.balance_unit)
        if left < call.price:
            raise cannot_pay(operation, left, call.price)

    def _seems_affordable(self, call: Call) -> bool:
        unit = call.operation.balance_unit
        known = self._directory.remembered_amount(call.caller.account_id, unit)
        return known >= call.price or call.operation.may_be_free


def cannot_pay(operation: Operation, left: int, cost: int) -> Refusal:
    in_calls = operation.unit is Unit.CALLS
    reason = Reason.CALLS_USED_UP if in_calls else Reason.CREDITS_USED_UP
    return Refusal(reason, left=left, cost=cost)

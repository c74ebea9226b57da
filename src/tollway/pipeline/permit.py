"""Stage: is the operation open, enabled for this account, and affordable."""

from collections.abc import Awaitable

from tollway.contract.operation import Operation, Unit
from tollway.contract.reasons import Reason, Refusal
from tollway.ledger.directory import Directory
from tollway.pipeline.call import KEY_HEADER, Call


class Permit:
    """A call that cannot be paid is refused here, before work is done; Settle checks again.

    One with an Idempotency-Key may have been paid before: Replay finds out, and checks then.
    """

    def __init__(self, directory: Directory) -> None:
        self._directory = directory

    def __call__(self, call: Call) -> Awaitable[None] | None:
        operation = call.operation
        state = self._directory.operation_states.get(operation.name)
        if state is not None and state.is_closed:
            raise Refusal(Reason.OPERATION_CLOSED)
        permission = call.caller.permissions.get(operation.name)
        if permission is None:
            raise Refusal(Reason.PERMISSION_MISSING)
        common_price = operation.default_price
        if state is not None and state.price is not None:
            common_price = state.price
        call.price = common_price if permission.price is None else permission.price
        if call.caller.is_test:
            call.price = 0
            return None
        if KEY_HEADER in call.headers or self._seems_affordable(call):
            return None
        return self.check_affordable(call)

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

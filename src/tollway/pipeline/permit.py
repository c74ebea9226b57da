"""Stage: is the operation open, enabled for this account, and affordable."""

from collections.abc import Awaitable
from zoneinfo import ZoneInfo

from tollway.contract.language import Phrase
from tollway.contract.operation import Operation, Unit
from tollway.contract.reasons import Reason, Refusal
from tollway.ledger.caller_cache import Caller, CallerCache
from tollway.ledger.charges import ShortageError
from tollway.ledger.token_limits import DayCap, DayCapError, TokenLimits
from tollway.ledger.usage import midnight_s
from tollway.pipeline.call import KEY_HEADER, Call


class Permit:
    """Refuses a call that cannot be paid before any work is done; Settle checks again.

    A call with an Idempotency-Key may already be paid: Replay finds out, and then checks this.
    """

    def __init__(self, callers: CallerCache, zone: ZoneInfo) -> None:
        self._callers = callers
        self._zone = zone

    def __call__(self, call: Call) -> Awaitable[None] | ShortageError | None:
        operation, caller = call.operation, call.caller
        price = caller.prices.get(operation.name)
        if price is None:
            price = caller.prices[operation.name] = self._find_price(caller, operation)
        call.price = price
        limits = caller.limits
        if limits is not None and not limits.allows(operation.charged_as):
            raise not_for(limits)
        if caller.is_test or KEY_HEADER in call.headers:
            return None
        if limits is not None and limits.is_capped:
            return self.check_affordable(call)
        account_id, unit = caller.account_id, operation.balance_unit
        if self._callers.remembered_amount(account_id, unit) >= price or operation.may_be_free:
            return None
        left = self._callers.amount_at_once(account_id, unit)
        if left is None:
            return self.check_affordable(call)
        return ShortageError(left) if left < price else None

    def check_permitted(self, call: Call) -> None:
        """Refuses a call whose operation is closed, or that the account may not make."""
        self._find_price(call.caller, call.operation)

    def _find_price(self, caller: Caller, operation: Operation) -> int:
        state = self._callers.operation_states.get(operation.charged_as)
        if state is not None and state.is_closed:
            raise Refusal(Reason.OPERATION_CLOSED)
        price = self.price_of(caller, operation)
        if price is None:
            is_suspended = caller.is_suspended
            raise Refusal(Reason.ACCOUNT_SUSPENDED if is_suspended else Reason.PERMISSION_MISSING)
        return price

    def price_of(self, caller: Caller, operation: Operation) -> int | None:
        """What a call costs this caller; None if the account may not call the operation."""
        permission = caller.permissions.get(operation.charged_as)
        if permission is None or caller.is_suspended:
            return None
        if caller.is_test or operation.is_file:
            return 0
        if permission.price is not None:
            return permission.price
        state = self._callers.operation_states.get(operation.charged_as)
        listed = None if state is None else state.price
        return operation.default_price if listed is None else listed

    async def check_affordable(self, call: Call) -> None:
        operation = call.operation
        cap = day_cap(call, self._zone)
        if cap is not None and not operation.may_be_free:
            unit = operation.balance_unit
            await self._callers.check_cap(call.caller.token_id, cap, unit, call.price)
        if call.price == 0 or operation.may_be_free:
            return
        account_id, unit = call.caller.account_id, operation.balance_unit
        if self._callers.remembered_amount(account_id, unit) >= call.price:
            return
        left = await self._callers.amount_left(account_id, unit)
        if left < call.price:
            raise ShortageError(left)


def day_cap(call: Call, zone: ZoneInfo) -> DayCap | None:
    """What the token of a call may spend today, if that is limited."""
    limits = call.caller.limits
    if limits is None or not limits.is_capped:
        return None
    day_at_ms = midnight_s(call.at_s, zone) * 1000
    return DayCap(limits.credits_per_day, limits.calls_per_day, day_at_ms)


def not_for(limits: TokenLimits) -> Refusal:
    """The refusal of an operation that a token is not limited to."""
    return Refusal(Reason.TOKEN_NOT_FOR_THIS, operations=", ".join(limits.operations or ()))


_CAPPED = {
    "credits": (Phrase("credit", "点数"), Phrase("credits", "点数")),
    "calls": (Phrase("call", "调用次数"), Phrase("calls", "调用次数")),
}


def cannot_pay(operation: Operation, error: ShortageError | DayCapError, cost: int) -> Refusal:
    left = error.left
    if isinstance(error, DayCapError):
        unit, most = _CAPPED[error.unit][error.most != 1], error.most
        return Refusal(Reason.TOKEN_DAY_USED_UP, unit=unit, left=left, most=most, cost=error.cost)
    in_calls = operation.unit is Unit.CALLS
    reason = Reason.CALLS_USED_UP if in_calls else Reason.CREDITS_USED_UP
    return Refusal(reason, left=left, cost=cost)

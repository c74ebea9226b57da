"""The stages of a request to the account API that are not those of a call."""

from collections.abc import Mapping

from tollway.account.balance import LIMITED
from tollway.account.operation import AccountCall, Handler, RateLimit
from tollway.contract.envelope import encode_data
from tollway.contract.reasons import Reason, Refusal
from tollway.pipeline.call import Call
from tollway.pipeline.throttle import Throttle


class RequireLive:
    """Stage: a test token is for the sandbox, and the account is not in it."""

    def __call__(self, call: Call) -> None:
        if call.caller.is_test:
            raise Refusal(Reason.LIVE_TOKEN_NEEDED)


class PerformAccount:
    """Stage: the endpoint's work. Nothing is charged."""

    def __init__(self, handlers: Mapping[str, Handler], throttle: Throttle) -> None:
        self._handlers = handlers
        self._throttle = throttle

    async def __call__(self, call: Call) -> None:
        caller, throttle = call.caller, self._throttle

        def rate_limits() -> list[RateLimit]:
            left = ((name, throttle.left(caller, name)) for name in LIMITED)
            return [RateLimit(name, each.limit, each.remaining) for name, each in left]

        account_call = AccountCall(
            caller.account_id, caller.expires_at_s, call.at_s, call.language, rate_limits
        )
        call.data = encode_data(
            await self._handlers[call.operation.name](call.request, account_call)
        )

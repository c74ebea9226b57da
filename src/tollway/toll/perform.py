"""Stage: the operation's own work."""

from collections.abc import Mapping

from tollway.contract.operation import Caller
from tollway.operations.handling import Handler
from tollway.toll.call import Call


class Perform:
    """Hands the request to its handler: the sandbox's for a test token, the real one otherwise."""

    def __init__(self, live: Mapping[str, Handler], sandbox: Mapping[str, Handler]) -> None:
        self._live = live
        self._sandbox = sandbox

    async def __call__(self, call: Call) -> None:
        handlers = self._sandbox if call.passport.is_test else self._live
        caller = Caller(call.passport.account_id, call.price, call.language)
        result = await handlers[call.operation_name](call.request, caller)
        if isinstance(result, bytes):
            call.data = result
        else:
            call.act = result

"""Stage: the operation's own work."""

from tollway.contract.envelope import NO_DATA, encode_data
from tollway.contract.operation import CallInfo
from tollway.operations.subject import Priced, Stream
from tollway.pipeline.call import Call


class Perform:
    """Calls the operation's handler, which returns the payload or an act for Settle."""

    async def __call__(self, call: Call) -> None:
        if call.sandbox_outcome is not None:
            call.data = encode_data(call.sandbox_outcome(call.request))
            return
        info = CallInfo(call.caller.account_id, call.price, call.language)
        result = await call.side.handlers[call.operation.name](call.request, info)
        if isinstance(result, bytes):
            call.data = result
        elif isinstance(result, Priced):
            call.price *= result.times
            call.data = result.data
        elif isinstance(result, Stream):
            call.data, call.stream = NO_DATA, result
        elif callable(result):
            call.act = result
        else:
            # Or a mistake in an installed operation would be charged before it is noticed.
            raise TypeError(f"the handler of {call.operation.name} returned {type(result)}")

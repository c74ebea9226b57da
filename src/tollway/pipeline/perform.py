"""Stage: the operation's own work."""

from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from functools import partial

from tollway.contract.envelope import NO_DATA, encode_data
from tollway.contract.operation import CallInfo
from tollway.contract.reasons import Reason, Refusal
from tollway.operations.subject import Counted, Priced, Result, Stream
from tollway.pipeline.call import Call

# How many files one process sends an account at once: each reads from the database for as long as
# its receiver likes.
_FILES_MAX = 2


class Perform:
    """Calls the operation's handler, which returns the payload or an act for Settle.

    `check_again` refuses a call that may not be made any more, while a file is sent.
    """

    def __init__(self, check_again: Callable[[Call], Awaitable[None]]) -> None:
        self._check_again = check_again
        self._files: Counter[str] = Counter()

    def __call__(self, call: Call) -> Awaitable[None] | None:
        if call.sandbox_outcome is not None:
            call.data = encode_data(call.sandbox_outcome(call.request, call.language))
            return None
        info = CallInfo(call.caller.account_id, call.price, call.language)
        found = call.environment.handlers[call.operation.name](call.request, info)
        if isinstance(found, bytes):
            call.data = found
            return None
        # Results are mostly tuples, and checking for those is faster than for an awaitable.
        if not isinstance(found, tuple) and isinstance(found, Awaitable):
            return self._wait(call, found)
        self._take(call, found)
        return None

    async def _wait(self, call: Call, waiting: Awaitable[Result]) -> None:
        self._take(call, await waiting)

    def _take(self, call: Call, result: Result) -> None:
        if isinstance(result, bytes):
            call.data = result
        elif isinstance(result, Counted):
            call.data, call.records = result
        elif isinstance(result, Priced):
            call.price *= result.times
            call.data, call.act = result.data, result.act
        elif isinstance(result, Stream):
            call.data, call.stream = NO_DATA, self._begun(result, call)
        elif callable(result):
            call.act = result
        else:
            # Otherwise a bug in an installed operation would be charged before it is noticed.
            raise TypeError(f"the handler of {call.operation.name} returned {type(result)}")

    def _begun(self, stream: Stream, call: Call) -> Stream:
        account_id = call.caller.account_id
        if self._files[account_id] >= _FILES_MAX:
            raise Refusal(Reason.FILES_TOO_MANY, most=_FILES_MAX)
        self._files[account_id] += 1
        pieces = self._while_permitted(call, stream.pieces)
        return stream._replace(pieces=pieces, end=partial(self._end, account_id))

    async def _while_permitted(
        self, call: Call, pieces: AsyncGenerator[bytes, None]
    ) -> AsyncGenerator[bytes, None]:
        """The file breaks off when its receiver, who may read it for hours, loses the right to
        it."""
        async with aclosing(pieces):
            async for piece in pieces:
                yield piece
                await self._check_again(call)

    def _end(self, account_id: str) -> None:
        self._files[account_id] -= 1
        if not self._files[account_id]:
            del self._files[account_id]

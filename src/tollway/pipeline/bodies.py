"""Reading the bodies of requests: how large, how slow, and how many at once.

The bodies in memory have one budget of bytes, for all requests of a process together. A sender that
holds many of them back one byte short of their end uses up its own share, and not the memory.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import suppress
from time import monotonic
from typing import Any

from tollway.contract.language import Phrase
from tollway.contract.reasons import Reason, Refusal

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
# Reads the whole body, of at most so many bytes, of a sender.
ReadBody = Callable[[int, str], Awaitable[bytes]]

_BUDGET_BYTES = 16 * 2**20
# So much of every body needs no share, so that an ordinary call, form or request for a token is
# read whatever others send. The number of connections bounds it.
_ALWAYS_BYTES = 1024
# A larger body is a push, which needs one of a few slots before it is read (intake/push.py).
_COUNTED_MAX_BYTES = 65_536


class OverBudgetError(Exception):
    """The sender of a body holds its share of the budget already."""


class ByteBudget:
    """The bytes that all bodies in memory may have, shared by their senders.

    A sender may hold as much as is still free. So one alone gets half of the budget, and of n that
    want all they can get, each holds 1/(n + 1), and as much is free for the next.
    """

    def __init__(self, total: int = _BUDGET_BYTES) -> None:
        self._free = total
        self._held: dict[str, int] = {}

    def take(self, sender: str, size: int) -> None:
        held = self._held.get(sender, 0) + size
        if held > self._free - size:
            raise OverBudgetError
        self._held[sender] = held
        self._free -= size

    def give_back(self, sender: str, size: int) -> None:
        self._free += size
        left = self._held[sender] - size
        if left:
            self._held[sender] = left
        else:
            del self._held[sender]


class BodyShare:
    """What one body takes from the budget; given back at the end of its block."""

    def __init__(self, budget: ByteBudget, sender: str) -> None:
        self._budget = budget
        self._sender = sender
        self._taken = 0

    def cover(self, size: int) -> None:
        """Takes what a body of this size needs; raises OverBudgetError if it is too much."""
        more = min(size, _COUNTED_MAX_BYTES) - _ALWAYS_BYTES - self._taken
        if more > 0:
            self._budget.take(self._sender, more)
            self._taken += more

    def __enter__(self) -> "BodyShare":
        return self

    def __exit__(self, *_: object) -> None:
        if self._taken:
            self._budget.give_back(self._sender, self._taken)


def receive_within(receive: Receive, share: BodyShare) -> Receive:
    """For applications that read their bodies themselves: the sender seems to hang up when its
    share is used up."""
    size = 0

    async def received() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        try:
            share.cover(size)
        except OverBudgetError:
            return {"type": "http.disconnect"}
        return message

    return received


_BODY = Phrase("request body", "请求体")
_CUT_OFF = Phrase("the connection ended before its end", "连接提前中断")
# If a call is refused before its body is read, this much is discarded to keep the connection.
_READ_OVER_MAX_BYTES = 65_536
_READ_OVER_MAX_S = 1.0


# How often waits are looked at.
_LOOK_S = 0.1


class Deadlines:
    """Ends waits that take too long. One timer looks at all of them: a timer for each would cost
    more than all else that is done to read a short body."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        # When each wait ends; those of one timeout are in the order of their ends.
        self._ends_s: dict[asyncio.Task[Any], float] = {}
        self._ended: set[asyncio.Task[Any]] = set()
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> asyncio.Task[Any]:
        """Begins a wait of the current task."""
        task = asyncio.current_task()
        assert task is not None
        self._ends_s[task] = monotonic() + self._timeout_s
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_LOOK_S, self._look)
        return task

    def end(self, task: asyncio.Task[Any]) -> bool:
        """Ends a wait; whether it took too long, and was therefore cancelled from here."""
        self._ends_s.pop(task, None)
        if task not in self._ended:
            return False
        self._ended.discard(task)
        return task.uncancel() == 0

    def _look(self) -> None:
        self._timer = None
        now_s = monotonic()
        for task, end_s in list(self._ends_s.items()):
            if end_s > now_s:
                break
            del self._ends_s[task]
            self._ended.add(task)
            task.cancel()
        if self._ends_s:
            self._timer = asyncio.get_running_loop().call_later(_LOOK_S, self._look)


class Body:
    """The body of a call; it may arrive later than the headers, or never.

    The next request can follow once it `is_over`.
    """

    def __init__(
        self,
        headers: Mapping[bytes, bytes],
        receive: Receive,
        timeout_s: int,
        budget: ByteBudget,
        deadlines: Deadlines,
    ) -> None:
        self._announced = headers.get(b"content-length", b"0")
        self.is_over = self._announced == b"0" and b"transfer-encoding" not in headers
        self._is_late = False
        self._receive = receive
        self._timeout_s = timeout_s
        self._budget = budget
        self._deadlines = deadlines

    async def read(self, limit: int, sender: str) -> bytes:
        if not 0 <= self._length() <= limit:
            raise Refusal(Reason.BODY_TOO_LARGE, limit=limit)
        if self.is_over:
            return b""
        waiting = self._deadlines.begin()
        is_late = False
        try:
            piece = await self._next()
            # Most bodies come in one piece.
            if self.is_over and len(piece) <= min(limit, _ALWAYS_BYTES):
                return piece
            with BodyShare(self._budget, sender) as share:
                return await self._collect(piece, limit, share)
        except asyncio.CancelledError:
            is_late = self._deadlines.end(waiting)
            if not is_late:
                raise
        except OverBudgetError:
            raise Refusal(Reason.BODIES_TOO_MANY) from None
        finally:
            if not is_late:
                self._deadlines.end(waiting)
        self._is_late = True
        raise Refusal(Reason.BODY_TIMED_OUT, limit_s=self._timeout_s)

    async def _collect(self, first: bytes, limit: int, share: BodyShare) -> bytes:
        body = bytearray(first)
        while True:
            if len(body) > limit:
                raise Refusal(Reason.BODY_TOO_LARGE, limit=limit)
            share.cover(len(body))
            if self.is_over:
                return bytes(body)
            body += await self._next()

    async def read_over(self) -> None:
        """Discards a short body that no stage read, if it comes soon."""
        if not self._is_late and 0 < self._length() <= _READ_OVER_MAX_BYTES:
            with suppress(TimeoutError, Refusal):
                async with asyncio.timeout(_READ_OVER_MAX_S):
                    while not self.is_over:
                        await self._next()

    def _length(self) -> int:
        """The announced length; negative if Content-Length is invalid."""
        is_number = self._announced.isdigit() and len(self._announced) <= 18
        return int(self._announced) if is_number else -1

    async def _next(self) -> bytes:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise Refusal(Reason.BODY_UNREADABLE, part=_BODY, problem=_CUT_OFF)
        self.is_over = not message.get("more_body", False)
        piece: bytes = message.get("body", b"")
        return piece


async def _receive_nothing() -> Message:
    return {"type": "http.request"}


# The body of a request without one, for all of them.
NO_BODY = Body({}, _receive_nothing, 0, ByteBudget(), Deadlines(0))

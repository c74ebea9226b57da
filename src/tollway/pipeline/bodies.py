"""Reading the bodies of requests: how large, how slow, and how many at once.

All requests of a process share one budget of bytes for the bodies in memory. A sender that stalls
many bodies one byte before their end uses up its own share, not the memory.
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator, Mapping, MutableMapping
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Any, Protocol

from tollway.contract.language import Phrase
from tollway.contract.reasons import Reason, Refusal

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_BUDGET_BYTES = 16 * 2**20
# This much of every body is not counted, so that an ordinary call, form or token request is read
# whatever others send. The number of connections bounds the total.
_ALWAYS_BYTES = 1024
# Outside of calls, only pushes have larger bodies, and they need one of a few slots before they are
# read (intake/push.py).
_COUNTED_MAX_BYTES = 65_536


class OverBudgetError(Exception):
    """The sender of a body has used up its share of the budget."""


class ByteBudget:
    """The bytes that all bodies in memory may have, shared by their senders.

    A sender may hold as much as is still free. So a single one gets half of the budget, and n
    greedy ones get 1/(n + 1) each, which leaves as much for the next.
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
    """What one body takes from the budget; given back at the end of the `with` block."""

    def __init__(self, budget: ByteBudget, sender: str) -> None:
        self._budget = budget
        self._sender = sender
        self._taken = 0

    def cover(self, size: int) -> None:
        """Takes what a body of this size needs; raises OverBudgetError if it is too much."""
        more = size - _ALWAYS_BYTES - self._taken
        if more > 0:
            self._budget.take(self._sender, more)
            self._taken += more

    def __enter__(self) -> "BodyShare":
        return self

    def __exit__(self, *_: object) -> None:
        if self._taken:
            self._budget.give_back(self._sender, self._taken)


def has_body(headers: Mapping[bytes, bytes]) -> bool:
    """Whether a body, of any length, comes behind these headers."""
    return headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers


class NotedEnd:
    """For applications that read bodies themselves: whether the body of a request is over."""

    def __init__(self, headers: Mapping[bytes, bytes], receive: Receive) -> None:
        self.is_over = not has_body(headers)
        self._receive = receive

    async def receive(self) -> Message:
        message = await self._receive()
        self.is_over = self.is_over or not message.get("more_body")
        return message


def receive_within(receive: Receive, share: BodyShare) -> Receive:
    """For applications that read bodies themselves: when the share is used up, they see a
    disconnect."""
    size = 0

    async def received() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        try:
            share.cover(min(size, _COUNTED_MAX_BYTES))
        except OverBudgetError:
            return {"type": "http.disconnect"}
        return message

    return received


_BODY = Phrase("request body", "请求体")
_CUT_OFF = Phrase("the connection ended before its end", "连接提前中断")
# If a call is refused before its body is read, this much is discarded to keep the connection: as
# long as the longest body of our operations, a batch of waybills. Most clients read nothing until
# they have sent everything, and would see a broken connection instead of the answer.
_READ_OVER_MAX_BYTES = 524_288
_READ_OVER_MAX_S = 1.0


# How often deadlines are checked.
_LOOK_S = 0.1


class Waiter(Protocol):
    """What waits, and can be made to stop: a task, or a piece of a body."""

    def cancel(self) -> object: ...


class Deadlines:
    """Cancels waits that take too long. One timer checks them all: a timer for each would cost more
    than everything else that reading a short body takes."""

    def __init__(self) -> None:
        self._ends_s: dict[Waiter, float] = {}
        self._ended: set[Waiter] = set()
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, waiter: Waiter, end_s: float) -> None:
        self._ends_s[waiter] = end_s
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_LOOK_S, self._look)

    def end(self, waiter: Waiter) -> bool:
        """Ends a wait; returns whether it took too long and was cancelled here."""
        self._ends_s.pop(waiter, None)
        if waiter not in self._ended:
            return False
        self._ended.discard(waiter)
        return True

    def _look(self) -> None:
        self._timer = None
        now_s = monotonic()
        for waiter in [waiter for waiter, end_s in self._ends_s.items() if end_s <= now_s]:
            del self._ends_s[waiter]
            self._ended.add(waiter)
            waiter.cancel()
        if self._ends_s:
            self._timer = asyncio.get_running_loop().call_later(_LOOK_S, self._look)


class Body:
    """The body of a call; it may arrive later than the headers, or never.

    The next request on the connection can follow once it `is_over`.
    """

    def __init__(
        self,
        headers: Mapping[bytes, bytes],
        receive: Receive,
        timeout_s: int,
        budget: ByteBudget,
        deadlines: Deadlines,
    ) -> None:
        announced = headers.get(b"content-length", b"0")
        is_announced = b"transfer-encoding" not in headers
        self.is_over = not has_body(headers)
        # How much is still to come, if known: counting saves waiting for the separate message with
        # which the server marks the end of a body.
        self._length = _length_of(announced)
        self._missing = self._length if is_announced else -1
        self._has_timed_out = False
        self._receive = receive
        self._timeout_s = timeout_s
        self._budget = budget
        self._deadlines = deadlines

    def check_length(self, limit: int) -> None:
        if not 0 <= self._length <= limit:
            raise Refusal(Reason.BODY_TOO_LARGE, limit=limit)

    def begin(self, then: "OnFirstPiece") -> "FirstPiece | None":
        """Starts to receive the body without a task, if the server supports that; `then` gets the
        first piece."""
        coming = self._receive()
        if not hasattr(coming, "add_done_callback"):
            self._receive = _after(coming, self._receive)
            return None
        return FirstPiece(self, coming, self._deadlines, monotonic() + self._timeout_s, then)

    async def read(self, limit: int, sender: str, begun: "FirstPiece | None" = None) -> bytes:
        """The whole body, of at most `limit` bytes; continues after the first piece if that has
        arrived (`begun`)."""
        task = asyncio.current_task()
        assert task is not None
        end_s = monotonic() + self._timeout_s if begun is None else begun.end_s
        self._deadlines.begin(task, end_s)
        try:
            with BodyShare(self._budget, sender) as share:
                first = await self._next() if begun is None else begun.piece
                return await self._collect(first, limit, share)
        except asyncio.CancelledError:
            if not self._deadlines.end(task) or task.uncancel() > 0:
                raise
        except OverBudgetError:
            raise Refusal(Reason.BODIES_TOO_MANY) from None
        finally:
            self._deadlines.end(task)
        raise self.timed_out()

    def timed_out(self) -> Refusal:
        """The refusal of a body that took too long: from then on no more of it is read."""
        self._has_timed_out = True
        return Refusal(Reason.BODY_TIMED_OUT, limit_s=self._timeout_s)

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
        """Discards a body that no stage read, unless it is long, if it comes soon."""
        if not self._has_timed_out and 0 < self._length <= _READ_OVER_MAX_BYTES:
            with suppress(TimeoutError, Refusal):
                async with asyncio.timeout(_READ_OVER_MAX_S):
                    while not self.is_over:
                        await self._next()

    async def _next(self) -> bytes:
        return self.take(await self._receive())

    def take(self, message: Message) -> bytes:
        """Returns the next piece, and notes whether it is the last."""
        if message["type"] == "http.disconnect":
            raise Refusal(Reason.BODY_UNREADABLE, part=_BODY, problem=_CUT_OFF)
        piece: bytes = message.get("body", b"")
        self._missing -= len(piece)
        self.is_over = self._missing == 0 or not message.get("more_body", False)
        return piece


def _length_of(announced: bytes) -> int:
    """The announced length; negative if Content-Length is invalid."""
    return int(announced) if announced.isdigit() and len(announced) <= 18 else -1


def _after(coming: Awaitable[Message], receive: Receive) -> Receive:
    """Receives the message that was already requested, then all that follow."""
    first: Awaitable[Message] | None = coming

    def received() -> Awaitable[Message]:
        nonlocal first
        asked, first = first, None
        return receive() if asked is None else asked

    return received


class FirstPiece:
    """The first piece of a body under way, usually the whole body. It takes a single callback,
    which runs on the loop."""

    def __init__(
        self, body: Body, coming: Any, deadlines: Deadlines, end_s: float, then: "OnFirstPiece"
    ) -> None:
        self._body = body
        self._coming = coming
        self._deadlines = deadlines
        self.end_s = end_s
        self.piece = b""
        # Whether it is a whole body, short enough to need no share of the budget.
        self.is_all = False
        self._then = then

    def add_done_callback(self, callback: Callable[[object], object]) -> None:
        self._deadlines.begin(self, self.end_s)
        self._coming.add_done_callback(callback)

    def cancel(self) -> None:
        """Called when the deadline has passed."""
        self._coming.cancel()

    def resume(self) -> Awaitable[object] | None:
        """Continues the stage that waited."""
        is_late = self._deadlines.end(self)
        # The server's future keeps its callback, which refers back to this object: a cycle that the
        # garbage collector cannot see, so the call and its answer would leak.
        coming, self._coming = self._coming, None
        try:
            self.piece = self._body.take(coming.result())
        except asyncio.CancelledError:
            if not is_late:
                raise
            raise self._body.timed_out() from None
        self.is_all = self._body.is_over and len(self.piece) <= _ALWAYS_BYTES
        return self._then(self)

    def __await__(self) -> Generator[Any, None, None]:
        waiter = asyncio.get_running_loop().create_future()
        self.add_done_callback(partial(_wake, waiter))
        try:
            yield from waiter
        except asyncio.CancelledError:
            # `resume` is not called in this case.
            self._deadlines.end(self)
            raise


def _wake(waiter: asyncio.Future[None], _: object) -> None:
    if not waiter.done():
        waiter.set_result(None)


# What a stage does with the first piece.
OnFirstPiece = Callable[[FirstPiece], Awaitable[None] | None]

# Shared by all requests without a body. It is over, so nothing is ever received.
NO_BODY = Body({}, asyncio.Queue[Message]().get, 0, ByteBudget(), Deadlines())

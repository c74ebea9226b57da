"""The body of a call: a short one is waited for without a task, and every wait has its end."""

import asyncio
import gc
from collections.abc import Awaitable, Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, cast
from weakref import ref
from zoneinfo import ZoneInfo

import pytest

from tollway.contract.reasons import Reason, Refusal
from tollway.operations.account_api import ACCOUNT_OPERATIONS
from tollway.operations.coupon_claims.operation import COUPON_CLAIMS, CouponClaimsRequest
from tollway.pipeline import bodies
from tollway.pipeline.bodies import Body, ByteBudget, Deadlines, FirstPiece, Message
from tollway.pipeline.call import Call
from tollway.pipeline.decode import Decode
from tollway.pipeline.steps import Waiting

pytestmark = pytest.mark.sqlite

# All its parameters may be left out.
WEBHOOKS_TEST = "account_webhooks_test"
FORM = b"startTime=1750000000&endTime=1750003600&page=2&limit=20&sid=s1&type=4"
LONG = FORM + b"&more=" + b"x" * 3000
DECODE = Decode([COUPON_CLAIMS], ZoneInfo("Asia/Shanghai"))


class Sender:
    """Sends pieces as the server hands them over; the end is a message of its own. After the last
    piece it says nothing more if it is silent."""

    def __init__(self, *pieces: bytes, is_silent: bool = False) -> None:
        self._messages: list[Message] = [
            {"type": "http.request", "body": piece, "more_body": True} for piece in pieces
        ]
        if not is_silent:
            self._messages.append({"type": "http.request", "body": b"", "more_body": False})
        self.asked: list[asyncio.Future[Message]] = []

    def receive(self) -> asyncio.Future[Message]:
        coming: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self.asked.append(coming)
        if self._messages:
            asyncio.get_running_loop().call_soon(coming.set_result, self._messages.pop(0))
        return coming

    async def receive_in_a_coroutine(self) -> Message:
        return await self.receive()


class WatchedCall(Call):
    """A call that a weak reference can be made to, since it has more than its slots."""


def call_of(
    receive: Callable[[], Awaitable[Message]], length: int | None, timeout_s: float = 60
) -> Call:
    headers = {b"content-type": b"application/x-www-form-urlencoded"}
    headers |= (
        {b"transfer-encoding": b"chunked"}
        if length is None
        else {b"content-length": b"%d" % length}
    )
    body = Body(headers, receive, cast(int, timeout_s), ByteBudget(), Deadlines())
    call = WatchedCall("", "POST", COUPON_CLAIMS.path, b"", headers, body, 0.0)
    call.operation = COUPON_CLAIMS
    call.caller = cast(Any, SimpleNamespace(account_id="account"))
    return call


async def decoded(call: Call) -> bool:
    """Decodes a call as the pipeline does; whether that needed a task."""
    waiting = DECODE(call)
    if isinstance(waiting, FirstPiece):
        await waiting
        waiting = waiting.resume()
    if waiting is not None:
        await waiting
    return waiting is not None


def run(work: Awaitable[bool]) -> bool:
    async def limited() -> bool:
        async with asyncio.timeout(60):
            return await work

    return asyncio.run(limited())


@pytest.mark.parametrize(
    ("pieces", "length", "needs_task", "messages"),
    [
        ((FORM,), len(FORM), False, 1),
        ((FORM[:30], FORM[30:]), len(FORM), True, 2),
        ((FORM,), None, True, 2),
        ((LONG,), len(LONG), True, 1),
        ((LONG[:2000], LONG[2000:]), None, True, 3),
    ],
    ids=["short", "two pieces", "of no length", "long", "long and of no length"],
)
def test_a_body_is_read_to_its_end_and_no_further(
    pieces: tuple[bytes, ...], length: int | None, needs_task: bool, messages: int
) -> None:
    async def work() -> bool:
        sender = Sender(*pieces)
        call = call_of(sender.receive, length)
        found = await decoded(call)
        assert isinstance(call.request, CouponClaimsRequest) and call.request.page == 2
        assert call.body.is_over
        assert len(sender.asked) == messages
        return found

    assert run(work()) == needs_task


def test_a_server_whose_messages_are_coroutines_is_waited_for_too() -> None:
    async def work() -> bool:
        call = call_of(Sender(FORM).receive_in_a_coroutine, len(FORM))
        needs_task = await decoded(call)
        assert call.request.page == 2
        return needs_task

    assert run(work())


@pytest.mark.parametrize("pieces", [(), (FORM[:30],)], ids=["nothing comes", "half of it comes"])
def test_a_body_that_does_not_come_is_given_up(
    pieces: tuple[bytes, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "_LOOK_S", 0.01)

    async def work() -> bool:
        sender = Sender(*pieces, is_silent=True)
        call = call_of(sender.receive, len(FORM), timeout_s=0.1)
        with pytest.raises(Refusal) as refused:
            await decoded(call)
        assert refused.value.reason is Reason.BODY_TIMED_OUT
        assert sender.asked[-1].cancelled()
        # What is late is not read over either.
        await call.body.read_over()
        return len(sender.asked) == len(pieces) + 1 and not call.body.is_over

    assert run(work())


def test_the_end_of_a_wait_is_that_of_the_whole_body(monkeypatch: pytest.MonkeyPatch) -> None:
    ends_s: list[float] = []
    monkeypatch.setattr(Deadlines, "begin", lambda _self, _waiter, end_s: ends_s.append(end_s))

    async def work() -> bool:
        return await decoded(call_of(Sender(FORM[:30], FORM[30:]).receive, len(FORM)))

    assert run(work())
    assert len(ends_s) == 2 and ends_s[0] == ends_s[1]


def test_a_connection_that_ends_before_its_body_is_another_reason() -> None:
    async def work() -> bool:
        sender = Sender(is_silent=True)
        call = call_of(sender.receive, len(FORM))
        deciding = asyncio.ensure_future(decoded(call))
        await asyncio.sleep(0)
        sender.asked[0].set_result({"type": "http.disconnect"})
        with pytest.raises(Refusal) as refused:
            await deciding
        return refused.value.reason is Reason.BODY_UNREADABLE

    assert run(work())


def test_a_wait_that_is_cancelled_leaves_nothing_behind() -> None:
    async def work() -> bool:
        call = call_of(Sender(is_silent=True).receive, len(FORM))
        deciding = asyncio.ensure_future(decoded(call))
        await asyncio.sleep(0)
        deadlines = call.body._deadlines
        assert len(deadlines._ends_s) == 1
        deciding.cancel()
        await asyncio.wait([deciding])
        return not deadlines._ends_s and not deadlines._ended

    assert run(work())


class KeepingFuture:
    """As the server's own: it keeps its callback once that was called."""

    def __init__(self, message: Message) -> None:
        self._message = message

    def add_done_callback(self, callback: Callable[[object], object]) -> None:
        self._callback = callback
        asyncio.get_running_loop().call_soon(callback, self)

    def result(self) -> Message:
        return self._message


async def answered() -> "ref[Call]":
    """A call that waited for its body as the dispatcher lets it wait."""
    message: Message = {"type": "http.request", "body": FORM, "more_body": False}
    call = call_of(lambda: cast(Any, KeepingFuture(message)), len(FORM))
    first = DECODE(call)
    assert isinstance(first, FirstPiece)
    done = asyncio.Event()
    first.add_done_callback(partial(_resume, Waiting(call, first, cast(Any, None)), done))
    await done.wait()
    assert call.request.page == 2
    return ref(call)


def _resume(waiting: Waiting, done: asyncio.Event, _: object) -> None:
    assert waiting.pending.resume() is None
    done.set()


def test_a_call_whose_body_was_read_is_freed_without_the_garbage_collector() -> None:
    async def work() -> bool:
        return (await answered())() is None

    gc.disable()
    try:
        assert run(work())
    finally:
        gc.enable()


def test_a_call_without_a_body_is_decoded_at_once() -> None:
    decode = Decode(ACCOUNT_OPERATIONS, ZoneInfo("Asia/Shanghai"))
    call = call_of(Sender().receive, 0)
    call.operation = next(each for each in ACCOUNT_OPERATIONS if each.name == WEBHOOKS_TEST)
    assert decode(call) is None
    assert call.request == call.operation.request_type()
    call.operation = COUPON_CLAIMS
    with pytest.raises(Refusal) as refused:
        DECODE(call)
    assert refused.value.reason is Reason.PARAMETER_MISSING


LIMIT = COUPON_CLAIMS.body_max_bytes


@pytest.mark.parametrize(
    ("pieces", "length", "messages"),
    [((), LIMIT + 1, 0), ((b"x" * LIMIT, b"x", b"x"), None, 2)],
    ids=["announced", "of no length"],
)
def test_a_body_that_is_too_large_is_read_no_further(
    pieces: tuple[bytes, ...], length: int | None, messages: int
) -> None:
    async def work() -> bool:
        sender = Sender(*pieces)
        with pytest.raises(Refusal) as refused:
            await decoded(call_of(sender.receive, length))
        assert refused.value.reason is Reason.BODY_TOO_LARGE
        assert refused.value.values == {"limit": LIMIT}
        return len(sender.asked) == messages

    assert run(work())


@pytest.mark.parametrize("pieces", [(), (FORM[:30],)], ids=["the first piece", "a later one"])
@pytest.mark.parametrize("by_server", [False, True], ids=["its task", "its message"])
def test_a_body_whose_wait_is_cancelled_has_not_timed_out(
    pieces: tuple[bytes, ...], by_server: bool
) -> None:
    async def work() -> bool:
        sender = Sender(*pieces, is_silent=True)
        deciding = asyncio.ensure_future(decoded(call_of(sender.receive, len(FORM))))
        while len(sender.asked) <= len(pieces):  # noqa: ASYNC110 - it can only be polled
            await asyncio.sleep(0)
        (sender.asked[-1] if by_server else deciding).cancel()
        await asyncio.wait([deciding])
        return deciding.cancelled()

    assert run(work())


def test_a_message_that_comes_after_its_wait_was_cancelled_is_no_error() -> None:
    async def work() -> bool:
        errors: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
        sender = Sender(is_silent=True)
        deciding = asyncio.ensure_future(decoded(call_of(sender.receive, len(FORM))))
        await asyncio.sleep(0)
        deciding.cancel()
        await asyncio.wait([deciding])
        sender.asked[0].set_result({"type": "http.disconnect"})
        # The callbacks of the message run in the next turn.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return not errors

    assert run(work())

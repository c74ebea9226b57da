"""From the HTTP server's threads to the event loop: starts requests without a task for each.

The server makes a coroutine and a task for every request, and schedules it separately. Most calls
need neither: a refused call, for example, is answered at once. So this replaces the server's own
scheduler. Requests wait in a queue, which one callback on the loop works through. Calls that arrive
together start together, and those whose bodies or charges arrive together continue together. Only
what must wait for something else becomes a task. Other requests than calls go to the server's own
callback, with addresses taking turns.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Protocol

import granian.server.mp
from granian._granian import CallbackScheduler

from tollway.pipeline.bodies import Scope
from tollway.pipeline.call import Answer
from tollway.pipeline.http import Edge, Request, messages
from tollway.pipeline.steps import Progress, Waiting
from tollway.store.concurrency import TurnQueue
from tollway.store.loop_share import LoopShare, LoopTime

# Whether a request is a call.
CallTest = Callable[[Scope], bool]


class Beginning(Protocol):
    """An application that can answer without waiting. `call_test` returns the test for calls that
    applies now; None if all requests go to the server's own callback. `address_of` is the address
    that a request counts for."""

    @property
    def edge(self) -> Edge: ...

    def call_test(self) -> CallTest | None: ...

    def address_of(self, scope: Scope) -> str: ...


# How many calls run together, and so how many answers share the cost of waking the writing thread.
# With more, the first would wait too long for the last.
_TOGETHER_MAX = 32
# How many other requests start in one iteration of the loop. A flood of them would otherwise start
# in a single iteration, and a call needs several until it is answered. Nor must a probe from
# another address wait for the whole flood: its sender would take the gateway for dead.
_OTHERS_TOGETHER_MAX = 4
# Not even a flood that has used up more than the share keeps a probe waiting for longer.
_REST_MAX_S = 0.25

# The server's own object for a request: its scope, its protocol, and where errors go.
Watcher = Any


class Dispatcher:
    """Starts the requests that have arrived, on the loop."""

    def __init__(
        self,
        application: Beginning,
        loop: asyncio.AbstractEventLoop,
        other: Callable[[Watcher], Coroutine[Any, Any, None]],
    ) -> None:
        self._application = application
        self._loop = loop
        self._other = other
        self._waiting: deque[Watcher] = deque()
        self._is_due = False
        # By address.
        self._others: TurnQueue[Watcher] = TurnQueue()
        self._share = LoopShare()
        # Calls whose wait is over.
        self._ready: list[tuple[Watcher, Waiting]] = []

    def add(self, watcher: Watcher) -> None:
        """Called by a thread of the server."""
        self._waiting.append(watcher)
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon_threadsafe(self._begin_all)

    def _begin_all(self) -> None:
        waiting, is_call = self._waiting, self._application.call_test()
        left = len(waiting)
        try:
            while left:
                count = min(left, _TOGETHER_MAX)
                left -= count
                calls: list[Watcher] = []
                requests: list[Request] = []
                for _ in range(count):
                    watcher = waiting.popleft()
                    try:
                        scope = watcher.scope
                        if is_call is not None and is_call(scope):
                            requests.append((scope, watcher.proto.receive))
                            calls.append(watcher)
                        else:
                            self._add_other(watcher)
                    except Exception as error:
                        self._fail(watcher, error)
                self._work_on(calls, partial(self._application.edge.begin, requests))
        finally:
            # Reset before the last check, so that a request added after it schedules this again.
            self._is_due = False
            if waiting:
                self._is_due = True
                self._loop.call_soon(self._begin_all)

    def _add_other(self, watcher: Watcher) -> None:
        address = self._application.address_of(watcher.scope)
        if not self._others:
            self._begin_others_soon()
        self._others.add(address, watcher)

    def _begin_others_soon(self) -> None:
        rest_s = self._share.rest_s()
        if rest_s > 0 and self._application.call_test() is not None:
            self._loop.call_later(min(rest_s, _REST_MAX_S), self._begin_others)
        else:
            self._loop.call_soon(self._begin_others)

    def _begin_others(self) -> None:
        others = self._others
        try:
            for _ in range(_OTHERS_TOGETHER_MAX):
                if not others:
                    break
                watcher = others.take()
                try:
                    self._start(watcher, self._measured(self._other(watcher)))
                except Exception as error:
                    watcher.err(error)
        finally:
            if others:
                self._begin_others_soon()

    async def _measured(self, work: Coroutine[Any, Any, None]) -> None:
        taking = LoopTime(work)
        try:
            await taking
        finally:
            self._share.use(taking.taken_s())

    def _waited(self, watcher: Watcher, waiting: Waiting, _: object) -> None:
        if not self._ready:
            self._loop.call_soon(self._go_on_all)
        self._ready.append((watcher, waiting))

    def _go_on_all(self) -> None:
        ready, self._ready = self._ready[:_TOGETHER_MAX], self._ready[_TOGETHER_MAX:]
        if self._ready:
            self._loop.call_soon(self._go_on_all)
        watchers, waiting = zip(*ready, strict=True)
        self._work_on(watchers, partial(self._application.edge.go_on, waiting))

    def _work_on(self, watchers: Sequence[Watcher], work: Callable[[], list[Progress]]) -> None:
        """Runs calls together. Those that then have an answer are answered together: one by one,
        each would wake the thread that writes it."""
        try:
            progress = work()
        except (Exception, asyncio.CancelledError) as error:
            for watcher in watchers:
                self._fail(watcher, error)
            return
        for watcher, each in zip(watchers, progress, strict=True):
            try:
                if type(each) is Answer and each.stream is None:
                    _send(watcher.proto, each)
                elif type(each) is Waiting:
                    each.pending.add_done_callback(partial(self._waited, watcher, each))
                else:
                    self._start(watcher, self._finish(watcher, each))
            except Exception as error:
                self._fail(watcher, error)

    def _fail(self, watcher: Watcher, error: BaseException) -> None:
        try:
            watcher.err(error)
        except Exception as another:
            # An error here must not keep the other calls from being answered.
            context = {"message": "an error was not reported", "exception": another}
            self._loop.call_exception_handler(context)

    def _start(self, watcher: Watcher, rest: Coroutine[Any, Any, None]) -> None:
        # As the server does: nothing else holds a reference to a task that only waits.
        watcher.taskref(self._loop.create_task(rest))

    async def _finish(
        self, watcher: Watcher, progress: Answer | Coroutine[Any, Any, Answer]
    ) -> None:
        protocol = watcher.proto
        try:
            answer = progress if isinstance(progress, Answer) else await progress
            if answer.stream is None:
                _send(protocol, answer)
            else:
                await self._application.edge.send(answer, protocol.receive, protocol.send)
        except BaseException as error:
            watcher.err(error)
            return
        watcher.done()


def _send(protocol: Any, answer: Answer) -> None:
    """Not awaited: the server takes a whole answer at once."""
    send = protocol.send
    head, body = messages(answer)
    send(head)
    send(body)


def begin_without_tasks(application: Beginning) -> None:
    """Makes the server that starts in this process use the dispatcher."""
    scheduler = partial(_new_scheduler, application)
    granian.server.mp._new_cbscheduler = scheduler  # type: ignore[attr-defined]


def _new_scheduler(
    application: Beginning,
    loop: asyncio.AbstractEventLoop,
    callback: Callable[[Watcher], Coroutine[Any, Any, None]],
    **_options: object,
) -> CallbackScheduler:
    # The last three arguments are for a kind of task that is not used here.
    scheduler: Any = CallbackScheduler(loop, callback, None, None, None)  # type: ignore[call-arg]
    scheduler._schedule_fn = Dispatcher(application, loop, callback).add
    return scheduler  # type: ignore[no-any-return]

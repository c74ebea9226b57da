"""From the HTTP server's threads to the event loop: requests are begun without a task for each.

The server makes a coroutine and a task for every request, and schedules it by itself. Most calls
need neither: those that are refused are answered at once. So this takes the place of the server's
own scheduler. A request waits in a queue, which one callback on the loop works through. Only what
must wait becomes a task, and what is no call is left to the server's own callback.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Protocol

import granian.server.mp
from granian._granian import CallbackScheduler

from tollway.pipeline.bodies import Receive, Scope, Send
from tollway.pipeline.call import Answer, Progress, Waiting, answer_of
from tollway.pipeline.http import messages

# Begins a request; None if that is no call.
Begin = Callable[[Scope, Receive], Progress | None]


class Beginning(Protocol):
    """An application that can answer without waiting. `call_handler` is what begins calls at this
    moment; None if all requests are left to the server's own callback."""

    def call_handler(self) -> Begin | None: ...

    async def send(self, answer: Answer, receive: Receive, send: Send) -> None: ...


# So many answers share what waking the thread costs; the first of more would wait for the last.
_TOGETHER_MAX = 32
# So many requests that are no call begin in one turn of the loop. A flood of them would otherwise
# take a turn for all at once, and a call waits for some turns until it is answered.
_OTHERS_TOGETHER_MAX = 4

# The server's own object for a request: its scope, its protocol, and where errors go.
Watcher = Any


class Dispatcher:
    """Begins the requests that have come, on the loop."""

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
        self._others: deque[Watcher] = deque()
        # Answers are sent together: each one alone would wake the thread that writes it.
        self._answers: deque[tuple[Watcher, Answer]] = deque()

    def add(self, watcher: Watcher) -> None:
        """Called by a thread of the server."""
        self._waiting.append(watcher)
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon_threadsafe(self._begin_all)

    def _begin_all(self) -> None:
        waiting, answers, begin = self._waiting, self._answers, self._application.call_handler()
        try:
            for _ in range(len(waiting)):
                watcher = waiting.popleft()
                try:
                    progress = begin and begin(watcher.scope, watcher.proto.receive)
                    if type(progress) is Answer and progress.stream is None:
                        answers.append((watcher, progress))
                        if len(answers) >= _TOGETHER_MAX:
                            self._send_all()
                    elif progress is None:
                        if not self._others:
                            self._loop.call_soon(self._begin_others)
                        self._others.append(watcher)
                    else:
                        self._go_on(watcher, progress)
                except (Exception, asyncio.CancelledError) as error:
                    watcher.err(error)
            if answers:
                self._send_all()
        finally:
            # Before the last look: what is added after it is then due again.
            self._is_due = False
            if waiting:
                self._is_due = True
                self._loop.call_soon(self._begin_all)

    def _begin_others(self) -> None:
        others = self._others
        try:
            for _ in range(min(len(others), _OTHERS_TOGETHER_MAX)):
                watcher = others.popleft()
                try:
                    self._start(watcher, self._other(watcher))
                except Exception as error:
                    watcher.err(error)
        finally:
            if others:
                self._loop.call_soon(self._begin_others)

    def _resume(self, watcher: Watcher, waiting: Waiting, _: object) -> None:
        try:
            progress = waiting.then(waiting.context)
            if type(progress) is not Answer or progress.stream is not None:
                self._go_on(watcher, progress)
                return
        except (Exception, asyncio.CancelledError) as error:
            watcher.err(error)
            return
        if not self._answers:
            self._loop.call_soon(self._send_all)
        self._answers.append((watcher, progress))

    def _send_all(self) -> None:
        answers = self._answers
        try:
            while answers:
                watcher, answer = answers.popleft()
                try:
                    _send(watcher.proto, answer)
                except Exception as error:
                    watcher.err(error)
        finally:
            if answers:
                self._loop.call_soon(self._send_all)

    def _go_on(self, watcher: Watcher, progress: Progress) -> None:
        if type(progress) is Waiting:
            progress.pending.add_done_callback(partial(self._resume, watcher, progress))
        else:
            self._start(watcher, self._finish(watcher, progress))

    def _start(self, watcher: Watcher, rest: Coroutine[Any, Any, None]) -> None:
        # As the server does: a task that only waits is referred to by nothing else.
        watcher.taskref(self._loop.create_task(rest))

    async def _finish(self, watcher: Watcher, progress: Progress) -> None:
        protocol = watcher.proto
        try:
            answer = await answer_of(progress)
            if answer.stream is None:
                _send(protocol, answer)
            else:
                await self._application.send(answer, protocol.receive, protocol.send)
        except BaseException as error:
            watcher.err(error)
            return
        watcher.done()


def _send(protocol: Any, answer: Answer) -> None:
    """The server takes a whole answer at once: what it returns need not be awaited."""
    head, body = messages(answer)
    protocol.send(head)
    protocol.send(body)


def begin_without_tasks(application: Beginning) -> None:
    """Has the server that starts in this process give its requests to the application so."""
    scheduler = partial(_new_scheduler, application)
    granian.server.mp._new_cbscheduler = scheduler  # type: ignore[attr-defined]


def _new_scheduler(
    application: Beginning,
    loop: asyncio.AbstractEventLoop,
    callback: Callable[[Watcher], Coroutine[Any, Any, None]],
    **_options: object,
) -> CallbackScheduler:
    # The last three are for a kind of task that is not used.
    scheduler: Any = CallbackScheduler(loop, callback, None, None, None)  # type: ignore[call-arg]
    scheduler._schedule_fn = Dispatcher(application, loop, callback).add
    return scheduler  # type: ignore[no-any-return]

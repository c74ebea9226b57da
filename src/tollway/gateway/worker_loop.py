"""The event loop of a worker process, which handles a stop at any moment."""

import asyncio
import signal
from collections.abc import Callable
from typing import Any

import uvloop


class WorkerLoop(uvloop.Loop):
    """Calls the handler of a stop once, whatever the worker is doing.

    uvloop calls handlers only while it runs. A worker's loop runs twice, to start and then to
    serve, and a stop between the two would be ignored until the next signal.
    """

    is_asked_to_stop = False

    def add_signal_handler(  # type: ignore[override]
        self, sig: int, callback: Callable[..., Any], *args: Any
    ) -> None:
        def stop(*_: object) -> None:
            # A second stop before the server listens blocks it forever. Ctrl+C causes two: one
            # from the terminal, and one from the main process.
            if not self.is_asked_to_stop:
                self.is_asked_to_stop = True
                callback(*args)

        signal.signal(sig, stop)
        signal.siginterrupt(sig, False)


def new_worker_loop() -> WorkerLoop:
    loop = WorkerLoop()
    asyncio.set_event_loop(loop)
    return loop


def is_asked_to_stop() -> bool:
    """Whether the worker that calls this will stop as soon as it has started."""
    loop = asyncio.get_running_loop()
    return isinstance(loop, WorkerLoop) and loop.is_asked_to_stop

"""`python -m tests.support.stopped_start SIGNAL ARGUMENTS`: `tollway` with a worker that stops the
gateway when it has started and does not listen yet, and waits there until the stop has reached it.

SIGINT is sent as Ctrl+C is: to all processes of the gateway.
"""

import os
import signal
import sys
from typing import Any

import granian.server.mp as server

from tollway.__main__ import main

_Worker = server.ASGIWorker


def _stop_first(number: signal.Signals, *arguments: Any) -> Any:
    reads, writes = os.pipe()
    os.set_blocking(writes, False)
    before = signal.set_wakeup_fd(writes)
    awaited = {signal.SIGTERM}
    if number is signal.SIGINT:
        awaited.add(number)
        os.kill(os.getpid(), number)
    os.kill(os.getppid(), number)
    while awaited:
        awaited.difference_update(os.read(reads, 1))
    signal.set_wakeup_fd(before)
    return _Worker(*arguments)


if __name__ == "__main__":
    asked = signal.Signals[sys.argv[1]]
    server.ASGIWorker = lambda *arguments: _stop_first(asked, *arguments)  # type: ignore[misc, assignment]
    main(sys.argv[2:])

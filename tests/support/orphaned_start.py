"""`python -m tests.support.orphaned_start ARGUMENTS`: `tollway` with a worker that prints its
process id while it starts, and kills its main process."""

import os
import signal
import sys
from time import sleep

from tollway.__main__ import main
from tollway.gateway.gateway import Gateway

_start = Gateway.start


def _lose_parent() -> None:
    parent = os.getppid()
    sys.stdout.write(f"{os.getpid()}\n")
    sys.stdout.flush()
    os.kill(parent, signal.SIGKILL)
    while os.getppid() == parent:
        sleep(0.01)


async def _start_alone(gateway: Gateway) -> None:
    _lose_parent()
    await _start(gateway)


if __name__ == "__main__":
    Gateway.start = _start_alone  # type: ignore[method-assign]
    main(sys.argv[1:])

"""`tollway serve`, kept loaded: one life after the other, each in a fork of this process.

A life is one line of JSON on the standard input. What runs is the same code as ever, but for the
place it dies at (`dying.py`).
"""

import ctypes
import gc
import json
import os
import sys
from typing import Any, NoReturn

from tests.killing.boundaries import Boundary
from tests.killing.dying import doom
from tollway import serving  # noqa: F401 - loaded here, once
from tollway.cli.main import main

ENDED = "The life has ended."
_PR_SET_CHILD_SUBREAPER = 36


def run_lives() -> None:
    # A worker whose main process was killed is then waited for here as well.
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    gc.freeze()
    for line in sys.stdin:
        if (pid := os.fork()) == 0:
            _live(**json.loads(line))
        print(pid, flush=True)  # noqa: T201
        while _wait_for_one():
            pass
        print(ENDED, flush=True)  # noqa: T201


def _wait_for_one() -> bool:
    try:
        os.wait()
    except ChildProcessError:
        return False
    return True


def _live(port: int, boundary: list[Any] | None, sabotage: str | None, told_in: str) -> NoReturn:
    # One group, so that all of its processes can be killed in the same instant.
    os.setpgid(0, 0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    doom(None if boundary is None else Boundary(*boundary), sabotage, told_in)
    status = 70
    try:
        main(["serve", "--port", str(port)])
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 0
    finally:
        sys.stdout.flush()
        os._exit(status)


if __name__ == "__main__":
    run_lives()

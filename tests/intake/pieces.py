"""What a second process makes in tests.

In a file of its own: a process that is not forked loads it, and would load all that the tests need.
"""

import os
import signal
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple


class Row(NamedTuple):
    number: int
    sealed: bytes


def pieces(first: int, end: int) -> Iterator[bytes]:
    return (b"%d" % number * 100_000 for number in range(first, end))


def pieces_cut_off(first: int, end: int) -> Iterator[bytes]:
    yield from pieces(first, end)
    os._exit(1)


def content_of(path: Path) -> Iterator[bytes]:
    yield path.read_bytes()


def rows(end: int) -> Iterator[Row]:
    return (Row(number, b"%d" % number) for number in range(end))


def rows_cut_off() -> Iterator[Row]:
    yield from rows(10_000)
    os._exit(1)


def killed_within_a_piece() -> Iterator[bytes]:
    kill = partial(os.kill, os.getpid(), signal.SIGKILL)
    threading.Timer(0.2, kill).start()
    yield bytes(50_000_000)


def interrupted(first: int, end: int) -> Iterator[bytes]:
    os.kill(os.getpid(), signal.SIGINT)
    yield from pieces(first, end)

"""Records that a second process prepares, while this one stores those before them."""

import gc
import multiprocessing
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.context import ForkContext, SpawnContext
from typing import TypeVarTuple

# How many new objects trigger a garbage collection: several chunks of rows.
_SEARCHED_AT_ONCE = 50_000
_BEGIN, _END = b"begin", b""
_Arguments = TypeVarTuple("_Arguments")


class SecondProcess:
    """A process that makes pieces of bytes. It begins at once, or, with `is_held`, when the first
    piece is asked for: so it can be forked before this process opens anything. It is at most one
    piece ahead, because the pipe holds less than a piece."""

    def __init__(
        self,
        make: Callable[[*_Arguments], Iterable[bytes]],
        *arguments: *_Arguments,
        is_held: bool = False,
    ) -> None:
        # A fork has all modules loaded, which otherwise takes half a second. But it would break
        # running threads, and inherit open files.
        is_forked = is_held and sys.platform == "linux" and threading.active_count() == 1
        context: ForkContext | SpawnContext = (
            multiprocessing.get_context("fork")
            if is_forked
            else multiprocessing.get_context("spawn")
        )
        self._is_held = is_held
        self._ours, its = context.Pipe()
        # A fork inherits both ends of the pipe, and must close this one: otherwise it would not
        # notice when this process closes it.
        not_its = self._ours if is_forked else None
        self._process = context.Process(
            target=_send, args=(its, not_its, is_held, make, arguments), daemon=True
        )
        self._process.start()
        its.close()

    def pieces(self) -> Generator[bytes]:
        """Raises EOFError if the process ended before its last piece."""
        usual_thresholds = gc.get_threshold()
        _spare_garbage_collector()
        try:
            if self._is_held:
                # If the process has ended already, its first piece is missing, which is reported.
                with suppress(BrokenPipeError):
                    self._ours.send_bytes(_BEGIN)
            while piece := self._received():
                yield piece
        finally:
            gc.set_threshold(*usual_thresholds)
            self._ours.close()
            self._process.join()

    def _received(self) -> bytes:
        try:
            return self._ours.recv_bytes()
        except OSError:
            # The process ended within a piece.
            raise EOFError from None


def _send(
    connection: Connection,
    not_its: Connection | None,
    is_held: bool,
    make: Callable[[*_Arguments], Iterable[bytes]],
    arguments: tuple[*_Arguments],
) -> None:
    """Runs in the second process."""
    if not_its is not None:
        not_its.close()
    # A terminal sends Ctrl+C to both processes. The first one ends this one by closing its end of
    # the pipe: if this one ended by itself, the first would report a failure.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _spare_garbage_collector()
    try:
        if is_held:
            connection.recv_bytes()
        for piece in make(*arguments):
            connection.send_bytes(piece)
        connection.send_bytes(_END)
    except (EOFError, ConnectionError):
        return


def _spare_garbage_collector() -> None:
    """Exempts imported modules from garbage collection, and collects less often: rows are never
    part of a cycle, and scanning them again and again would take a tenth of the time."""
    gc.freeze()
    gc.set_threshold(_SEARCHED_AT_ONCE)

"""Records that a second process makes ready, while this one stores those before them."""

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

# So many new objects are searched for garbage at once: several chunks of rows.
_SEARCHED_AT_ONCE = 50_000
_BEGIN, _END = b"begin", b""
_Arguments = TypeVarTuple("_Arguments")


class SecondProcess:
    """Begins at once. One that is held begins when its first piece is asked for: so it can be made
    before the first process opens anything. What it makes is read piece by piece, and it can be one
    piece ahead: what lies between the two holds less than the next one."""

    def __init__(
        self,
        make: Callable[[*_Arguments], Iterable[bytes]],
        *arguments: *_Arguments,
        is_held: bool = False,
    ) -> None:
        # A fork has all modules loaded, which otherwise takes half a second. But it would leave
        # threads half behind, and keep open what is open.
        is_forked = is_held and sys.platform == "linux" and threading.active_count() == 1
        context: ForkContext | SpawnContext = (
            multiprocessing.get_context("fork")
            if is_forked
            else multiprocessing.get_context("spawn")
        )
        self._is_held = is_held
        self._ours, its = context.Pipe()
        # A fork has both ends, and must close this one: otherwise it would not see it closed here.
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
                self._begin()
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
            # It ended within a piece.
            raise EOFError from None

    def _begin(self) -> None:
        # If it has ended already, that is noticed where its first piece is missing.
        with suppress(BrokenPipeError):
            self._ours.send_bytes(_BEGIN)


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
    # A terminal sends Ctrl+C to both. The first one ends this one, by closing its end of the pipe:
    # if this one ended by itself, the first would report that as a failure.
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
    """Exempts the imported modules, and lets rows pass, none of which is part of a cycle: to search
    them for garbage again and again would take a tenth of the time."""
    gc.freeze()
    gc.set_threshold(_SEARCHED_AT_ONCE)

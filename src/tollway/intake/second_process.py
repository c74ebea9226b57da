"""Records that a second process makes ready, while this one stores those before them."""

import gc
import multiprocessing
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection
from typing import TypeVarTuple

# So many new objects are searched for garbage at once: several chunks of rows.
_SEARCHED_AT_ONCE = 50_000
_END = b""
_Arguments = TypeVarTuple("_Arguments")


class SecondProcess:
    """Begins at once; what it makes is read piece by piece, and it can be one piece ahead: a pipe
    holds less than the next one."""

    def __init__(
        self, make: Callable[[*_Arguments], Iterable[bytes]], *arguments: *_Arguments
    ) -> None:
        # Spawned, not forked: this process has threads, which a fork would leave half behind.
        context = multiprocessing.get_context("spawn")
        self._receiver, sender = context.Pipe(duplex=False)
        self._process = context.Process(target=_send, args=(sender, make, arguments), daemon=True)
        self._process.start()
        sender.close()

    def pieces(self) -> Iterator[bytes]:
        """Raises EOFError if the process ended before its last piece."""
        usual_thresholds = gc.get_threshold()
        _spare_garbage_collector()
        try:
            while piece := self._receiver.recv_bytes():
                yield piece
        finally:
            gc.set_threshold(*usual_thresholds)
            self._receiver.close()
            self._process.join()


def _send(
    sender: Connection,
    make: Callable[[*_Arguments], Iterable[bytes]],
    arguments: tuple[*_Arguments],
) -> None:
    """Runs in the second process."""
    _spare_garbage_collector()
    try:
        for piece in make(*arguments):
            sender.send_bytes(piece)
        sender.send_bytes(_END)
    except (BrokenPipeError, KeyboardInterrupt):
        return


def _spare_garbage_collector() -> None:
    """Exempts the imported modules, and lets rows pass, none of which is part of a cycle: to search
    them for garbage again and again would take a tenth of the time."""
    gc.freeze()
    gc.set_threshold(_SEARCHED_AT_ONCE)

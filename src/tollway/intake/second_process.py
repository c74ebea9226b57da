"""Records that a second process prepares, while this one stores those before them."""

import gc
import multiprocessing
import signal
import socket
import sys
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import suppress
from itertools import chain
from multiprocessing.context import ForkContext, SpawnContext
from typing import TypeVarTuple

# How many new objects trigger a garbage collection: several chunks of rows.
_SEARCHED_AT_ONCE = 50_000
_BEGIN, _END = b"!", b""
_SIZE_BYTES = 8
_Arguments = TypeVarTuple("_Arguments")


class SecondProcess:
    """A process that makes pieces of bytes. It begins at once, or, with `is_held`, when the first
    piece is asked for: so it can be forked before this process opens anything. It is at most one
    piece ahead, because the socket holds less than a piece."""

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
        # A piece is then received as a whole into the bytes that it becomes; a `Pipe` collects it
        # in parts and copies it, which takes four times as long.
        self._ours, its = socket.socketpair()
        # A fork inherits both ends, and must close this one: otherwise it would not notice when
        # this process closes it.
        not_its = self._ours if is_forked else None
        self._process = context.Process(
            target=_send, args=(its, not_its, is_held, make, arguments), daemon=True
        )
        self._process.start()
        its.close()

    def __del__(self) -> None:
        # If no piece was ever asked for: then the process ends too.
        self._ours.close()

    def pieces(self) -> Generator[bytes]:
        """Raises EOFError if the process ended before its last piece."""
        usual_thresholds = gc.get_threshold()
        _spare_garbage_collector()
        try:
            if self._is_held:
                # If the process has ended already, its first piece is missing, which is reported.
                with suppress(BrokenPipeError):
                    self._ours.sendall(_BEGIN)
            while size := int.from_bytes(self._received(_SIZE_BYTES)):
                yield self._received(size)
        finally:
            gc.set_threshold(*usual_thresholds)
            self._ours.close()
            self._process.join()

    def _received(self, size: int) -> bytes:
        received = b""
        # A signal may end a call before it has all.
        while missing := size - len(received):
            try:
                part = self._ours.recv(missing, socket.MSG_WAITALL)
            except OSError:
                part = b""
            if not part:
                raise EOFError
            received = received + part if received else part
        return received


def _send(
    connection: socket.socket,
    not_its: socket.socket | None,
    is_held: bool,
    make: Callable[[*_Arguments], Iterable[bytes]],
    arguments: tuple[*_Arguments],
) -> None:
    """Runs in the second process."""
    if not_its is not None:
        not_its.close()
    # A terminal sends Ctrl+C to both processes. The first one ends this one by closing its end of
    # the socket: if this one ended by itself, the first would report a failure.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _spare_garbage_collector()
    try:
        if is_held and not connection.recv(len(_BEGIN)):
            return
        for piece in chain(make(*arguments), [_END]):
            connection.sendall(len(piece).to_bytes(_SIZE_BYTES))
            connection.sendall(piece)
    except ConnectionError:
        return


def _spare_garbage_collector() -> None:
    """Exempts imported modules from garbage collection, and collects less often: rows are never
    part of a cycle, and scanning them again and again would take a tenth of the time."""
    gc.freeze()
    gc.set_threshold(_SEARCHED_AT_ONCE)

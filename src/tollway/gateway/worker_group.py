"""What the worker processes of one gateway share: flags, heartbeats, each other's metrics, and the
kind of event loop, which handles a stop at any moment."""

import asyncio
import mmap
import multiprocessing
import os
import select
import signal
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import uvloop

from tollway.settings import SettingsError
from tollway.telemetry.metrics import Metrics, merged, snapshot

# A signal that comes just before the main thread starts to wait, or that the system delivers to
# another thread, does not end the wait, and Python runs its handler only after that.
_LOOK_INTERVAL_S = 0.25
_ANSWER_TIMEOUT_S = 1.0
# Of the folder for temporary files: the path of a socket in it has at most 107.
_TEMPORARY_BYTES_MAX = 64


class Wakeup:
    """An event that a signal handler may set. A `threading.Event` would deadlock if the signal came
    while its own thread is inside `wait` or `clear`, holding the event's lock.

    Forked processes share it. A process that is killed while it sets the event leaves no lock
    behind, unlike with an event of `multiprocessing`.
    """

    def __init__(self) -> None:
        self._descriptor = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def set(self) -> None:
        os.eventfd_write(self._descriptor, 1)

    def clear(self) -> bool:
        """Clears it; returns whether it was set. If several clear it at once, one gets True."""
        with suppress(BlockingIOError):
            return bool(os.eventfd_read(self._descriptor))
        return False

    def is_set(self) -> bool:
        return self._is_set_within(0)

    def wait(self, timeout_s: float = float("inf")) -> bool:
        ends_at_s = time.monotonic() + timeout_s
        while not self._is_set_within(min(timeout_s, _LOOK_INTERVAL_S)):
            timeout_s = ends_at_s - time.monotonic()
            if timeout_s <= 0:
                return False
        return True

    def _is_set_within(self, seconds: float) -> bool:
        # A new one each time: only one thread at a time may use a poll object.
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        return bool(poll.poll(seconds * 1000))


def new_folder() -> tempfile.TemporaryDirectory[str]:
    """Where the workers have their sockets."""
    is_short = len(os.fsencode(tempfile.gettempdir())) <= _TEMPORARY_BYTES_MAX
    place = None if is_short else "/tmp"  # noqa: S108 - the folder's name is made up, and it is ours
    return tempfile.TemporaryDirectory(prefix="tollway-workers-", dir=place)


class WorkerGroup:
    """All workers of one gateway; made by the main process before the first worker."""

    def __init__(self, size: int, folder: str, ring: mmap.mmap | None = None) -> None:
        self.size = size
        self.main_process = os.getpid()
        # The calls that the workers of a SQLite file admitted; a database server counts by itself.
        self.ring = ring
        self.folder = Path(folder)
        # All lock-free: a worker that is killed while it holds a lock would block the rest.
        self._started = multiprocessing.RawArray("b", size)
        self._is_draining = multiprocessing.RawValue("b", 0)
        self._is_given_up = multiprocessing.RawValue("b", 0)
        self._is_serving = Wakeup()
        self._is_ungreeted = Wakeup()
        self._is_ungreeted.set()
        # When the event loop of each worker last ran, by the clock that all processes share.
        self._beats_s = multiprocessing.RawArray("d", size)

    def make_folder(self) -> None:
        """Makes the folder again: it is temporary, and may have been cleaned up since the start."""
        if self.size == 1:
            return
        self.folder.mkdir(mode=0o700, exist_ok=True)
        if self.folder.lstat().st_uid != os.geteuid():
            raise SettingsError(f"{self.folder} belongs to another user: remove it.")

    @property
    def is_draining(self) -> bool:
        """Whether the gateway is about to stop: it still answers, but wants no more calls."""
        return bool(self._is_draining.value)

    def drain(self) -> None:
        self._is_draining.value = 1

    @property
    def is_given_up(self) -> bool:
        """Whether starting a worker would fail however often it is tried."""
        return bool(self._is_given_up.value) and not self._is_serving.is_set()

    def give_up(self) -> None:
        self._is_given_up.value = 1

    def serves(self) -> bool:
        """Called when all workers answer calls; true for the first caller only."""
        self._is_serving.set()
        return self._is_ungreeted.clear()

    def wait_until_serving(self) -> None:
        self._is_serving.wait()

    def beat(self, number: int) -> None:
        self._beats_s[number - 1] = time.monotonic()

    def hung(self, limit_s: float) -> list[int]:
        """The numbers of the workers whose event loop has not run for `limit_s`."""
        since_s = time.monotonic() - limit_s
        return [number for number, at_s in enumerate(self._beats_s, 1) if at_s < since_s]

    @property
    def has_started(self) -> bool:
        """Whether every worker has started at least once."""
        return all(self._started[:])

    def completes_start(self, number: int) -> bool:
        """Counts a worker that has started; true if it is the last one. If that one dies before it
        reports that the gateway serves, also true for its replacement."""
        self._started[number - 1] = 1
        return self.has_started and not self._is_serving.is_set()


class Worker:
    """One worker of a group; its number stays when its process is replaced."""

    def __init__(self, worker_group: WorkerGroup, number: int, metrics: Metrics) -> None:
        self.worker_group = worker_group
        self._number = number
        self._metrics = metrics
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        """Lets the other workers ask for this one's metrics."""
        if self.worker_group.size > 1:
            path = self._address(self._number)
            self._server = await asyncio.start_unix_server(self._send_metrics, path)

    async def keep_open(self) -> None:
        """Reopens the socket if it was cleaned up."""
        if self._server is not None and not self._has_socket():
            await self.close()
            self.worker_group.make_folder()
            await self.open()

    def _has_socket(self) -> bool:
        return Path(self._address(self._number)).exists()

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()

    async def metrics(self) -> bytes:
        """The metrics of all workers, each labelled with its number; a single worker's without.

        A request may reach any worker, so that worker asks the others. One that does not answer is
        left out, which shows as a gap instead of a wrong number.
        """
        if self.worker_group.size == 1:
            return self._metrics.render()
        answers = await asyncio.gather(*map(self._ask, range(1, self.worker_group.size + 1)))
        by_worker = zip(range(1, self.worker_group.size + 1), answers, strict=True)
        return merged({number: each for number, each in by_worker if each is not None})

    def _address(self, number: int) -> str:
        return str(self.worker_group.folder / f"{number}.socket")

    async def _send_metrics(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            writer.write(snapshot(self._metrics))
            await writer.drain()
        writer.close()

    async def _ask(self, number: int) -> bytes | None:
        if number == self._number:
            return snapshot(self._metrics)
        try:
            async with asyncio.timeout(_ANSWER_TIMEOUT_S):
                reader, writer = await asyncio.open_unix_connection(self._address(number))
                try:
                    return await reader.read() or None
                finally:
                    writer.close()
        except OSError:
            return None


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

"""The HTTP server: set up from the settings, with its workers, drained before it stops."""

import ctypes
import gc
import logging
import mmap
import multiprocessing
import os
import signal
import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from multiprocessing import connection
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, Any

from granian import loops
from granian._granian import SocketHolder
from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server.mp import MPServer, WorkerProcess

from tollway.gateway.connections import allow_open_files
from tollway.gateway.listening import PassedSocket, free_address
from tollway.gateway.worker_group import Wakeup, WorkerGroup, new_folder, new_worker_loop
from tollway.settings import Settings
from tollway.store.open import is_shared
from tollway.telemetry.logs import configure_logging

if TYPE_CHECKING:
    from tollway.gateway.worker import Application

# The server's own messages go to the same log.
_GRANIAN_LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "loggers": {"_granian": {"level": "WARNING", "propagate": True, "handlers": []}},
}
# Restarting a worker that keeps dying must not keep the machine busy.
_SOON_S = 5.0
_PAUSE_S = 1.0
_STOPS = (signal.SIGTERM, signal.SIGINT)
_LOOP = "tollway"
_NOTIFY_TIMEOUT_S = 1.0

loops.register(_LOOP)(new_worker_loop)

logger = logging.getLogger("tollway.serving")


class GatewayServer(MPServer):
    """The HTTP server of a gateway: its workers know their number, are replaced when they die, and
    are drained before it stops.

    Only SIGTERM drains. Ctrl+C comes from a person at the terminal, and reaches the workers
    directly as well.
    """

    def __init__(
        self, settings: Settings, worker_group: WorkerGroup, passed: PassedSocket | None = None
    ) -> None:
        super().__init__("tollway", **server_options(settings, passed))
        self._passed = passed
        self._worker_group = worker_group
        self._drain_s = settings.drain_s
        self._is_asked_to_drain = False
        self._is_hurried = Wakeup()
        self.main_loop_interrupt = Wakeup()  # type: ignore[assignment]
        self._replaced_at_s = float("-inf")
        self._reporter = Reporter(worker_group)
        self.on_startup(self._reporter.start)

    def signal_handler_interrupt(self, *args: Any, **kwargs: Any) -> None:
        if self.interrupt_signal:
            self._is_hurried.set()
        self._is_asked_to_drain = args[0] == signal.SIGTERM
        super().signal_handler_interrupt(*args, **kwargs)  # type: ignore[no-untyped-call]

    def _init_shared_socket(self) -> None:
        if self._passed is None:
            super()._init_shared_socket()  # type: ignore[no-untyped-call]
            return
        # All workers accept from it; otherwise each has a socket of its own at the same port.
        descriptor = self._passed.descriptor
        self._shd = SocketHolder(descriptor, False, self.backlog)  # type: ignore[call-arg, assignment]
        self._sso = None

    def _write_pidfile(self) -> None:
        # Without what the server adds to it, which looks at every process of the machine, for a
        # limit of memory that is not set here.
        super(MPServer, self)._write_pidfile()  # type: ignore[no-untyped-call]

    def _spawn_worker(  # type: ignore[override]
        self, idx: int, target: Any, callback_loader: "Callable[[int], Application]"
    ) -> WorkerProcess:
        worker = super()._spawn_worker(idx, target, partial(callback_loader, idx + 1))
        worker.is_alive = partial(still_runs, worker.inner)  # type: ignore[method-assign]
        return worker

    def _spawn_workers(self, spawn_target: Any, target_loader: Any) -> None:
        with _stops_held_back():
            super()._spawn_workers(spawn_target, target_loader)  # type: ignore[no-untyped-call]

    def _respawn_workers(
        self, workers: Sequence[int], spawn_target: Any, target_loader: Any, delay: float = 0
    ) -> None:
        if self.interrupt_signal:
            # The stop came after the server had checked for one, and its wake-up was cleared.
            self.main_loop_interrupt.set()
            return
        if self._worker_group.is_given_up:
            self.shutdown(1)
        for index in workers:
            # A worker that still runs is being replaced on request.
            if (status := self.wrks[index].inner.exitcode) is not None:
                logger.error("worker %d ended with status %s, and is replaced", index + 1, status)
        if time.monotonic() - self._replaced_at_s < _SOON_S:
            time.sleep(_PAUSE_S)
        self._replaced_at_s = time.monotonic()
        with _stops_held_back():
            super()._respawn_workers(workers, spawn_target, target_loader, delay)
        if self._worker_group.has_started:
            # The gateway could serve once, so it can again. Otherwise the server would stop all
            # workers when one dies twice in a short time, as when memory runs out.
            self.respawned_wrks.clear()

    def shutdown(self, exit_code: int = 0) -> None:
        self._reporter.stop()
        if self._drain_s and self._is_asked_to_drain:
            self._worker_group.drain()
            # Until the time is up, or a second signal cuts it short.
            self._is_hurried.wait(self._drain_s)
        if self.interrupt_signal:
            # The stop was requested. A worker that died meanwhile is no failure.
            self.interrupt_children.clear()
        super().shutdown(exit_code)  # type: ignore[no-untyped-call]


def still_runs(process: BaseProcess) -> bool:
    """Whether a worker has not ended. The server's watching thread may have fetched the exit status
    but not stored it yet: then `is_alive` is still true, and the server would warn that it kills a
    worker which has stopped normally."""
    return process.is_alive() and not connection.wait([process.sentinel], 0)


@contextmanager
def _stops_held_back() -> Iterator[None]:
    """Blocks stop signals. A worker inherits this, so that a stop waits until it has its own
    handlers: those of the main process, which it inherits too, would ignore the stop."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def notify(report: str) -> None:
    """Sends a report to systemd; does nothing if it did not ask for any."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    # An address with @ is in the abstract namespace.
    path = f"\0{address[1:]}" if address.startswith("@") else address
    if path:
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.settimeout(_NOTIFY_TIMEOUT_S)
            sender.sendto(report.encode(), path)


def watchdog_s() -> float | None:
    """The watchdog interval that systemd set; None if it set none."""
    usec, pid = os.environ.get("WATCHDOG_USEC", ""), os.environ.get("WATCHDOG_PID", "")
    if not usec.isdigit() or int(usec) == 0 or pid not in ("", str(os.getpid())):
        return None
    return int(usec) / 1_000_000


class Reporter:
    """Reports to systemd, if it started the gateway: ready, alive, stopping. From a thread of the
    main process, since systemd takes reports from no other.

    The gateway is alive as long as the event loop of each worker runs; if one hangs, nothing is
    reported any more, and systemd restarts the gateway (`WatchdogSec=` of the unit).
    """

    def __init__(self, worker_group: WorkerGroup) -> None:
        self._worker_group = worker_group
        self._is_stopping = threading.Event()

    def start(self) -> None:
        if os.environ.get("NOTIFY_SOCKET"):
            threading.Thread(target=self._run, name="reporter", daemon=True).start()

    def stop(self) -> None:
        self._is_stopping.set()
        notify("STOPPING=1")

    def _run(self) -> None:
        self._worker_group.wait_until_serving()
        notify("READY=1")
        limit_s = watchdog_s()
        while limit_s is not None and not self._is_stopping.wait(limit_s / 2):
            hung = self._worker_group.hung(limit_s)
            if hung:
                logger.error("worker %s hangs: its event loop stands still", hung)
            else:
                notify("WATCHDOG=1")


def server_options(settings: Settings, passed: PassedSocket | None = None) -> dict[str, Any]:
    """How the HTTP server is set up, with the limits that the settings put at the edge."""
    return {
        "address": passed.host if passed else free_address(settings.host, settings.port),
        "port": settings.port,
        "interface": Interfaces.ASGI,
        "workers": settings.workers,
        "loop": _LOOP,
        # With HTTP/2 allowed, the server would wait forever on a connection that sends nothing.
        "http": HTTPModes.http1,
        "websockets": False,
        "backpressure": settings.connections_max,
        "http1_settings": HTTP1Settings(
            header_read_timeout=settings.header_timeout_s * 1000,
            max_buffer_size=settings.header_max_bytes,
        ),
        "workers_kill_timeout": settings.shutdown_timeout_s,
        "respawn_failed_workers": True,
        "log_level": LogLevels.warning,
        "log_dictconfig": _GRANIAN_LOGGING,
    }


def _load(
    settings: Settings, greeting: str, worker_group: WorkerGroup, number: int
) -> "Application":
    # A stop during the start ends the worker.
    for each in _STOPS:
        signal.signal(each, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPS)
    # Imports that only calls need happen in the workers, so that the main process stays small. The
    # garbage collector stays off until the worker has started.
    gc.disable()
    from tollway.gateway.dispatch import begin_without_tasks  # noqa: PLC0415
    from tollway.gateway.worker import Application  # noqa: PLC0415

    log = configure_logging(settings.log_level, settings.port, number)
    application = Application(settings, greeting, worker_group, number, log)
    begin_without_tasks(application)
    return application


def _ring_of(settings: Settings) -> mmap.mmap | None:
    """Memory that the workers of a SQLite file share, if there are several."""
    if settings.workers == 1 or is_shared(settings.database):
        return None
    from tollway.ledger.shared_windows import new_ring  # noqa: PLC0415

    return new_ring()


def _give_back_memory() -> None:
    """Gives the system what loading has freed; each worker would count it once more."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def serve_http(settings: Settings, greeting: str, passed: PassedSocket | None = None) -> None:
    """Serves until it is stopped; prints the greeting once all workers answer calls."""
    allow_open_files(settings.connections_max)
    # Workers share what the main process has made. From Python 3.14 on, this is not the default.
    multiprocessing.set_start_method("fork", force=True)
    # Python 3.12 and later warn of forking with threads. Here that is safe: the main process's
    # threads write the log, through a file that no worker uses, or wait for a worker's end.
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
    # A single worker needs no folder, and a killed gateway would leave it behind.
    is_alone = settings.workers == 1
    with nullcontext("") if is_alone else new_folder() as folder:
        worker_group = WorkerGroup(settings.workers, folder, _ring_of(settings))
        loader = partial(_load, settings, greeting, worker_group)
        _give_back_memory()
        GatewayServer(settings, worker_group, passed).serve(target_loader=loader, wrap_loader=False)

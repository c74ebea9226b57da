"""The ASGI application of one worker process: start, calls, regular work, stop."""

import asyncio
import ctypes
import gc
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterable

from tollway.gateway.dispatch import CallTest
from tollway.gateway.gateway import Gateway
from tollway.gateway.pages import address_of
from tollway.gateway.worker_group import WorkerGroup, is_asked_to_stop
from tollway.pipeline.bodies import Message, Receive, Scope, Send
from tollway.pipeline.http import Edge
from tollway.settings import Settings, SettingsError
from tollway.store.attempts import Attempts
from tollway.store.database import StoreBusyError, StoreError, StoreUnavailableError
from tollway.store.open import is_shared
from tollway.telemetry.logs import LogWriter

_TEND_INTERVAL_S = 30
_WEBHOOK_INTERVAL_S = 1.0
_WATCH_INTERVAL_S = 10.0
_USAGE_INTERVAL_S = 5
_ERASE_INTERVAL_S = 5
_PARENT_INTERVAL_S = 1
_LISTENING_INTERVAL_S = 0.01
_START_INTERVAL_S = 0.5
_BEAT_INTERVAL_S = 0.5
_SWEEP_INTERVAL_S = 0.5
_SOCKET_INTERVAL_S = 5
# Options of glibc, and their values.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEPT_FREE_BYTES, _OWN_MAPPING_BYTES = 8 * 2**20, 2**20

logger = logging.getLogger("tollway.serving")


class Application:
    """The ASGI application of one worker process."""

    def __init__(
        self,
        settings: Settings,
        greeting: str,
        worker_group: WorkerGroup,
        number: int,
        log: LogWriter,
    ) -> None:
        self._settings = settings
        self._proxies = settings.proxies
        self._greeting = greeting
        self._worker_group = worker_group
        self._number = number
        self._log = log
        self._gateway: Gateway | None = None

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if scope["type"] == "lifespan":
            return self._live(receive, send)
        assert self._gateway is not None
        if self._worker_group.is_draining:
            send = _last_answer(send)
        return self._gateway(scope, receive, send)

    @property
    def edge(self) -> Edge:
        assert self._gateway is not None
        return self._gateway.edge

    def call_test(self) -> CallTest | None:
        """The test for calls, which start without a task (`dispatch.py`). None while draining, when
        each answer closes its connection."""
        return None if self._worker_group.is_draining else Gateway.is_call

    def address_of(self, scope: Scope) -> str:
        return address_of(scope, self._proxies)

    async def _live(self, receive: Receive, send: Send) -> None:
        beating = asyncio.create_task(self._beat())
        try:
            await self._serve(receive, send)
        finally:
            beating.cancel()

    async def _beat(self) -> None:
        while True:
            self._worker_group.beat(self._number)
            self._log.report_refused()
            await asyncio.sleep(_BEAT_INTERVAL_S)

    async def _serve(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            gateway = await self._start()
        except Exception as error:
            # Any error: without this, the server would accept calls that nothing answers.
            if isinstance(error, SettingsError):
                self._worker_group.give_up()
            if isinstance(error, StoreError | SettingsError):
                logger.error("the gateway cannot start: %s", error)
            else:
                logger.exception("the gateway cannot start")
            self._log.flush()
            # Without a message, which the server would log again.
            await send({"type": "lifespan.startup.failed"})
            return
        self._gateway = gateway
        # What is loaded by now stays, so the garbage collector can skip it and run less often.
        gc.freeze()
        gc.enable()
        gc.set_threshold(100_000, 20, 100)
        _keep_freed_memory()
        await send({"type": "lifespan.startup.complete"})
        background = [asyncio.create_task(each) for each in self._background(gateway)]
        await receive()
        for task in background:
            task.cancel()
        await gateway.stop()
        self._log.flush()
        await send({"type": "lifespan.shutdown.complete"})

    def _background(self, gateway: Gateway) -> Iterable[Coroutine[None, None, None]]:
        """The background tasks, one each, so that none waits for a long one."""
        upkeep = gateway.upkeep
        yield self._greet()
        yield _end_with_parent(self._worker_group.main_process)
        yield _regularly("the regular work", upkeep.tend, _TEND_INTERVAL_S, _TEND_INTERVAL_S)
        yield _regularly(
            "dropping what is old", upkeep.drop_old, _TEND_INTERVAL_S, _TEND_INTERVAL_S
        )
        yield _regularly("erasing receivers", upkeep.erase_receivers, _ERASE_INTERVAL_S)
        yield _regularly("adding up usage", upkeep.roll_up, _USAGE_INTERVAL_S)
        sweep = gateway.connections.sweep
        yield _regularly("sweeping connections", sweep, _SWEEP_INTERVAL_S)
        yield _regularly("keeping its socket", gateway.worker.keep_open, _SOCKET_INTERVAL_S)
        yield _regularly("measuring", upkeep.measure, _TEND_INTERVAL_S)
        yield _regularly("delivering webhooks", upkeep.deliver_webhooks, _WEBHOOK_INTERVAL_S)
        yield _regularly("watching accounts", upkeep.watch_accounts, _WATCH_INTERVAL_S)
        # Starts at once: what is pending now was left by the previous process.
        interval_s = self._settings.reconcile_interval_s
        yield _regularly("reconciliation", upkeep.reconcile, interval_s)

    async def _start(self) -> Gateway:
        parent = self._worker_group.main_process
        gateway = Gateway(self._settings, self._worker_group, self._number, self._log)
        attempts, what = Attempts(), "the start of the gateway"
        while True:
            try:
                await gateway.start()
            except (StoreUnavailableError, StoreBusyError) as error:
                # A worker that is replaced during an outage waits until it is over.
                is_over = is_asked_to_stop() or os.getppid() != parent
                if is_over or not is_shared(self._settings.database):
                    raise
                attempts.failed(what, error)
                await asyncio.sleep(_START_INTERVAL_S)
            else:
                attempts.succeeded(what)
                return gateway

    async def _greet(self) -> None:
        if not self._worker_group.completes_start(self._number):
            return
        # The server begins to listen some time after the start is reported as complete.
        while not await _is_listening(  # noqa: ASYNC110 - it can only be polled
            self._settings.host, self._settings.port
        ):
            await asyncio.sleep(_LISTENING_INTERVAL_S)
        if not self._worker_group.serves():
            return
        try:
            sys.stdout.write(self._greeting)
            sys.stdout.flush()
        except OSError as error:
            logger.error(
                "the gateway serves, but standard output took no greeting and no sign-in link "
                "(%s): `tollway operator link operator` prints another link",
                error.strerror,
            )


async def _regularly(
    what: str, work: Callable[[], Awaitable[None]], every_s: float, first_after_s: float = 0
) -> None:
    """Runs work at intervals, even after an error: a bug must not stop it for good."""
    await asyncio.sleep(first_after_s)
    attempts = Attempts()
    while True:
        await attempts.is_done(what, work())
        await asyncio.sleep(every_s)


def _last_answer(send: Send) -> Send:
    """Closes the connection after the answer: the next call goes to another gateway."""

    async def closing(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], (b"connection", b"close")]}
        await send(message)

    return closing


async def _is_listening(host: str, port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(host, port)
    except OSError:
        return False
    writer.close()
    return True


async def _end_with_parent(parent: int) -> None:
    """Stops this worker if its main process is killed: nothing else would, and the worker would
    keep the database locked."""
    while os.getppid() == parent:  # noqa: ASYNC110 - it can only be polled
        await asyncio.sleep(_PARENT_INTERVAL_S)
    logger.error("the main process is gone, so this worker stops")
    os.kill(os.getpid(), signal.SIGTERM)


def _keep_freed_memory() -> None:
    """Makes glibc's allocator keep some megabytes of freed memory, about what concurrent answers
    need. If it returned them each time, page faults would be a twentieth of a page of orders."""
    # Another C library has no such options, or ignores them.
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(_M_TRIM_THRESHOLD, _KEPT_FREE_BYTES)
        set_option(_M_MMAP_THRESHOLD, _OWN_MAPPING_BYTES)

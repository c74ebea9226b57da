"""Running the gateway under the HTTP server: start, tend, drain, stop."""

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import nullcontext
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any

from granian.constants import HTTPModes, Interfaces, Loops
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server.mp import MPServer, WorkerProcess

from tollway.app import Gateway
from tollway.settings import Settings, SettingsError
from tollway.store.database import StoreBusyError, StoreError, StoreUnavailableError
from tollway.store.open import is_shared
from tollway.telemetry.logs import configure_logging
from tollway.toll.asgi import Message, Receive, Scope, Send
from tollway.workers import Crew

_TEND_INTERVAL_S = 30
_PARENT_INTERVAL_S = 1
_LISTENING_INTERVAL_S = 0.01
_START_INTERVAL_S = 0.5

# The server's own words go the way of all others.
_GRANIAN_LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "loggers": {"_granian": {"level": "WARNING", "propagate": True, "handlers": []}},
}

logger = logging.getLogger("tollway.serving")


class Application:
    """The ASGI application of one worker process."""

    def __init__(self, settings: Settings, greeting: str, crew: Crew, number: int) -> None:
        self._settings = settings
        self._greeting = greeting
        self._crew = crew
        self._number = number
        self._gateway: Gateway | None = None

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if scope["type"] == "lifespan":
            return self._live(receive, send)
        assert self._gateway is not None
        if self._crew.is_draining:
            send = _last_answer(send)
        return self._gateway(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            gateway = await self._start()
        except Exception as error:
            # Whatever it was: the server would otherwise go on with nothing behind it.
            logger.exception("the gateway cannot start")
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        self._gateway = gateway
        # What is loaded now stays: the collector need not look at it again, nor so often.
        gc.freeze()
        gc.set_threshold(100_000, 20, 100)
        await send({"type": "lifespan.startup.complete"})
        background = [asyncio.create_task(each) for each in self._background(gateway)]
        await receive()
        for task in background:
            task.cancel()
        await gateway.stop()
        await send({"type": "lifespan.shutdown.complete"})

    def _background(self, gateway: Gateway) -> Iterable[Coroutine[None, None, None]]:
        """What goes on beside the calls. Each for itself, so that none waits for a long one."""
        yield self._greet()
        yield _end_with_parent(os.getppid())
        yield _regularly("the regular work", gateway.tend, _TEND_INTERVAL_S, _TEND_INTERVAL_S)
        yield _regularly(
            "dropping what is old", gateway.drop_old, _TEND_INTERVAL_S, _TEND_INTERVAL_S
        )
        # At once: what is pending at the start is what the process before this one left behind.
        interval_s = self._settings.reconcile_interval_s
        yield _regularly("reconciliation", gateway.reconcile, interval_s)

    async def _start(self) -> Gateway:
        gateway, parent = Gateway(self._settings, self._crew, self._number), os.getppid()
        while True:
            try:
                await gateway.start()
            except (StoreUnavailableError, StoreBusyError) as error:
                # A worker that is replaced during an outage waits for its end as the others do.
                if not is_shared(self._settings.database) or os.getppid() != parent:
                    raise
                logger.error("the gateway cannot start yet and tries again: %s", error)
                await asyncio.sleep(_START_INTERVAL_S)
            else:
                return gateway

    async def _greet(self) -> None:
        if not self._crew.completes_start():
            return
        # The server begins to listen only some time after it was told that the start is complete.
        while not await _is_listening(  # noqa: ASYNC110 - nothing tells of it but asking
            self._settings.host, self._settings.port
        ):
            await asyncio.sleep(_LISTENING_INTERVAL_S)
        sys.stdout.write(self._greeting)
        sys.stdout.flush()


async def _regularly(
    what: str, work: Callable[[], Awaitable[None]], every_s: float, first_after_s: float = 0
) -> None:
    """Does work again and again, whatever becomes of it: a bug must not end the rest."""
    await asyncio.sleep(first_after_s)
    while True:
        try:
            await work()
        except StoreError as error:
            logger.error("%s failed and will be tried again: %s", what, error)
        except Exception:
            logger.exception("%s failed and will be tried again", what)
        await asyncio.sleep(every_s)


def _last_answer(send: Send) -> Send:
    """Asks for the connection to be closed behind the answer: the next call goes elsewhere."""

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
    """Stops this worker when its main process was killed: nobody else would ever stop it, and it
    would go on holding the database."""
    while os.getppid() == parent:  # noqa: ASYNC110 - nothing tells of it but asking
        await asyncio.sleep(_PARENT_INTERVAL_S)
    logger.error("the main process is gone, so this worker stops")
    os.kill(os.getpid(), signal.SIGTERM)


class GatewayServer(MPServer):
    """The HTTP server of a gateway: its workers know their number, and it drains before it stops.

    Only SIGTERM drains. Ctrl+C is for somebody who waits at the terminal, and reaches the workers
    themselves as well.
    """

    def __init__(self, settings: Settings, crew: Crew) -> None:
        super().__init__("tollway", **_options(settings))
        self._crew = crew
        self._drain_s = settings.drain_s
        self._is_asked_to_drain = False

    def signal_handler_interrupt(self, *args: Any, **kwargs: Any) -> None:
        self._is_asked_to_drain = args[0] == signal.SIGTERM
        super().signal_handler_interrupt(*args, **kwargs)  # type: ignore[no-untyped-call]

    def _spawn_worker(  # type: ignore[override]
        self, idx: int, target: Any, callback_loader: Callable[[int], Application]
    ) -> WorkerProcess:
        return super()._spawn_worker(idx, target, partial(callback_loader, idx + 1))

    def shutdown(self, exit_code: int = 0) -> None:
        if self._drain_s and self._is_asked_to_drain:
            self._crew.drain()
            # Until the time is up, or a second signal says that there is none.
            self.main_loop_interrupt.clear()
            self.main_loop_interrupt.wait(self._drain_s)
        super().shutdown(exit_code)  # type: ignore[no-untyped-call]


def http_server(settings: Settings) -> MPServer:
    """A bare HTTP server that is set up as the gateway's is."""
    return MPServer("tollway", **_options(settings))


def _options(settings: Settings) -> dict[str, Any]:
    """How the HTTP server is set up, with the limits that the settings put at the edge."""
    return {
        "address": free_address(settings.host, settings.port),
        "port": settings.port,
        "interface": Interfaces.ASGI,
        "workers": settings.workers,
        "loop": Loops.uvloop,
        # With HTTP/2 allowed, a connection that says nothing yet would be waited for without end.
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


def free_address(host: str, port: int) -> str:
    """The host's address, if its port is free.

    The server itself would not notice another one there: it shares its port on purpose, so that
    workers can be replaced, and each of two gateways would get a part of the calls.
    """
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        raise SettingsError(
            f"Cannot listen on {host} port {port}: {error.strerror}. Set another host or port."
        ) from None
    return str(address[0])


def _load(settings: Settings, greeting: str, crew: Crew, number: int) -> Application:
    configure_logging(settings.log_level)
    return Application(settings, greeting, crew, number)


def serve_http(settings: Settings, greeting: str) -> None:
    """Serves until it is told to stop; prints the greeting once all workers answer calls."""
    configure_logging(settings.log_level)
    # A single worker has nobody to talk to, and a gateway that is killed leaves its folder behind.
    is_alone = settings.workers == 1
    with nullcontext("") if is_alone else TemporaryDirectory(prefix="tollway-workers-") as folder:
        crew = Crew(settings.workers, folder)
        loader = partial(_load, settings, greeting, crew)
        GatewayServer(settings, crew).serve(target_loader=loader, wrap_loader=False)

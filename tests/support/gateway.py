"""A real gateway in a process of its own, on a database of its own."""

import json
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NamedTuple, Self

import httpx

from tests.support.forks import Fork
from tests.support.other_clock import program
from tests.support.ports import free_port
from tests.support.stores import Store

START_TIMEOUT_S = 120
ANALYSIS = "/papi/tool/accounts/goods-analysis"


class Reply(NamedTuple):
    """An envelope with what came around it."""

    status: int
    headers: httpx.Headers
    envelope: dict[str, Any]

    @property
    def code(self) -> int:
        return self.envelope["code"]

    @property
    def msg(self) -> str:
        return self.envelope["msg"]

    @property
    def data(self) -> dict[str, Any]:
        return self.envelope["data"]


def reply_of(response: httpx.Response) -> Reply:
    """The reply; every one of them must be a whole envelope."""
    assert response.headers["content-type"].startswith("application/json")
    assert response.headers["x-request-id"]
    envelope = response.json()
    assert list(envelope) == ["code", "msg", "msec", "time", "data"]
    assert envelope["msg"]
    return Reply(response.status_code, response.headers, envelope)


# An error that its caller got as an answer: the test sees that by itself.
_ANSWERED = "failed unexpectedly"
# An error of several acts together, each of which is then done alone and answered by itself.
_TOGETHER = "could not be done together"


def assert_no_hidden_error(log_path: Path) -> None:
    """Fails if the gateway went on after an error that it did not expect and no caller saw."""
    lines = log_path.read_text(encoding="utf-8").splitlines()
    failed = [line for line in lines if '"trace":' in line]
    is_answered = any(_ANSWERED in line for line in failed)
    for line in failed:
        if _ANSWERED not in line and not (is_answered and _TOGETHER in line):
            raise AssertionError(f"an error was logged and hidden: {line}")


def _with_token(token: str | None, headers: dict[str, str] | None) -> dict[str, str]:
    bearer = {} if token is None else {"Authorization": f"Bearer {token}"}
    return {**(headers or {}), **bearer}


class Gateway:
    """`tollway serve`, started and stopped for real."""

    def __init__(
        self,
        store: Store,
        *,
        port: int | None = None,
        clock_ahead_s: int = 0,
        stderr: IO[bytes] | None = None,
        **settings: object,
    ) -> None:
        self.store = store
        self.port = port or free_port()
        self.base_url = f"http://127.0.0.1:{self.port}"
        variables = {f"TOLLWAY_{name.upper()}": str(value) for name, value in settings.items()}
        environment = {k: v for k, v in os.environ.items() if not k.startswith("TOLLWAY_")}
        self.log_path = store.path.with_suffix(f".{self.port}.log")
        with self.log_path.open("wb") as log:
            self.process = self._start(
                *program(clock_ahead_s),
                *("serve", "--port", str(self.port)),
                env={**environment, **store.settings, **variables},
                cwd=store.path.parent,
                stderr=log if stderr is None else stderr,
            )
        self._wait_until_ready()
        self.client = httpx.Client(base_url=self.base_url, timeout=30)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        status = self.stop()
        assert status == 0 or error is not None

    def _start(self, *command: str, **where: Any) -> Any:
        return Fork(*command, **where)

    def _wait_until_ready(self) -> None:
        assert self.process.stdout is not None
        # One that neither serves nor ends would be waited for without an end.
        alarm = threading.Timer(START_TIMEOUT_S, self.kill)
        alarm.start()
        try:
            for line in self.process.stdout:
                if self.base_url in line:
                    # A gateway that says so must accept connections at this moment.
                    socket.create_connection(("127.0.0.1", self.port)).close()
                    return
        finally:
            alarm.cancel()
        self.process.stdout.close()
        raise AssertionError(f"the gateway did not start:\n{self.log()}")

    def log(self) -> str:
        return self.log_path.read_text(encoding="utf-8")

    def get(
        self,
        path: str = ANALYSIS,
        *,
        token: str | None = None,
        query: dict[str, str] | str | None = None,
        method: str = "GET",
        headers: dict[str, str] | None = None,
    ) -> Reply:
        sent = _with_token(token, headers)
        url = f"{path}?{query}" if isinstance(query, str) else path
        params = query if isinstance(query, dict) else None
        return reply_of(self.client.request(method, url, params=params, headers=sent))

    def post_form(
        self,
        path: str,
        fields: Mapping[str, str],
        *,
        token: str | None = None,
        encoding: str = "multipart",
        headers: dict[str, str] | None = None,
    ) -> Reply:
        """Sends fields as a form of either encoding."""
        sent = _with_token(token, headers)
        if encoding == "urlencoded":
            return reply_of(self.client.post(path, data=fields, headers=sent))
        parts = {name: (None, value.encode()) for name, value in fields.items()}
        return reply_of(self.client.post(path, files=parts, headers=sent))

    def post_bytes(self, path: str, body: bytes, content_type: str, token: str) -> Reply:
        """Sends a body exactly as it is."""
        sent = _with_token(token, {"Content-Type": content_type})
        return reply_of(self.client.post(path, content=body, headers=sent))

    def post_json(
        self,
        path: str,
        body: object,
        *,
        token: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> Reply:
        """Sends a body as JSON; bytes are sent as they are."""
        sent = {"Content-Type": "application/json", **_with_token(token, headers)}
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return reply_of(self.client.post(path, content=content, headers=sent))

    def workers(self) -> list[int]:
        """The process ids of the workers."""
        main = self.process.pid
        return [int(pid) for pid in Path(f"/proc/{main}/task/{main}/children").read_text().split()]

    def kill(self) -> None:
        """Ends all of it without a warning."""
        for pid in (self.process.pid, *self.workers()):
            # A worker that sees its main process end does so too.
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def stop(self) -> int:
        """Asks the gateway to stop, and gives its exit status."""
        self.client.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(timeout=START_TIMEOUT_S)
        self._wait_for_workers()
        assert_no_hidden_error(self.log_path)
        return status

    def _wait_for_workers(self) -> None:
        """Waits until the last worker has ended: only then does the output end, and with it what
        keeps another gateway from the same file."""
        assert self.process.stdout is not None
        ends_at_s = time.monotonic() + START_TIMEOUT_S
        with self.process.stdout as output:
            while select.select([output], [], [], max(0, ends_at_s - time.monotonic()))[0]:
                if not os.read(output.fileno(), 65_536):
                    return
        raise AssertionError("a worker goes on without its main process")

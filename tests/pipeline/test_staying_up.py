"""What a gateway does when the world around it misbehaves."""

import asyncio
import fcntl
import io
import json
import logging
import os
import re
import resource
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.support.forks import Fork
from tests.support.gateway import Gateway
from tests.support.ledger import new_caller
from tests.support.load import fire
from tests.support.metrics import metrics, sample
from tests.support.ports import free_port
from tests.support.raw import talk
from tests.support.remote import eventually
from tests.support.stores import Store
from tollway.telemetry.logs import LogWriter, _JsonHandler


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory, engine: str) -> Iterator[Gateway]:
    with Gateway(
        Store(tmp_path_factory.mktemp("quick") / "tollway.db"), header_timeout_s=1
    ) as gateway:
        yield gateway


@contextmanager
def files_limited_to(size_bytes: int, worker: int) -> Iterator[None]:
    """No file of the worker can grow past a size, as on a full disk."""
    before = resource.prlimit(worker, resource.RLIMIT_FSIZE)
    resource.prlimit(worker, resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.prlimit(worker, resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize(
    "begun", [b"", b"P", b"PRI * HTTP/2.0\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"]
)
def test_a_connection_that_says_nothing_is_closed_in_time(quick: Gateway, begun: bytes) -> None:
    spoken = talk(quick.port, begun)
    # By default a gateway waits for 10 s.
    assert spoken.is_closed and spoken.elapsed_s < 9


def test_a_log_that_cannot_be_written_takes_nothing_with_it(quick: Gateway) -> None:
    (worker,) = quick.workers()
    with files_limited_to(10, worker):
        assert quick.get().code == 401
        assert quick.client.get("/metrics").status_code == 200


@pytest.mark.sqlite
def test_a_gateway_that_cannot_write_is_not_ready_until_it_can(quick: Gateway) -> None:
    (worker,) = quick.workers()
    with files_limited_to(0, worker):
        answer = quick.client.get("/readyz")
        assert (answer.status_code, answer.json()["reason"]) == (503, "database_unavailable")
    assert quick.client.get("/readyz").status_code == 200


def test_a_worker_ends_with_its_main_process(tmp_path: Path) -> None:
    gateway = Gateway(Store(tmp_path / "tollway.db"))
    (worker,) = gateway.workers()
    gateway.process.kill()
    gateway.process.wait()
    deadline_s = time.monotonic() + 30
    try:
        while Path(f"/proc/{worker}").exists():
            assert time.monotonic() < deadline_s, "the worker goes on without its main process"
            time.sleep(0.05)
    finally:
        if Path(f"/proc/{worker}").exists():
            os.kill(worker, signal.SIGKILL)
        gateway.client.close()
        assert gateway.process.stdout is not None
        gateway.process.stdout.close()


@pytest.mark.sqlite
def test_a_worker_whose_main_process_was_killed_while_it_started_ends_too(tmp_path: Path) -> None:
    store = Store(tmp_path / "tollway.db")
    gateway = Fork(
        *("tests.support.orphaned_start", "serve", "--port", str(free_port())),
        env={**os.environ, **store.settings},
        cwd=tmp_path,
    )
    assert gateway.stdout is not None
    with gateway.stdout as printed:
        worker = int(printed.readline())
        # The worker has the other end, until it ends.
        is_open = select.poll()
        is_open.register(printed, select.POLLHUP)
        try:
            assert is_open.poll(20_000), "the worker goes on without its main process"
        finally:
            with suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)
            gateway.wait()


@pytest.mark.sqlite
def test_a_standard_error_that_no_program_reads_stops_nothing(own_store: Store) -> None:
    """It is full from the start, and each call of a known account leaves a line."""
    caller = new_caller(own_store, rate_limit=1_000_000)
    unread, written = os.pipe()
    with os.fdopen(written, "wb", buffering=0) as stderr:
        stderr.write(bytes(fcntl.fcntl(written, fcntl.F_GETPIPE_SZ)))
        gateway = Gateway(own_store, stderr=stderr)
    try:
        assert asyncio.run(fire(gateway, caller.token, {}, 2, 100)) == {100: 200}
        assert gateway.get(token=caller.token).code == 100
        assert gateway.client.get("/healthz").status_code == 200
        assert gateway.stop() == 0
    finally:
        os.close(unread)


@pytest.mark.sqlite
def test_a_gateway_without_a_standard_error_serves(tmp_path: Path) -> None:
    place = ["--port", str(free_port()), "--database", f"sqlite:///{tmp_path}/tollway.db"]
    gateway = subprocess.Popen(
        ["sh", "-c", 'exec "$@" 2>&-', "-", sys.executable, "-m", "tollway", "serve", *place],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert gateway.stdout is not None
    with gateway.stdout as printed:
        assert any(f"http://127.0.0.1:{place[1]}" in line for line in printed)
        # No other file has its number: a library may write to it.
        assert Path(f"/proc/{gateway.pid}/fd/2").readlink() == Path(os.devnull)
        gateway.terminate()
        assert gateway.wait(30) == 0


def test_lines_that_find_the_disk_full_are_counted_and_reported(tmp_path: Path) -> None:
    gateway = Gateway(Store(tmp_path / "tollway.db"))
    (worker,) = gateway.workers()
    assert gateway.get().code == 401
    size_bytes = eventually(lambda: gateway.log_path.stat().st_size, bool)
    with files_limited_to(size_bytes, worker):
        assert {gateway.get().code for _ in range(5)} == {401}
        dropped = "tollway_log_lines_dropped_total"
        eventually(lambda: sample(metrics(gateway), dropped), lambda lines: lines >= 5)
    assert gateway.get().code == 401
    eventually(gateway.log, lambda text: "log lines were dropped" in text)
    reported = re.findall(r"(\d+) log lines were dropped", gateway.log())
    lost = sample(metrics(gateway), dropped)
    assert sum(map(int, reported)) == lost
    assert gateway.stop() == 0
    assert gateway.log().count("CREDENTIAL_INVALID") == 7 - lost


def test_lines_that_the_log_does_not_take_are_dropped_and_counted() -> None:
    stuck = threading.Event()

    class Stuck(io.StringIO):
        def write(self, text: str) -> int:
            stuck.wait(30)
            return super().write(text)

    stream = Stuck()
    log = LogWriter(stream)
    line = "x" * 1023 + "\n"
    for _ in range(2000):
        log.write(line)
    assert 900 <= log.dropped < 2000
    stuck.set()
    log.flush(30)
    log.write("after\n")
    log.flush(30)
    assert stream.getvalue().count(line) == 2000 - log.dropped
    reported = re.findall(r"(\d+) log lines were dropped", stream.getvalue())
    assert sum(map(int, reported)) == log.dropped


@pytest.mark.sqlite
@pytest.mark.parametrize(
    ("message", "value"), [("%d calls", "no number"), ("the file %s", "half a pair: \ud800")]
)
def test_a_line_that_cannot_be_made_is_no_error_of_what_it_tells(message: str, value: str) -> None:
    stream = io.StringIO()
    log = LogWriter(stream)
    logger = logging.Logger("tollway.test")
    logger.addHandler(_JsonHandler(log))
    logger.error(message, value)
    log.flush(30)
    assert message in json.loads(stream.getvalue())["message"]

"""What a gateway does when the world around it misbehaves."""

import os
import resource
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.gateway import Gateway
from tests.support.raw import talk
from tests.support.stores import Store


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory, engine: str) -> Iterator[Gateway]:
    gateway = Gateway(Store(tmp_path_factory.mktemp("quick") / "tollway.db"), header_timeout_s=1)
    yield gateway
    assert gateway.stop() == 0


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
    # A gateway that is not told to hurry waits for 10 s.
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
        assert quick.client.get("/readyz").status_code == 503
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

"""What the gateway reports to systemd, through a socket as systemd would give it one."""

import os
import signal
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.deploy.units import SERVICES, parse
from tests.support.gateway import Gateway
from tests.support.remote import eventually
from tests.support.stores import Store
from tollway.gateway.supervisor import Reporter, notify
from tollway.gateway.worker_group import WorkerGroup

PATIENCE_S = 30
_CREDENTIALS = struct.Struct("3i")


class Manager:
    """The end of systemd: receives reports, and who sent them."""

    def __init__(self, address: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._socket.bind(address)

    def next(self, within_s: float = PATIENCE_S) -> tuple[str, int] | None:
        """The next report and the process that sent it; None if there is none in time."""
        self._socket.settimeout(within_s)
        try:
            report, sent_with, _, _ = self._socket.recvmsg(
                1024, socket.CMSG_SPACE(_CREDENTIALS.size)
            )
        except TimeoutError:
            return None
        ((_, _, data),) = sent_with
        return report.decode(), _CREDENTIALS.unpack(data)[0]

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Manager]:
    made = Manager(str(tmp_path / "notify"))
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    yield made
    made.close()


def test_it_reports_when_it_serves_and_when_it_stops(own_store: Store, manager: Manager) -> None:
    gateway = Gateway(own_store, drain_s=300)
    # systemd takes reports from the main process alone.
    assert manager.next() == ("READY=1", gateway.process.pid)
    assert httpx.get(f"{gateway.base_url}/readyz").status_code == 200
    gateway.process.send_signal(signal.SIGTERM)
    assert manager.next() == ("STOPPING=1", gateway.process.pid)
    # Before the drain, not after it.
    assert gateway.process.poll() is None
    assert gateway.stop() == 0


@pytest.mark.sqlite
def test_one_that_gives_up_before_it_serves_stops_in_order(manager: Manager) -> None:
    group = WorkerGroup(1, "")
    reporter = Reporter(group)
    # Its thread waits until the gateway serves, while the main thread asks whether it does.
    reporter.start()
    group.give_up()
    assert all(group.is_given_up for _ in range(1000))
    reporter.stop()
    assert manager.next() == ("STOPPING=1", os.getpid())
    group.serves()


@pytest.mark.postgresql
def test_it_is_alive_as_long_as_every_worker_is(
    own_store: Store, manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "1000000")
    gateway = Gateway(own_store, workers=2)
    main = gateway.process.pid
    assert manager.next() == ("READY=1", main)
    for _ in range(3):
        assert manager.next() == ("WATCHDOG=1", main)
    hung = gateway.workers()[1]
    os.kill(hung, signal.SIGSTOP)
    try:
        # Those that were under way, and then none for three times as long as systemd waits.
        while manager.next(within_s=3) is not None:
            pass
        eventually(gateway.log, lambda log: "hangs: its event loop stands still" in log)
    finally:
        os.kill(hung, signal.SIGCONT)
    assert manager.next() == ("WATCHDOG=1", main)
    assert gateway.stop() == 0


@pytest.mark.sqlite
def test_reports_also_go_to_an_abstract_address(monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"tollway-test-{os.getpid()}"
    manager = Manager(f"\0{name}")
    monkeypatch.setenv("NOTIFY_SOCKET", f"@{name}")
    notify("READY=1")
    assert manager.next() == ("READY=1", os.getpid())
    manager.close()


@pytest.mark.sqlite
@pytest.mark.parametrize("address", ["", "/nowhere/at/all"])
def test_without_a_manager_nothing_is_reported(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    notify("READY=1")


@pytest.mark.sqlite
def test_the_units_that_serve_wait_for_the_reports() -> None:
    serving = [
        parse(path.read_text(encoding="utf-8"))["Service"]
        for path in SERVICES
        if "serve" in path.read_text(encoding="utf-8")
    ]
    assert [service["Type"] for service in serving] == [["notify"], ["notify"]]
    # A migration may take longer than any limit.
    assert [service["TimeoutStartSec"] for service in serving] == [["infinity"], ["infinity"]]
    assert all(int(service["WatchdogSec"][0]) >= 30 for service in serving)

"""A port that systemd holds: calls wait while the gateway restarts (`tollway.socket`)."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.deploy.units import DEPLOY, parse
from tests.support.gateway import ANALYSIS, Gateway
from tests.support.ledger import CALLS, Caller, amount_left, new_caller
from tests.support.ports import free_port
from tests.support.remote import eventually
from tests.support.stores import Store
from tollway.gateway.listening import passed_socket
from tollway.operations.product_analysis.demo import fill_figures, product_ids

# What systemd does in the process that becomes the gateway.
_PASS = """
import os, sys
passed, count, *command = sys.argv[1:]
if passed != "3":
    os.dup2(int(passed), 3)
os.environ.update(LISTEN_FDS=count, LISTEN_PID=str(os.getpid()))
os.set_inheritable(3, True)
os.execv(command[0], command)
"""
_TOLLWAY = (sys.executable, "-m", "tollway")


def _passing(passed: socket.socket, count: int = 1) -> tuple[str, ...]:
    return (sys.executable, "-c", _PASS, str(passed.fileno()), str(count), *_TOLLWAY)


class PassedGateway(Gateway):
    """A gateway that is started as systemd starts one whose port it holds."""

    def __init__(self, store: Store, passed: socket.socket, **settings: object) -> None:
        self._passed = passed
        super().__init__(store, port=passed.getsockname()[1], **settings)

    def _start(self, *command: str, **where: Any) -> Any:
        return subprocess.Popen(
            [*_passing(self._passed), *command[1:]],
            stdout=subprocess.PIPE,
            text=True,
            pass_fds=[self._passed.fileno()],
            **where,
        )


@pytest.fixture
def passed() -> Iterator[socket.socket]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", free_port()))
        listener.listen()
        yield listener


def _call(base_url: str, caller: Caller, today: date) -> int:
    """A paid call on a connection of its own, for which a gateway may have to start first."""
    answer = httpx.get(
        f"{base_url}{ANALYSIS}",
        params={"product_id": product_ids(1)[0], "query_date": today.isoformat()},
        headers={"Authorization": f"Bearer {caller.token}"},
        timeout=60,
    )
    code: int = answer.json()["code"]
    return code


@pytest.fixture
def caller(own_store: Store, today: date) -> Caller:
    own_store.do(lambda database: fill_figures(database, products=1, days=1, last=today))
    return new_caller(own_store, calls=20)


def test_a_call_that_comes_during_a_restart_waits_for_it(
    own_store: Store, caller: Caller, today: date, passed: socket.socket
) -> None:
    with PassedGateway(own_store, passed) as first:
        assert _call(first.base_url, caller, today) == 0
    with ThreadPoolExecutor(3) as threads:
        waiting = [threads.submit(_call, first.base_url, caller, today) for _ in range(3)]
        with PassedGateway(own_store, passed):
            assert [each.result() for each in waiting] == [0, 0, 0]
    assert amount_left(own_store, caller, CALLS) == 16


def test_without_it_such_a_call_is_refused(own_store: Store, caller: Caller, today: date) -> None:
    with Gateway(own_store) as gateway:
        assert _call(gateway.base_url, caller, today) == 0
    with pytest.raises(httpx.ConnectError):
        _call(gateway.base_url, caller, today)


def test_a_worker_that_is_replaced_gets_the_port_too(
    own_store: Store, caller: Caller, today: date, passed: socket.socket
) -> None:
    with PassedGateway(own_store, passed, workers=2) as gateway:
        before = gateway.workers()
        for worker in before:
            os.kill(worker, 9)
        eventually(gateway.workers, lambda now: len(now) == 2 and not set(now) & set(before))
        assert _call(gateway.base_url, caller, today) == 0


def _refusal(
    own_store: Store, passed: socket.socket, *options: str, count: int = 1
) -> tuple[int, str]:
    refused = subprocess.run(
        [*_passing(passed, count), "serve", *options],
        pass_fds=[passed.fileno()],
        env={**os.environ, **own_store.settings},
        cwd=own_store.path.parent,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return refused.returncode, " ".join(refused.stderr.split())


@pytest.mark.sqlite
def test_settings_that_name_another_port_are_refused(
    own_store: Store, passed: socket.socket
) -> None:
    port = passed.getsockname()[1]
    status, said = _refusal(own_store, passed, "--port", "80")
    assert status == 1
    assert (
        f"passed a socket at 127.0.0.1 port {port}, and the settings say 127.0.0.1 port 80" in said
    )
    assert "Change ListenStream=" in said
    status, said = _refusal(own_store, passed, "--host", "0.0.0.0")
    assert status == 1
    assert f"the settings say 0.0.0.0 port {port}" in said


@pytest.mark.sqlite
def test_what_a_gateway_cannot_listen_on_is_refused(
    own_store: Store, passed: socket.socket, tmp_path: Path
) -> None:
    status, said = _refusal(own_store, passed, count=2)
    assert (status, "leave one ListenStream=" in said) == (1, True)
    with socket.socket(socket.AF_UNIX) as local:
        local.bind(str(tmp_path / "socket"))
        local.listen()
        status, said = _refusal(own_store, local)
    assert (status, "such as 127.0.0.1:8080" in said) == (1, True)


@pytest.mark.sqlite
def test_a_socket_that_was_passed_to_another_process_is_left_alone(
    own_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LISTEN_FDS", "1")
    monkeypatch.setenv("LISTEN_PID", "1")
    with Gateway(own_store) as gateway:
        assert gateway.client.get("/readyz").status_code == 200


@pytest.mark.sqlite
@pytest.mark.parametrize("count", [None, "", "0"])
def test_without_a_number_of_sockets_none_was_passed(
    count: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LISTEN_PID", str(os.getpid()))
    monkeypatch.delenv("LISTEN_FDS", raising=False)
    if count is not None:
        monkeypatch.setenv("LISTEN_FDS", count)
    assert passed_socket() is None


@pytest.mark.sqlite
@pytest.mark.parametrize("descriptor", ["3<&-", "3</dev/null"])
def test_a_socket_that_was_announced_and_not_passed_is_named(
    own_store: Store, descriptor: str
) -> None:
    announced = f'LISTEN_FDS=1 LISTEN_PID=$$ exec "$@" {descriptor}'
    refused = subprocess.run(
        ["sh", "-c", announced, "sh", *_TOLLWAY, "serve"],
        env={**os.environ, **own_store.settings},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert refused.returncode == 1
    assert refused.stderr.count("\n") == 1, refused.stderr
    assert "descriptor 3 is none" in refused.stderr and "unset LISTEN_FDS" in refused.stderr


@pytest.mark.sqlite
def test_the_unit_has_the_name_of_its_service_and_the_port_of_the_settings() -> None:
    unit = parse((DEPLOY / "tollway.socket").read_text(encoding="utf-8"))
    assert (DEPLOY / "tollway.service").exists()
    assert unit["Socket"]["ListenStream"] == ["127.0.0.1:8080"]

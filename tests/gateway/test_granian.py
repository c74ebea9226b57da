"""The private parts of the HTTP server that the gateway overrides and uses are still as they were.

They may change with any minor version of granian, so that is pinned; if a test fails here after an
upgrade, read `gateway/supervisor.py` and `gateway/dispatch.py` beside the new version before the
pin is raised.
"""

import inspect
import os
import re
import subprocess
import sys
from importlib.metadata import version
from multiprocessing import get_context

import pytest
from granian._futures import _cbsched_aioschedule, _CBSchedulerAIO, _new_cbscheduler
from granian.server import mp
from granian.server.common import AbstractServer
from granian.server.mp import MPServer, WorkerProcess

from tests.docs.pages import ROOT
from tests.support.ports import free_port
from tollway.gateway.supervisor import GatewayServer, server_options, still_runs
from tollway.gateway.worker_group import WorkerGroup
from tollway.settings import Settings

pytestmark = pytest.mark.sqlite
OVERRIDDEN = {
    "signal_handler_interrupt": ["self", "*args", "**kwargs"],
    "_init_shared_socket": ["self"],
    "_write_pidfile": ["self"],
    "_spawn_worker": ["self", "idx", "target", "callback_loader"],
    "_spawn_workers": ["self", "spawn_target", "target_loader"],
    "_respawn_workers": ["self", "workers", "spawn_target", "target_loader", "delay=0"],
    "shutdown": ["self", "exit_code=0"],
}


def _parameters(function: object) -> list[str]:
    """Names and defaults, without types."""
    found = inspect.signature(function).parameters.values()  # type: ignore[arg-type]
    return [str(each.replace(annotation=inspect.Parameter.empty)) for each in found]


@pytest.mark.parametrize("name", OVERRIDDEN)
def test_a_method_that_is_overridden_has_the_signature_that_is_expected(name: str) -> None:
    assert _parameters(getattr(MPServer, name)) == OVERRIDDEN[name]
    assert _parameters(getattr(GatewayServer, name)) == OVERRIDDEN[name]


def test_no_other_method_is_overridden() -> None:
    own = {name for name, value in vars(GatewayServer).items() if inspect.isfunction(value)}
    inherited = {name for name in own if hasattr(MPServer, name)}
    assert inherited - {"__init__"} == set(OVERRIDDEN)


def test_what_is_read_and_changed_of_it_is_there() -> None:
    server = MPServer("tollway", **server_options(Settings(port=free_port())))
    assert (server.wrks, server.interrupt_children) == ([], [])
    assert (server.interrupt_signal, server.respawned_wrks) == (False, {})
    # A worker's process is asked for its exit status.
    assert "self.inner = " in inspect.getsource(WorkerProcess._spawn)


def test_no_start_looks_at_every_process_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    monkeypatch.setattr(mp, "ProcInfoCollector", lambda: looked.append("at all"))
    settings = Settings(port=free_port())
    MPServer("tollway", **server_options(settings))._write_pidfile()
    assert looked == ["at all"]
    GatewayServer(settings, WorkerGroup(1, ""))._write_pidfile()
    assert looked == ["at all"]


def test_what_it_looks_at_them_for_is_not_set() -> None:
    server = MPServer("tollway", **server_options(Settings(port=free_port())))
    assert (server.workers_rss, server.pid_file) == (None, None)


_SIGNALLED = """
import signal
from tollway.gateway.worker_group import Wakeup

wakeup = Wakeup()
signal.signal(signal.SIGALRM, lambda *_: wakeup.set())
for n in range(5_000):
    signal.setitimer(signal.ITIMER_REAL, (n % 60 + 1) * 1e-6)
    wakeup.clear()
    wakeup.wait(0.001)
wakeup.clear()
assert not wakeup.wait(0)
wakeup.set()
assert wakeup.wait()
"""


def test_a_signal_may_come_at_any_moment_of_the_main_loop() -> None:
    # The server sets its event in a signal handler, and clears it and waits for it in the thread
    # that runs that handler: its own kind of event ends in a deadlock here.
    assert "self.main_loop_interrupt = threading.Event()" in inspect.getsource(AbstractServer)
    subprocess.run([sys.executable, "-c", _SIGNALLED], check=True, timeout=60)


def test_the_scheduler_that_is_replaced_is_made_and_used_as_expected() -> None:
    assert _parameters(_new_cbscheduler) == ["loop", "cb", "impl_asyncio=False"]
    starting = inspect.getsource(inspect.unwrap(MPServer._spawn_asgi_lifespan_worker))
    assert "scheduler = _new_cbscheduler(loop, wcallback, impl_asyncio=" in starting
    # What it is given: an object for each request, and a function that is set once.
    assert "self._schedule_fn = " in inspect.getsource(_CBSchedulerAIO)
    scheduling = inspect.getsource(_cbsched_aioschedule)
    assert "def _schedule(watcher)" in scheduling and "watcher.taskref(task)" in scheduling


def test_its_minor_version_is_pinned() -> None:
    major, minor, *_ = map(int, version("granian").split("."))
    pinned = re.findall(r'"granian>=([\d.]+),<([\d.]+)"', (ROOT / "pyproject.toml").read_text())
    assert pinned == [(f"{major}.{minor}", f"{major}.{minor + 1}")]


def test_a_worker_whose_exit_status_another_thread_has_fetched_does_not_run() -> None:
    process = get_context("fork").Process(target=int)
    process.start()
    assert process.pid is not None
    os.waitpid(process.pid, 0)
    assert process.is_alive() and not still_runs(process)

"""What the units say is started for real, serves a call, and stops on request.

By a plain shell's means, and not by systemd: see `units.py` for what that leaves out.
"""

import signal
import subprocess
from datetime import date
from pathlib import Path

import httpx
import pytest

from tests.deploy.units import Installed, parse
from tests.docs.pages import ROOT, blocks_of
from tests.support.figures import store_with_figures
from tests.support.gateway import ANALYSIS
from tests.support.ledger import CALLS, amount_left, new_caller
from tests.support.ports import free_port
from tests.support.stores import Store
from tollway.operations.product_analysis.demo import product_ids


@pytest.fixture
def place(tmp_path: Path) -> Installed:
    return Installed(tmp_path)


def make_store(place: Installed, today: date) -> Store:
    place.at("/var/lib/tollway").mkdir(parents=True)
    return store_with_figures(place.at("/var/lib/tollway/tollway.db"), today)


def wait_until_serving(server: subprocess.Popen[str]) -> None:
    assert server.stdout is not None
    assert any("Ctrl+C" in line for line in server.stdout), "it did not start"


def _stop(place: Installed, unit: str, server: subprocess.Popen[str]) -> int:
    """Stops it as systemd would, and gives its exit status."""
    service = parse((place.units / unit).read_text(encoding="utf-8"))["Service"]
    server.send_signal(signal.Signals[service["KillSignal"][0]])
    status = server.wait(timeout=int(service["TimeoutStopSec"][0]))
    assert server.stdout is not None
    server.stdout.close()
    return status


def serve_one_call(store: Store, port: int, today: date) -> None:
    caller = new_caller(store, calls=5)
    answer = httpx.get(
        f"http://127.0.0.1:{port}{ANALYSIS}",
        params={"product_id": product_ids(1)[0], "query_date": today.isoformat()},
        headers={"Authorization": f"Bearer {caller.token}"},
        timeout=30,
    )
    assert answer.json()["code"] == 0
    assert amount_left(store, caller, CALLS) == 4


@pytest.mark.sqlite
def test_the_gateway_serves_and_stops(place: Installed, today: date) -> None:
    store, port = make_store(place, today), free_port()
    place.at("/etc/tollway/tollway.env").write_text(f"TOLLWAY_PORT={port}\n", encoding="utf-8")
    (server,) = place.start("tollway.service")
    wait_until_serving(server)
    serve_one_call(store, port, today)
    assert _stop(place, "tollway.service", server) == 0


@pytest.mark.postgresql
def test_two_nodes_serve_one_database(place: Installed, today: date) -> None:
    store = make_store(place, today)
    variable = f"TOLLWAY_DATABASE={store.url}\n"
    place.at("/etc/tollway/tollway.env").write_text(variable, encoding="utf-8")
    # The page tells how the two files are made.
    (made,) = [block for block in blocks_of(ROOT / "docs/deploy.md") if "> secret" in block.text]
    subprocess.run(["bash", "-ec", made.text], cwd=place.at("/etc/tollway"), check=True)
    ports = [free_port(), free_port()]
    servers = [place.start(f"tollway@{port}.service", str(port))[0] for port in ports]
    for server in servers:
        wait_until_serving(server)
    for port in ports:
        serve_one_call(store, port, today)
    assert [_stop(place, "tollway@.service", server) for server in servers] == [0, 0]


@pytest.mark.sqlite
def test_the_backup_is_made_and_old_ones_go(place: Installed, today: date) -> None:
    make_store(place, today)
    backups = place.at("/var/lib/tollway-backups")
    backups.mkdir()
    old, young = backups / "tollway-old.db", backups / "tollway-young.db"
    for path in (old, young):
        path.touch()
    subprocess.run(["touch", "-d", "20 days ago", str(old)], check=True)
    for process in (started := place.start("tollway-backup.service")):
        assert process.wait(timeout=60) == 0
        assert process.stdout is not None
        process.stdout.close()
    assert len(started) == 2
    assert young.exists() and not old.exists()
    (copy,) = backups.glob("tollway-2*.db")
    check = ["sha256sum", "--check", "--quiet", f"{copy.name}.sha256"]
    assert subprocess.run(check, cwd=backups, check=False).returncode == 0


@pytest.mark.sqlite
def test_the_audit_fails_when_the_ledger_does_not_add_up(place: Installed, today: date) -> None:
    store = make_store(place, today)
    new_caller(store, calls=5)
    for status in (0, 1):
        (audit,) = place.start("tollway-audit.service")
        assert audit.communicate(timeout=60)[0]
        assert audit.returncode == status
        store.run("UPDATE balance SET amount = amount + 1")

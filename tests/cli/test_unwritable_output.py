"""An output that cannot take what a command prints: its work is done by then, and who takes that
for a failure may do it twice."""

import os
import signal
import subprocess
import sys
import threading
from itertools import takewhile
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.support.ports import free_port
from tests.support.stores import Store

pytestmark = pytest.mark.sqlite
_NO_NORTH = {"PYTHONIOENCODING": "latin-1"}


def _run(*arguments: str, **how: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tollway", *arguments],
        check=False,
        text=True,
        encoding="latin-1",
        env={**os.environ, **_NO_NORTH},
        stderr=subprocess.PIPE,
        **{"stdout": subprocess.PIPE, **how},  # type: ignore[call-overload]
    )


def test_a_full_disk_behind_the_output_is_no_failure_of_the_work(
    tollway: Command, ledger_store: Store
) -> None:
    tollway("account", "open", "acme")
    for arguments in (("5",), ("6", "--json")):
        with Path("/dev/full").open("w") as full:
            credited = _run("credit", "add", "acme", *arguments, stdout=full)
        assert credited.returncode == 1
        assert credited.stderr == (
            "The command did its work, but its output could not be written: "
            "No space left on device.\n"
        )
    shown = tollway("account", "show", "acme", "--json").json
    assert [each["amount"] for each in shown["balances"]] == [11]


def test_a_reader_that_goes_away_ends_a_command_as_it_ends_others_but_not_its_work(
    tollway: Command, ledger_store: Store
) -> None:
    tollway("account", "open", "acme")
    reader, writer = os.pipe()
    os.close(reader)
    for arguments in (("credit", "add", "acme", "5"), ("account", "list", "--json"), ("--help",)):
        ended = _run(*arguments, stdout=writer)
        assert (ended.returncode, ended.stderr) == (128 + signal.SIGPIPE, "")
    os.close(writer)
    shown = tollway("account", "show", "acme", "--json").json
    assert [each["amount"] for each in shown["balances"]] == [5]


def test_what_a_terminal_has_no_characters_for_is_replaced(
    tollway: Command, ledger_store: Store
) -> None:
    account = tollway("account", "open", "北方", "--json").json["id"]
    listed = _run("account", "list")
    assert (listed.returncode, listed.stderr) == (0, "")
    assert f"{account}   ??" in listed.stdout
    credited = _run("credit", "add", "北方", "5")
    assert (credited.returncode, credited.stdout) == (0, "Account ?? now has 5 credits.\n")


def _serve() -> list[str]:
    return [sys.executable, "-m", "tollway", "serve", "--port", str(free_port())]


def test_a_gateway_greets_also_from_a_folder_that_cannot_be_shown(workplace: Path) -> None:
    folder = workplace / "北"
    folder.mkdir()
    environment = {**os.environ, **_NO_NORTH}
    with subprocess.Popen(
        _serve(),
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        encoding="latin-1",
    ) as serving:
        assert serving.stdout is not None
        alarm = threading.Timer(60, serving.kill)
        alarm.start()
        greeting = "".join(takewhile(lambda line: line != "Stop with Ctrl+C.\n", serving.stdout))
        alarm.cancel()
        serving.terminate()
    assert "/operator/enter?link=" in greeting
    assert "its database was made now, " in greeting and "/?/ledger.db" in greeting


def test_a_gateway_that_cannot_print_its_sign_in_link_serves_and_logs_where_to_get_one(
    workplace: Path,
) -> None:
    with (
        Path("/dev/full").open("w") as full,
        subprocess.Popen(_serve(), stdout=full, stderr=subprocess.PIPE, text=True) as serving,
    ):
        assert serving.stderr is not None
        alarm = threading.Timer(60, serving.kill)
        alarm.start()
        refused = next((line for line in serving.stderr if "No space left on device" in line), "")
        alarm.cancel()
        serving.terminate()
    assert "`tollway operator link operator` prints another link" in refused
    assert serving.returncode == 0

"""Where the examples run: a scratch folder, a shell, and a gateway of their own."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.docs.pages import ROOT, Example
from tests.support.forks import Fork, programs, run
from tests.support.ports import free_port
from tests.support.postgresql import new_database

# For a whole page, on a machine that others use too: only a command that hangs takes longer.
_TIMEOUT_S = 600
_COMMAND = "tests.docs.lone_demo"
_DEMO = "sqlite:///data/demo.db"
# A server that the pages assume the reader has.
_SHARED = "postgresql://tollway@db.example/tollway"
# The gateway of a caller, who has no checkout of the project.
REMOTE = "https://gateway.example"
_MARK = "\N{INFORMATION SEPARATOR TWO}"
# What a reader starts in another terminal: here it runs beside the other commands.
_PREAMBLE = """
set -e -o pipefail
ASIDE=
trap 'for each in $ASIDE; do { kill $each; wait $each; } || true; done' EXIT
aside() {
  local log=$(mktemp -p .)
  "$@" > $log 2>&1 &
  ASIDE="$ASIDE $!"
  until grep -q Ctrl+C $log; do
    kill -0 $! 2> /dev/null || { cat $log; return 1; }
    sleep 0.05
  done
  cat $log
}
"""


def make_demo_files(folder: Path) -> None:
    """Makes a small demo world in a folder; `Workplace.start_demo` serves a copy of it."""
    (folder / "data").mkdir()
    done = run(_COMMAND, "demo", "--database", _DEMO, cwd=folder)
    assert done.returncode == 0, done.stderr


class Workplace:
    """A folder that stands for the one a reader works in; its ports are free ones."""

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        self._folder = folder
        self._settings = settings or {}
        self._ports = {number: free_port() for number in (8080, 8081, 8090)}
        self._environment = {
            "PATH": f"{programs()}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(folder),
            "LANG": "C.UTF-8",
            "PYTHONPATH": os.environ["PYTHONPATH"],
            "TOLLWAY_PORT": str(self._ports[8080]),
            **self._settings,
        }
        self._gateway: Fork | None = None
        # The pages send the samples of the project, which is the folder a reader works in.
        (folder / "docs").symlink_to(ROOT / "docs")

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._ports[8080]}"

    @property
    def _database(self) -> str:
        return self._settings.get("TOLLWAY_DATABASE", _DEMO)

    def start_demo(self, files: Path | None = None) -> None:
        """What `make run` does, with a smaller world: a new one, or a copy of one made before."""
        if files is not None:
            shutil.copytree(files / "data", self._folder / "data")
        (self._folder / "data").mkdir(exist_ok=True)
        command = [_COMMAND, "serve", "--demo", "--database", self._database]
        with (self._folder / "gateway.log").open("wb") as log:
            self._gateway = Fork(*command, cwd=self._folder, env=self._environment, stderr=log)
        assert self._gateway.stdout is not None
        for line in self._gateway.stdout:
            if "Ctrl+C" in line:
                return
        raise AssertionError((self._folder / "gateway.log").read_text(encoding="utf-8"))

    def run(self, examples: Sequence[Example]) -> list[str]:
        """What each example printed; a failing command ends them all."""
        script = _PREAMBLE + "".join(
            f"{{\n{self._adapted(example.commands.text)}\n}}\nprintf '{_MARK}'\n"
            for example in examples
        )
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=self._folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            timeout=_TIMEOUT_S,
            check=False,
        )
        *outputs, last = done.stdout.split(_MARK)
        if len(outputs) < len(examples):
            failed = examples[len(outputs)].commands
            raise AssertionError(
                f"line {failed.line}: failed with status {done.returncode}:\n{failed.text}\n{last}"
            )
        return outputs

    def _adapted(self, commands: str) -> str:
        for number, port in self._ports.items():
            commands = re.sub(rf"\b{number}\b", str(port), commands)
        if REMOTE in commands or "cli_…" in commands:
            for shown, value in self._values_of_a_caller().items():
                commands = commands.replace(shown, value)
        commands = commands.replace(_DEMO, self._database)
        if _SHARED in commands:
            commands = commands.replace(_SHARED, new_database(is_migrated=False))
        aside = r"^(?:python -m )?(tollway serve|tollway\.demo\.fakes\.(?:carrier|link))\b"
        commands = re.sub(aside, r"aside \1", commands, flags=re.MULTILINE)
        # What make does is tested by everything else; only its targets are checked.
        return re.sub(r"^make .*$", ":", commands, flags=re.MULTILINE)

    def _values_of_a_caller(self) -> dict[str, str]:
        """What an operator gives to a caller, by what the pages show for it."""
        world = json.loads((self._folder / "data/demo.db.demo.json").read_text(encoding="utf-8"))
        add = ["client", "add", "Demo merchant", "--test", "--json", "--database", self._database]
        done = run("tollway", *add, cwd=self._folder, env=self._environment)
        client = json.loads(done.stdout)
        return {
            REMOTE: self.address,
            "tw_live_…": world["token"],
            "tw_test_…": world["test_token"],
            "cli_…": client["client_id"],
            "tw_secret_…": client["client_secret"],
        }

    def stop(self) -> None:
        if self._gateway is not None:
            self._gateway.send_signal(signal.SIGTERM)
            assert self._gateway.wait(_TIMEOUT_S) == 0
            assert self._gateway.stdout is not None
            self._gateway.stdout.close()

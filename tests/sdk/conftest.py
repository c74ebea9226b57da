"""One gateway with a small world, and the compiled TypeScript package, for tests of the SDKs."""

import fcntl
import io
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import ROOT
from tests.support.all_operations import all_operations_caller, small_world
from tests.support.engines import Engine
from tests.support.gateway import Gateway
from tests.support.ledger import Caller
from tests.support.stores import Store
from tollway_client.command_line import main

_SDK = ROOT / "sdk/typescript"
_IMPORTS = """
import { once } from "node:events";
import * as tollway from "tollway-client";
const print = (value) => console.log(JSON.stringify(value));
const pause = async (at) => { print({ pausedAt: at }); await once(process.stdin, "data"); };
"""
# It ends before its memory is scarce.
COMPILER = {"GOGC": "off"}
Run = Callable[..., list[Any]]


@pytest.fixture(scope="session")
def world(
    tmp_path_factory: pytest.TempPathFactory, today: date, engine: Engine
) -> Iterator[Gateway]:
    store = small_world(Store(tmp_path_factory.mktemp("sdk") / "tollway.db"), today)
    with Gateway(store, webhook_internal_hosts="127.0.0.1") as gateway:
        yield gateway


@pytest.fixture
def signed_in(
    world: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> Caller:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    caller = all_operations_caller(world.store)
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{caller.token}\n"))
    main(["sign-in", world.base_url])
    assert "You are signed in" in capsys.readouterr().out
    return caller


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which `import "tollway-client"` finds the compiled package."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("the TypeScript SDK is tested where node and npm are installed")
    base = tmp_path_factory.getbasetemp()
    # The processes of a run share one.
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "typescript"
    with Path(f"{folder}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            _compile(folder)
    return folder


def _compile(folder: Path) -> None:
    inside = folder / "node_modules/tollway-client"
    ignored = shutil.ignore_patterns("node_modules", "dist")
    shutil.copytree(_SDK, inside, ignore=ignored)
    # What npm has kept is not asked for again.
    command = ["npm", "ci", "--prefer-offline", "--no-audit", "--no-fund", "--no-update-notifier"]
    installed = subprocess.run(command, cwd=inside, capture_output=True, text=True, check=False)
    if installed.returncode:
        shutil.rmtree(folder)
        pytest.skip(f"npm cannot install the compiler: {installed.stderr[-300:]}")
    done = subprocess.run(
        ["npm", "run", "build"],
        cwd=inside,
        env={**os.environ, **COMPILER},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


@pytest.fixture
def run(package: Path, tmp_path: Path) -> Run:
    """Runs a script; what it prints, line by line as JSON. Where it pauses, it waits for `at`."""

    def run(script: str, at: Callable[[Any], object] | None = None, **names: Any) -> list[Any]:
        file = package / f"{tmp_path.name}-{len(list(package.iterdir()))}.mjs"
        constants = "".join(f"const {key} = {json.dumps(value)};\n" for key, value in names.items())
        file.write_text(f"{_IMPORTS}{constants}{script}\nprocess.stdin.destroy();\n")
        with subprocess.Popen(
            ["node", str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdin is not None and process.stdout is not None
            found = []
            for printed in map(json.loads, process.stdout):
                # Only a script that pauses still reads.
                if at is not None and isinstance(printed, dict) and "pausedAt" in printed:
                    at(printed["pausedAt"])
                    process.stdin.write("\n")
                    process.stdin.flush()
                else:
                    found.append(printed)
        assert process.returncode == 0, "its errors are in this test's output"
        return found

    return run

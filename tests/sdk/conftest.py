"""One gateway with a small world, and the compiled TypeScript package, for tests of the SDKs."""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.support.all_operations import small_world
from tests.support.engines import Engine
from tests.support.gateway import Gateway
from tests.support.stores import Store

_SDK = ROOT / "sdk/typescript"


@pytest.fixture(scope="session")
def world(
    tmp_path_factory: pytest.TempPathFactory, today: date, engine: Engine
) -> Iterator[Gateway]:
    store = Store(tmp_path_factory.mktemp("sdk") / "tollway.db")
    small_world(store, today)
    gateway = Gateway(store, webhook_internal_hosts="127.0.0.1")
    yield gateway
    assert gateway.stop() == 0


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
    command = ["npm", "ci", "--no-audit", "--no-fund"]
    installed = subprocess.run(command, cwd=inside, capture_output=True, text=True, check=False)
    if installed.returncode:
        shutil.rmtree(folder)
        pytest.skip(f"npm cannot install the compiler: {installed.stderr[-300:]}")
    done = subprocess.run(
        ["npm", "run", "build"], cwd=inside, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout

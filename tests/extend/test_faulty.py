"""An installed operation that is wrong: its callers get code 200, pay nothing, and others go on."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.engines import Engine
from tests.support.gateway import Gateway
from tests.support.ledger import RUNTIME, Caller, credits_left, new_caller
from tests.support.ports import free_port
from tests.support.remote import eventually
from tests.support.stores import Store
from tollway.ledger.entries import top_up
from tollway.ledger.permissions import Permission, add_permission
from tollway.store.database import Database

PATH = "/papi/faulty"
SOURCE = """
import asyncio
from typing import Annotated
import msgspec
from tollway.contract.envelope import encode_data
from tollway.contract.fields import Field, Text
from tollway.contract.operation import Encoding, Operation, Unit
from tollway.contract.reasons import Reason, Refusal
from tollway.operations.subject import Counted, Priced, Subject

class FaultyRequest(msgspec.Struct, frozen=True):
    how: Annotated[str, Field(Text(max_length=64), "What to do.")]

class FaultyResult(msgspec.Struct, frozen=True):
    withholding_money: int

def make_handler(services):
    async def handle(request, call):
        if request.how == "raises":
            raise ValueError("canary")
        if request.how == "refuses without values":
            raise Refusal(Reason.WINDOW_TOO_LONG)
        if request.how == "refuses without some values":
            raise Refusal(Reason.WINDOW_TOO_LONG, start="a")
        if request.how == "returns nothing":
            return None
        if request.how == "forgets to encode":
            return FaultyResult(call.price)
        if request.how == "cancels":
            raise asyncio.CancelledError
        if request.how == "exits":
            raise SystemExit(3)
        if request.how == "returns no JSON":
            return b"{oops"
        if request.how == "counts what is not encoded":
            return Counted(FaultyResult(call.price), 1)
        if request.how == "prices what is not encoded":
            return Priced(2, "text")
        return encode_data(FaultyResult(call.price))
    return handle

SUBJECT = Subject(
    Operation(
        "faulty", "Faulty", "GET", "/papi/faulty", Encoding.QUERY, FaultyRequest, FaultyResult,
        Unit.CREDITS, 3,
    ),
    make_handler,
)
"""


class OtherGateway(Gateway):
    """A gateway whose environment has the package in this folder too."""

    def __init__(self, packages: Path, store: Store) -> None:
        self._packages = packages
        super().__init__(store)

    def _start(self, *command: str, env: dict[str, str], **where: Any) -> Any:
        env = {**env, "PYTHONPATH": f"{env['PYTHONPATH']}:{self._packages}"}
        program = [sys.executable, "-m", *command]
        return subprocess.Popen(program, env=env, stdout=subprocess.PIPE, text=True, **where)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, engine: Engine) -> Store:
    return Store(tmp_path_factory.mktemp("faulty") / "tollway.db")


def install(packages: Path, name: str, refers_to: str) -> None:
    """What an installer writes about a package."""
    about = packages / f"{name}-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (about / "entry_points.txt").write_text(f"[tollway.operations]\n{name} = {refers_to}\n")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, store: Store) -> Iterator[Gateway]:
    packages = tmp_path_factory.mktemp("packages")
    (packages / "faulty.py").write_text(SOURCE)
    install(packages, "faulty", "faulty:SUBJECT")
    started = OtherGateway(packages, store)
    yield started
    assert started.stop() == 0


@pytest.fixture
def caller(store: Store) -> Caller:
    made = new_caller(store, operations=())

    async def work(database: Database) -> None:
        await add_permission(database, made.account_id, Permission("faulty", None, 1000))
        await top_up(database, RUNTIME, made.account_id, "credits", 100)

    store.do(work)
    return made


@pytest.mark.parametrize(
    "how",
    [
        "raises",
        "refuses without values",
        "refuses without some values",
        "returns nothing",
        "forgets to encode",
        "cancels",
        "exits",
        "returns no JSON",
        "counts what is not encoded",
        "prices what is not encoded",
    ],
)
@pytest.mark.parametrize("headers", [{}, {"Idempotency-Key": "k"}], ids=["plain", "with a key"])
def test_200_and_nothing_is_charged(
    served: Gateway, store: Store, caller: Caller, how: str, headers: dict[str, str]
) -> None:
    for _ in range(2):
        reply = served.get(PATH, token=caller.token, query={"how": how}, headers=headers)
        assert (reply.code, reply.data) == (200, {}), reply.envelope
    assert credits_left(store, caller) == 100
    assert served.get(PATH, token=caller.token, query={"how": "works"}).code == 0
    assert credits_left(store, caller) == 97
    eventually(served.log, lambda log: "a call failed unexpectedly" in log)


@pytest.mark.sqlite
def test_a_package_that_cannot_be_used_is_one_sentence(tmp_path: Path) -> None:
    install(tmp_path, "broken", "no_such_module:SUBJECT")
    environment = {**os.environ, "PYTHONPATH": f"{os.environ['PYTHONPATH']}:{tmp_path}"}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "tollway", *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    assert run("--version").returncode == 0
    listed = run("operation", "list")
    assert (listed.returncode, listed.stdout) == (1, "")
    assert listed.stderr.startswith("The package broken cannot be used, because no_such_module")
    assert listed.stderr.count("\n") == 1


@pytest.mark.sqlite
def test_a_package_that_cannot_make_its_handler_is_one_sentence(tmp_path: Path) -> None:
    install(tmp_path, "faulty", "faulty:SUBJECT")
    source = SOURCE.replace(
        "    async def handle", "    raise OSError('no licence')\n    async def handle"
    )
    (tmp_path / "faulty.py").write_text(source)
    environment = {**os.environ, "PYTHONPATH": f"{os.environ['PYTHONPATH']}:{tmp_path}"}
    served = subprocess.run(
        [sys.executable, "-m", "tollway", "serve", "--port", str(free_port())],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert served.returncode == 1
    assert served.stderr.count("The package faulty cannot be used, because its make_handler") == 1
    assert "OSError: no licence" in served.stderr and "Traceback" not in served.stderr
    assert "is replaced" not in served.stderr

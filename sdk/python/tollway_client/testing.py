"""A gateway for your tests: on this machine, with a sandbox, without anything to pay.

    with sandbox_gateway() as sandbox:
        client = Client(sandbox.token, sandbox.base_url)

Tollway must be installed where the tests run (`pip install tollway`).
"""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import IO, Any, Optional

_OPERATIONS = (
    "product_analysis",
    "coupon_claims",
    "promotion_material",
    "waybills",
    "orders",
)
_ACCOUNT = "tests"
_STOP_S = 40


@dataclass(frozen=True)
class SandboxGateway:
    """Where it is, and a test token for it. What it has is at {base_url}/docs/sandbox."""

    base_url: str
    token: str
    shop: str = "880012001"
    shop_not_authorized: str = "880012002"
    user: int = 116385041
    product: str = "620145000100"
    channel: str = "tw_demo_channel"
    carrier: str = "YTO"
    carrier_without_numbers: str = "DBKD"


@contextmanager
def sandbox_gateway(command: Optional[Sequence[str]] = None) -> Iterator[SandboxGateway]:
    """Runs a gateway of its own, and ends it."""
    tollway = list(command or (sys.executable, "-m", "tollway"))
    with TemporaryDirectory(prefix="tollway-tests-") as folder:
        port = _free_port()
        settings = {
            name: value for name, value in os.environ.items() if not name.startswith("TOLLWAY_")
        }
        settings["TOLLWAY_DATABASE"] = f"sqlite:///{folder}/tollway.db"
        settings["TOLLWAY_PORT"] = str(port)

        def run(*arguments: str) -> str:
            done = subprocess.run(
                [*tollway, *arguments],
                cwd=folder,
                env=settings,
                stdout=subprocess.PIPE,
                check=True,
            )
            return done.stdout.decode()

        run("migrate")
        run("account", "open", _ACCOUNT)
        for operation in _OPERATIONS:
            run("permission", "add", _ACCOUNT, operation)
        token = json.loads(run("token", "issue", _ACCOUNT, "--test", "--json"))["text"]
        server = subprocess.Popen(
            [*tollway, "serve"], cwd=folder, env=settings, stdout=subprocess.PIPE
        )
        try:
            _wait_until_ready(server.stdout)
            yield SandboxGateway(f"http://127.0.0.1:{port}", token)
        finally:
            server.terminate()
            server.wait(_STOP_S)
            if server.stdout is not None:
                server.stdout.close()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def _wait_until_ready(output: Optional[IO[Any]]) -> None:
    for line in output or ():
        if b"Ctrl+C" in line:
            return
    raise RuntimeError("The gateway did not start; what it wrote says why.")

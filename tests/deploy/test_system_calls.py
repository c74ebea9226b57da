"""The gateway needs no system call and no kind of socket that its unit denies it."""

import os
import re
import shutil
import signal
import subprocess
from datetime import date
from functools import cache
from pathlib import Path

import pytest

from tests.deploy.test_units_start import make_store, serve_one_call, wait_until_serving
from tests.deploy.units import Installed, parse
from tests.support.ports import free_port

pytestmark = [
    pytest.mark.sqlite,
    pytest.mark.skipif(
        not (shutil.which("strace") and shutil.which("systemd-analyze")),
        reason="strace and systemd-analyze are not both installed",
    ),
]


@cache
def _allowed(group: str) -> frozenset[str]:
    """The system calls of a group, with those of the groups in it."""
    asked = ["systemd-analyze", "syscall-filter", group]
    output = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    names = re.findall(r"^    (@?[\w-]+)$", output, re.MULTILINE)
    return frozenset().union(
        *(_allowed(name) if name.startswith("@") else {name} for name in names)
    )


def test_all_that_is_asked_of_the_kernel_is_allowed(tmp_path: Path, today: date) -> None:
    place, port, trace = Installed(tmp_path, is_loaded=False), free_port(), tmp_path / "trace"
    store = make_store(place, today)
    place.at("/etc/tollway/tollway.env").write_text(f"TOLLWAY_PORT={port}\n", encoding="utf-8")
    (tracer,) = place.start("tollway.service", under=["strace", "-f", "-qq", "-o", str(trace)])
    wait_until_serving(tracer)
    serve_one_call(store, port, today)
    children = Path(f"/proc/{tracer.pid}/task/{tracer.pid}/children").read_text().split()
    os.kill(int(children[0]), signal.SIGTERM)
    assert tracer.wait(timeout=60) == 0
    assert tracer.stdout is not None
    tracer.stdout.close()
    text = trace.read_text(encoding="utf-8", errors="replace")
    service = parse((place.units / "tollway.service").read_text(encoding="utf-8"))["Service"]
    used = set(re.findall(r"^\d+ +(\w+)\(", text, re.MULTILINE))
    assert len(used) > 30
    assert used <= _allowed(service["SystemCallFilter"][0]) | _allowed("@default")
    families = set(re.findall(r"\bsocket\((AF_\w+)", text))
    assert families and families <= set(service["RestrictAddressFamilies"][0].split())


def test_what_the_filter_denies_is_known() -> None:
    assert "mount" not in _allowed("@system-service") | _allowed("@default")

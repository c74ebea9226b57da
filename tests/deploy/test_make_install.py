"""`make install` where packages come from: uv, or pip if uv cannot, or a sentence of what to do.

The programs are stand-ins, so that nothing is installed and no network is asked.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.sqlite

PROJECT = Path(__file__).parents[2]
# As Python: it can make an environment, which has a copy of itself, and install with pip or not.
PYTHON = """#!/bin/sh
echo "python $*" >> "$SEEN"
case "$*" in
  "-m venv"*) mkdir -p .venv/bin; cp "$0" .venv/bin/python ;;
  *"-m pip"*) test "$PIP_WORKS" = yes || { echo "no index" >&2; exit 1; } ;;
esac
"""
UV = """#!/bin/sh
echo "uv $*" >> "$SEEN"
test "$UV_WORKS" = yes
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(PROJECT / name, tmp_path)
    shutil.copytree(PROJECT / "requirements", tmp_path / "requirements")
    _program(tmp_path / "python", PYTHON)
    return tmp_path


def _program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def _install(project: Path, **works: str) -> tuple[int, str, list[str]]:
    seen = project / "seen"
    seen.write_text("")
    if works.get("UV_WORKS"):
        (project / ".venv" / "bin").mkdir(parents=True, exist_ok=True)
        shutil.copy(project / "python", project / ".venv" / "bin" / "python")
        _program(project / ".venv" / "bin" / "uv", UV)
    done = subprocess.run(
        ["make", "install", f"PYTHON={project}/python"],
        cwd=project,
        env={"PATH": os.environ["PATH"], "SEEN": str(seen), **works},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr, seen.read_text().splitlines()


def test_uv_installs(project: Path) -> None:
    status, printed, seen = _install(project, UV_WORKS="yes")
    assert (status, "Installed: .venv/bin/tollway" in printed) == (0, True)
    assert not any("-m pip" in line for line in seen)


def test_where_uv_reaches_no_index_pip_installs(project: Path) -> None:
    status, printed, seen = _install(project, UV_WORKS="no", PIP_WORKS="yes")
    assert (status, "Installed: .venv/bin/tollway" in printed) == (0, True)
    assert "uv could not install this; trying pip" in printed
    assert any("-m pip install" in line and "runtime.lock" in line for line in seen)


def test_where_neither_does_the_last_sentence_says_what_to_do(project: Path) -> None:
    status, printed, _ = _install(project, PIP_WORKS="no")
    assert status != 0
    *_, last, _ = printed.splitlines()
    assert last.startswith("The packages could not be installed") and "PIP_INDEX_URL" in last
    assert not (project / ".venv" / ".runtime-installed").exists()

"""The Containerfile, as far as it can be tried without building an image.

Its base image and the installing of the lock need a network. Whether what it copies is enough for a
gateway is tried: the same files are installed into an empty folder, and its own commands are run
there.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.ports import free_port
from tollway.carriers.labels import drawing

pytestmark = pytest.mark.sqlite

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ")
STEPS = [
    (found[1], found[2].strip()) for found in re.finditer(r"^([A-Z]+) (.*)$", TEXT, re.MULTILINE)
]


def _all(instruction: str) -> list[str]:
    return [value for name, value in STEPS if name == instruction]


def _copied() -> list[str]:
    """What is copied from the project, and not from an earlier stage."""
    sources = [value.split()[:-1] for value in _all("COPY") if not value.startswith("--from")]
    return [name for names in sources for name in names]


def test_only_known_instructions_are_used() -> None:
    known = "ARG FROM WORKDIR RUN COPY ENV USER VOLUME EXPOSE STOPSIGNAL HEALTHCHECK ENTRYPOINT"
    assert {name for name, _ in STEPS} == set(known.split())


def test_what_is_copied_exists_and_is_let_through() -> None:
    ignored = (ROOT / ".containerignore").read_text(encoding="utf-8").splitlines()
    assert "*" in ignored
    for name in _copied():
        assert (ROOT / name).exists()
        assert f"!{name}" in ignored


def test_everything_is_installed_from_the_lock_by_its_hash() -> None:
    first, second = (step for step in _all("RUN") if "pip install" in step)
    assert "--require-hashes" in first and "-r requirements/runtime.lock" in first
    assert "--no-deps" in first and "--no-deps" in second
    assert "--no-build-isolation ." in second
    lock = (ROOT / "requirements/runtime.lock").read_text(encoding="utf-8")
    pinned = re.findall(r"^[a-z0-9._-]+==", lock, re.MULTILINE | re.IGNORECASE)
    assert len(pinned) == len(re.findall(r"^    --hash=sha256:.*(?<!\\)$", lock, re.MULTILINE))


def test_it_is_two_stages_and_ends_without_root() -> None:
    assert _all("ARG") == ["BASE=python:3.11-slim"]
    assert [value.partition(" AS ")[0] for value in _all("FROM")] == ["${BASE}"] * 2
    assert _all("USER") == ["tollway"]
    assert "tollway" in next(step for step in _all("RUN") if "useradd" in step)
    assert _all("VOLUME") == ["/data"]


def test_it_installs_a_font_that_labels_are_drawn_with() -> None:
    # Which file this package of Debian has.
    fonts = {"fonts-wqy-microhei": "/usr/share/fonts/truetype/wqy/wqy-microhei.ttc"}
    (step,) = (each for each in _all("RUN") if "apt-get install" in each)
    (path,) = (path for package, path in fonts.items() if package in step)
    assert path in [pattern.format(regular) for pattern, regular, _ in drawing._USUAL]


def test_the_files_it_copies_make_a_gateway(tmp_path: Path) -> None:
    for name in _copied():
        target = tmp_path / "build" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, target)
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-cache-dir", "--no-index"]
    install += ["--disable-pip-version-check", "--no-deps", "--no-build-isolation"]
    # Of which most would never be loaded here.
    install += ["--no-compile"]
    site = tmp_path / "site"
    subprocess.run([*install, "--target", str(site), "."], cwd=tmp_path / "build", check=True)
    _serve_from(site, tmp_path)


def _serve_from(site: Path, folder: Path) -> None:
    """Runs the entry point and the health check as they stand in the file."""
    port, data = str(free_port()), folder / "data"
    data.mkdir()
    variables = dict(re.findall(r"(TOLLWAY_\w+)=(\S+)", _all("ENV")[0]))
    variables["TOLLWAY_PORT"] = port
    variables["TOLLWAY_DATABASE"] = variables["TOLLWAY_DATABASE"].replace("/data", str(data), 1)
    program, *arguments = json.loads(_all("ENTRYPOINT")[0])
    assert program == "tollway"
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(site), **variables}
    python, *check = json.loads(_all("HEALTHCHECK")[0].partition("CMD ")[2])
    assert python == "python"

    def is_healthy() -> bool:
        asked = [sys.executable, *check]
        done = subprocess.run(asked, env=environment, capture_output=True, check=False)
        return done.returncode == 0

    assert not is_healthy()
    server = subprocess.Popen(
        [sys.executable, "-m", program, *arguments],
        cwd=data,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    assert any("Ctrl+C" in line for line in server.stdout), "it did not start"
    assert is_healthy()
    server.terminate()
    assert server.wait(timeout=45) == 0
    server.stdout.close()
    assert {"tollway.db", "tollway.db.keys", "tollway.db.secret"} <= {
        path.name for path in data.iterdir()
    }

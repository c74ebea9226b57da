"""A fresh environment with Tollway and the packages of docs/extend.md, as an operator has it."""

import os
import re
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.docs.pages import DOCS, ROOT, examples_of
from tests.support.gateway import Gateway
from tests.support.lent_environment import lend_bytecode, lend_pip
from tests.support.stores import Store

PAGE = DOCS / "extend.md"
_TIMEOUT_S = 180
_FILE = re.compile(r"^`([\w/.-]+)`\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INSTALL = "pip install "


def files_of_page() -> dict[str, str]:
    """The files that the page shows in full, by their paths."""
    return dict(_FILE.findall(PAGE.read_text(encoding="utf-8")))


def install_commands() -> list[str]:
    """What the page has its reader install."""
    lines = "".join(each.commands.text for each in examples_of(PAGE)).splitlines()
    return [line for line in lines if line.startswith(_INSTALL)]


class Environment:
    """A virtual environment of its own, and beside it the files of the page."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._programs = folder / "env" / "bin"
        for name, text in files_of_page().items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
        venv.create(folder / "env", symlinks=True)
        self._install_dependencies()
        lend_pip(self._programs)
        self._install_project()
        lend_bytecode(self._packages)

    @property
    def _packages(self) -> Path:
        (found,) = (self.folder / "env" / "lib").glob("python*/site-packages")
        return found

    @property
    def variables(self) -> dict[str, str]:
        """Without what leads to the code of this checkout; nothing is fetched from outside."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTHON", "PIP_", "TOLLWAY_", "VIRTUAL_ENV"))
        }
        return {
            **kept,
            "PATH": f"{self._programs}:{kept['PATH']}",
            "LANG": "C.UTF-8",
            "PIP_NO_INDEX": "1",
            # Its backend is in the environment; this is how pip spells "without isolation".
            "PIP_NO_BUILD_ISOLATION": "0",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        }

    def shell(self, commands: str, **variables: str) -> str:
        """What commands print in this environment; a failing one fails the test."""
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", commands],
            cwd=self.folder,
            env={**self.variables, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            timeout=_TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, f"{commands}\n{done.stdout}"
        return done.stdout

    def install(self, *names: str) -> None:
        """Packages of the page, with the uv of this environment if it has one: to load pip takes
        two seconds."""
        folders = [str(self.folder / name) for name in names]
        if not self._is_installed_by_uv("--no-cache", "--no-build-isolation", *folders):
            self.shell(f"pip install --quiet {' '.join(folders)}")

    def _install_dependencies(self) -> None:
        """The locked ones, from what uv has kept; without that, those of this environment, which
        are the same."""
        lock = ROOT / "requirements" / "runtime.lock"
        what = ("--no-deps", "--require-hashes", "--requirement", str(lock))
        if not self._is_installed_by_uv(*what):
            (self._packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))

    def _install_project(self) -> None:
        # Without what uv has kept: it would not notice that a module has changed.
        what = ("--no-deps", "--no-cache", "--no-build-isolation", str(ROOT))
        if not self._is_installed_by_uv(*what):
            self.shell(f"pip install --quiet {ROOT}")

    def _is_installed_by_uv(self, *what: str) -> bool:
        uv = Path(sys.executable).parent / "uv"
        if not uv.exists():
            return False
        where = ("--offline", "--python", self._programs / "python")
        done = subprocess.run(
            [uv, "pip", "install", *where, *what], capture_output=True, check=False
        )
        return done.returncode == 0


class InstalledGateway(Gateway):
    """A gateway that runs from an environment."""

    def __init__(self, environment: Environment, store: Store, **settings: object) -> None:
        self._environment = environment
        super().__init__(store, **settings)

    def _start(self, *command: str, env: dict[str, str], **where: Any) -> Any:
        ours = self._environment.variables
        settings = {name: value for name, value in env.items() if name.startswith("TOLLWAY_")}
        return subprocess.Popen(
            self._command(command),
            env={**ours, **settings},
            stdout=subprocess.PIPE,
            encoding="utf-8",
            **where,
        )

    def _command(self, command: Sequence[str]) -> list[str]:
        program, *arguments = command
        return [str(self._environment.folder / "env" / "bin" / program), *arguments]

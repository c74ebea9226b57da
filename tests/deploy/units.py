"""systemd units as the tests read them, and what they say started without systemd.

Paths from the root are moved below a folder; user, credentials' protection and all that shuts a
unit in are systemd's to do, and are not done here.
"""

import re
import shlex
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import tollway
from tests.support.forks import programs

DEPLOY = Path(__file__).parents[2] / "deploy"
UNITS = tuple(sorted(DEPLOY.glob("*.*")))
SERVICES = tuple(path for path in UNITS if path.suffix == ".service")
_MOVED = ("/opt/tollway", "/var/lib/tollway", "/etc/tollway")
_STARTER = '#!/bin/sh\nPYTHONPATH={source} exec {program} "$@"\n'

Unit = dict[str, dict[str, list[str]]]


def parse(text: str) -> Unit:
    """The values by section and key; a key may come more than once."""
    unit: Unit = {}
    section: dict[str, list[str]] | None = None
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        if heading := re.fullmatch(r"\[(\w+)\]", line):
            section = unit.setdefault(heading[1], defaultdict(list))
            continue
        key, equals, value = line.partition("=")
        assert section is not None and equals and re.fullmatch(r"[A-Za-z]+", key), line
        section[key].append(value)
    return unit


class Installed:
    """The units and the command, installed below a folder: a command that needs no time to load, or
    one that is a process of its own from the beginning."""

    def __init__(self, root: Path, *, is_loaded: bool = True) -> None:
        self._root = root
        self.units = root / "etc/systemd/system"
        for folder in ("opt/tollway/.venv/bin", "etc/tollway", "run/credentials"):
            (root / folder).mkdir(parents=True)
        self.units.mkdir(parents=True)
        for path in UNITS:
            (self.units / path.name).write_text(self._moved(path.read_text()), encoding="utf-8")
        starter = root / "opt/tollway/.venv/bin/tollway"
        source = Path(tollway.__file__).parents[1]
        program = programs() / "tollway" if is_loaded else f"{sys.executable} -m tollway"
        starter.write_text(_STARTER.format(source=source, program=program), encoding="utf-8")
        starter.chmod(0o755)

    def at(self, path: str) -> Path:
        return self._root / path.lstrip("/")

    def start(
        self, name: str, instance: str = "", *, under: Sequence[str] = ()
    ) -> list[subprocess.Popen[str]]:
        """Starts what the unit says, in its order, under another program if one is given; all but
        the last are waited for."""
        file = name.replace(f"@{instance}.", "@.") if instance else name
        service = parse((self.units / file).read_text(encoding="utf-8"))["Service"]
        for folder in service["StateDirectory"][0].split():
            self.at(f"/var/lib/{folder}").mkdir(parents=True, exist_ok=True)
        credentials = self._root / "run/credentials"
        for credential in service.get("LoadCredential", ()):
            title, _, source = credential.partition(":")
            shutil.copy(source, credentials / title)

        specifiers = {"%%": "%", "%i": instance, "%d": str(credentials)}
        resolved = partial(re.sub, "%.", lambda found: specifiers[found[0]])
        variables = self._variables(service, resolved)
        started: list[subprocess.Popen[str]] = []
        for command in service["ExecStart"]:
            if started:
                assert started[-1].wait(timeout=60) == 0
            argv = [word.replace("$$", "$") for word in shlex.split(resolved(command))]
            started.append(
                subprocess.Popen(
                    [*under, *argv],
                    env=variables,
                    cwd=service["WorkingDirectory"][0],
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
        return started

    @staticmethod
    def _variables(service: dict[str, list[str]], resolved: Callable[[str], str]) -> dict[str, str]:
        variables = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
        for line in map(resolved, service.get("Environment", ())):
            variables.update([line.split("=", 1)])
        for file in service["EnvironmentFile"]:
            path = Path(file.removeprefix("-"))
            if path.exists() or not file.startswith("-"):
                lines = path.read_text(encoding="utf-8").splitlines()
                variables.update(line.split("=", 1) for line in lines)
        return variables

    def _moved(self, text: str) -> str:
        for path in _MOVED:
            text = text.replace(path, f"{self._root}{path}")
        return text

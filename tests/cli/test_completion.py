"""Shell completion as bash asks for it: the script that is shown or installed, and its answers."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.forks import programs

BASH = shutil.which("bash")
pytestmark = [
    pytest.mark.sqlite,
    pytest.mark.skipif(BASH is None, reason="there is no bash to complete for"),
]

# As bash does when TAB is pressed after these words, the last of which may be unfinished.
_PRESS_TAB = """
COMP_WORDS=({words}) COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)) COMPREPLY=()
function=$(complete -p tollway | sed 's/.* -F \\([^ ]*\\) .*/\\1/')
"$function" tollway
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture
def environment(workplace: Path) -> Mapping[str, str]:
    """A home of its own, and the program `tollway` by its name."""
    home = workplace / "home"
    home.mkdir()
    return {**os.environ, "HOME": str(home), "PATH": f"{programs()}:{os.environ['PATH']}"}


@pytest.fixture
def in_shell(environment: Mapping[str, str], workplace: Path) -> Mapping[str, str]:
    """The same, but as a process of the shell that starts it, which it looks for."""
    folder = workplace / "bin"
    folder.mkdir()
    program = folder / "tollway"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tollway "$@"\n')
    program.chmod(0o755)
    return {**environment, "PATH": f"{folder}:{os.environ['PATH']}"}


@pytest.fixture(scope="module")
def shown() -> str:
    """The script that is shown in bash."""
    show = f'"{sys.executable}" -m tollway --show-completion'
    return "\n".join(bash(show, os.environ))


def bash(script: str, environment: Mapping[str, str]) -> list[str]:
    assert BASH is not None
    # More than one command, or bash would become the command and be no shell to detect.
    done = subprocess.run(
        [BASH, "--norc", "-c", f"{script}\ntrue"],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("tollway acc", ["account"]),
        ("tollway re", ["receipt", "records", "reconcile", "restore", "retention"]),
        ("tollway account ''", ["open", "list", "show", "suspend", "resume", "close"]),
        ("tollway intake rejected l", ["list"]),
        ("tollway ledger export acme --un", ["--unit"]),
        ("tollway keys accept s", ["secret_file"]),
    ],
)
def test_what_bash_offers_after_the_shown_script(
    environment: Mapping[str, str], shown: str, words: str, offered: list[str]
) -> None:
    assert bash(f"{shown}\n{_PRESS_TAB.format(words=words)}", environment) == offered


def test_what_is_installed_works_in_the_next_shell(in_shell: Mapping[str, str]) -> None:
    (said, _) = bash("tollway --install-completion", in_shell)
    assert said.startswith("bash completion installed in ")
    script = f"source ~/.bashrc\n{_PRESS_TAB.format(words='tollway token i')}"
    assert bash(script, in_shell) == ["issue"]

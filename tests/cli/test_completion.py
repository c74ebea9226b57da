"""Shell completion as bash asks for it: the script that is shown or installed, and its answers."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

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
    home, programs = workplace / "home", workplace / "bin"
    home.mkdir()
    programs.mkdir()
    program = programs / "tollway"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tollway "$@"\n')
    program.chmod(0o755)
    return {**os.environ, "HOME": str(home), "PATH": f"{programs}:{os.environ['PATH']}"}


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
        ("tollway account ''", ["open", "list", "show", "close"]),
        ("tollway intake rejected l", ["list"]),
        ("tollway ledger export acme --un", ["--unit"]),
        ("tollway keys accept s", ["secret_file"]),
    ],
)
def test_what_bash_offers_after_the_shown_script(
    environment: Mapping[str, str], words: str, offered: list[str]
) -> None:
    script = f'eval "$(tollway --show-completion)"\n{_PRESS_TAB.format(words=words)}'
    assert bash(script, environment) == offered


def test_what_is_installed_works_in_the_next_shell(environment: Mapping[str, str]) -> None:
    (said, _) = bash("tollway --install-completion", environment)
    assert said.startswith("bash completion installed in ")
    script = f"source ~/.bashrc\n{_PRESS_TAB.format(words='tollway token i')}"
    assert bash(script, environment) == ["issue"]

"""What contributors use: `make help`, the hooks, the workflow, the commands that run one test."""

import re
import subprocess

import pytest

from tests.docs.pages import ROOT, blocks_of
from tests.support.forks import run


def _text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def _make(*arguments: str) -> list[str]:
    done = subprocess.run(
        ["make", "--no-print-directory", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def test_make_help_describes_every_target() -> None:
    (phony,) = re.findall(r"^\.PHONY: (.*)$", _text("Makefile"), re.MULTILINE)
    described = [re.match(r"make (\w+) +\w", line) for line in _make("help")]
    assert [found[1] for found in described if found] == phony.split()


def test_make_alone_prints_the_help() -> None:
    assert _make() == _make("help")


def test_the_hooks_are_the_checks_of_make_check() -> None:
    entries = re.findall(r"entry: (.*)$", _text(".pre-commit-config.yaml"), re.MULTILINE)
    recipe = _text("Makefile").partition("\ncheck:")[2].partition("\n\n")[0].splitlines()[1:]
    assert entries == [line.strip().replace("$(BIN)", ".venv/bin") for line in recipe]


def test_the_workflow_runs_the_commands_that_people_use() -> None:
    assert re.findall(r"run: (.*)$", _text(".github/workflows/ci.yml"), re.MULTILINE) == [".ci/run"]
    commands = re.findall(r"^make .*$", _text(".ci/run"), re.MULTILINE)
    assert commands == ["make check", "make test || make retest"]


_COMMANDS = [
    line.removeprefix("$ .venv/bin/python -m pytest ").split()
    for block in blocks_of(ROOT / "CONTRIBUTING.md")
    for line in block.text.splitlines()
    if "pytest" in line
]


@pytest.mark.parametrize("command", _COMMANDS, ids=" ".join)
def test_the_commands_that_run_one_test_find_tests(command: list[str]) -> None:
    done = run("pytest", *command, "--collect-only", cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_module_is_of_a_size_to_read() -> None:
    modules = [path for path in (ROOT / "src/tollway").rglob("*.py") if path.name != "__init__.py"]
    lines = {path: path.read_text(encoding="utf-8").count("\n") for path in modules}
    assert {path.name: lines[path] for path in modules if not 15 <= lines[path] <= 400} == {}

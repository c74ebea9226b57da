"""The first page, in both languages: what a reader finds on it, and that installing works."""

import os
import re
import subprocess
import sys
import sysconfig
import urllib.request
from pathlib import Path

import pytest

from tests.docs.pages import (
    CALL,
    CALL_ZH,
    DOCS,
    README,
    README_ZH,
    ROOT,
    blocks_of,
    examples_of,
    name_of,
)
from tests.support.lent_environment import lend_pip
from tests.support.ports import free_port
from tollway.operations.catalogue import OPERATIONS

both_languages = pytest.mark.parametrize("page", (README, README_ZH), ids=name_of)
_LINES_MAX = 200


@both_languages
def test_it_is_short_and_begins_with_words_a_picture_and_the_two_commands(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text.count("\n") < _LINES_MAX
    assert re.search(r"^!\[.+\]\(docs/pictures/\w+\.svg\)$", text.partition("```")[0], re.MULTILINE)
    first, second = (example.commands.text for example in examples_of(page)[:2])
    assert (first, second) == ("make run\n", "make test\n")


@both_languages
def test_each_operation_has_one_plain_curl(page: Path) -> None:
    calls = [each.commands.text for each in examples_of(page) if "curl" in each.commands.text]
    assert len(calls) == len(OPERATIONS)
    for operation, call in zip(OPERATIONS, calls, strict=True):
        assert call.startswith("curl -s -H")
        assert operation.path.removeprefix("/papi/tool") in call


@both_languages
@pytest.mark.parametrize("language", ["python", "javascript"])
def test_five_lines_of_a_program_are_those_that_tests_run(page: Path, language: str) -> None:
    (shown,) = (block.text for block in blocks_of(page) if block.language == language)
    run = next(
        block.text
        for block in blocks_of(DOCS / f"call/{language}.md")
        if block.language == language
    )
    assert shown == run
    assert len([line for line in shown.splitlines() if line]) <= 5


@pytest.mark.parametrize(
    ("english", "chinese"), [(README, README_ZH), (CALL, CALL_ZH)], ids=["README", "call"]
)
def test_the_chinese_page_has_the_same_examples(english: Path, chinese: Path) -> None:
    assert list(map(_plain, _blocks(chinese))) == list(map(_plain, _blocks(english)))


def _blocks(page: Path) -> list[str]:
    return [block.text for block in blocks_of(page) if block.language in ("sh", "console")]


def _plain(commands: str) -> str:
    """Without what asks for answers in Chinese, in one line."""
    commands = re.sub(r'^ZH=.*$|-H "\$ZH"', "", commands, flags=re.MULTILINE)
    # One example of either page shows how to ask for Chinese.
    commands = commands.replace('-H "Accept-Language: zh-CN"', "")
    return " ".join(commands.replace("\\\n", " ").split())


def test_the_wheel_serves_without_a_checkout(tmp_path: Path) -> None:
    """As the page says, but offline: what Tollway depends on is taken from this environment, and so
    is pip."""
    build, venv, install, serve = (
        line.removeprefix("$ ").split()
        for block in blocks_of(README)
        if block.language == "console"
        for line in block.text.splitlines()
    )
    offline = ["--quiet", "--no-index", "--disable-pip-version-check"]
    python3, *build_arguments = build
    wheels = str(tmp_path / "dist")
    built = [wheels if each == "dist" else each for each in build_arguments]
    _run(sys.executable, *built, "--no-build-isolation", *offline, folder=ROOT)
    _run(sys.executable, *venv[1:], "--without-pip", folder=tmp_path)
    lend_pip((tmp_path / install[0]).parent)
    _run(*install, "--no-deps", *offline, folder=tmp_path)
    assert python3 == venv[0] == "python3"
    assert serve[-1] == "--demo"
    _serve(serve[:-1], tmp_path)


def _run(program: str, *arguments: str, folder: Path) -> None:
    subprocess.run([program, *arguments], cwd=folder, check=True)


def _serve(command: list[str], folder: Path) -> None:
    """Whether the installed gateway starts, and has its style sheet and templates with it."""
    port = free_port()
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": sysconfig.get_path("purelib"),
        "TOLLWAY_PORT": str(port),
    }
    server = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    try:
        assert any("Ctrl+C" in line for line in server.stdout), "it did not start"
        for path in ("/readyz", "/owner", "/pages.css", "/templates/waybill/1"):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}") as answer:
                assert answer.status == 200
    finally:
        server.terminate()
        assert server.wait(timeout=45) == 0
        server.stdout.close()

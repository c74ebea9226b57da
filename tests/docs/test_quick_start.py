"""The programs of the quick start run against the sandbox, in every language that is installed."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT, blocks_of
from tests.support.gateway import Gateway
from tests.support.java import JAVA
from tests.support.ledger import new_caller
from tests.support.ports import free_port
from tests.support.stores import Store
from tollway.operations.catalogue import OPERATIONS

pytestmark = pytest.mark.sqlite
PAGE, PAGE_ZH = DOCS / "call/quick_start.md", DOCS / "call/quick_start.zh.md"
# The name of the file, and what runs it.
_PROGRAMS = {
    "python": ("orders.py", (sys.executable,)),
    "javascript": ("orders.mjs", ("node", "--require", "./as_node_18.cjs")),
    "php": ("orders.php", ("php",)),
    "java": ("Orders.java", JAVA),
}
_BLOCKS = {each.language: each.text for each in blocks_of(PAGE)}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    gateway = Gateway(Store(tmp_path_factory.mktemp("quick") / "tollway.db"))
    yield gateway
    assert gateway.stop() == 0


def _run(
    folder: Path, language: str, base_url: str, token: str
) -> subprocess.CompletedProcess[str]:
    name, command = _PROGRAMS[language]
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    (folder / name).write_text(_BLOCKS[language], encoding="utf-8")
    # Node 18 has no `crypto` outside of its module.
    (folder / "as_node_18.cjs").write_text("delete globalThis.crypto;", encoding="utf-8")
    return subprocess.run(
        [*command, name],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": f"{ROOT / 'sdk/python'}:{os.environ.get('PYTHONPATH', '')}",
            "GATEWAY_URL": base_url,
            "GATEWAY_TOKEN": token,
        },
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )


def test_the_program_in_php_says_that_there_was_no_answer(tmp_path: Path) -> None:
    """The other languages raise errors of their own."""
    done = _run(tmp_path, "php", f"http://127.0.0.1:{free_port()}", "tw_test_x")
    assert done.stdout.startswith("No answer: ") and done.stdout.count("\n") == 1, done
    assert "connect" in done.stdout.lower() and done.stderr == ""


@pytest.mark.parametrize("language", _PROGRAMS)
def test_the_program_prints_the_orders_of_the_sandbox(
    served: Gateway, tmp_path: Path, language: str
) -> None:
    token = new_caller(served.store, operations=OPERATIONS, kind="test").token
    done = _run(tmp_path, language, served.base_url, token)
    is_java = language == "java"
    assert ('"code":0,' if is_java else " orders\n") in done.stdout, done.stdout + done.stderr


def test_both_pages_have_the_same_programs() -> None:
    assert {each.language: each.text for each in blocks_of(PAGE_ZH)} == _BLOCKS
    assert set(_PROGRAMS) | {"sh"} <= set(_BLOCKS)

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
from tests.support.ledger import new_caller
from tests.support.stores import Store
from tollway.operations.catalogue import OPERATIONS

pytestmark = pytest.mark.sqlite
PAGE, PAGE_ZH = DOCS / "call/quick_start.md", DOCS / "call/quick_start.zh.md"
# The name of the file, and what runs it.
_PROGRAMS = {
    "python": ("orders.py", (sys.executable,)),
    "javascript": ("orders.mjs", ("node", "--require", "./as_node_18.cjs")),
    "php": ("orders.php", ("php",)),
    "java": ("Orders.java", ("java",)),
}
_BLOCKS = {each.language: each.text for each in blocks_of(PAGE)}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    gateway = Gateway(Store(tmp_path_factory.mktemp("quick") / "tollway.db"))
    yield gateway
    assert gateway.stop() == 0


@pytest.mark.parametrize("language", _PROGRAMS)
def test_the_program_prints_the_orders_of_the_sandbox(
    served: Gateway, tmp_path: Path, language: str
) -> None:
    name, command = _PROGRAMS[language]
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    (tmp_path / name).write_text(_BLOCKS[language], encoding="utf-8")
    # Node 18 has no `crypto` outside of its module.
    (tmp_path / "as_node_18.cjs").write_text("delete globalThis.crypto;", encoding="utf-8")
    done = subprocess.run(
        [*command, name],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": f"{ROOT / 'sdk/python'}:{os.environ.get('PYTHONPATH', '')}",
            "GATEWAY_URL": served.base_url,
            "GATEWAY_TOKEN": new_caller(served.store, operations=OPERATIONS, kind="test").token,
        },
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    is_java = language == "java"
    assert ('"code":0,' if is_java else " orders\n") in done.stdout, done.stdout + done.stderr


def test_both_pages_have_the_same_programs() -> None:
    assert {each.language: each.text for each in blocks_of(PAGE_ZH)} == _BLOCKS
    assert set(_PROGRAMS) | {"sh"} <= set(_BLOCKS)

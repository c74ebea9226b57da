"""The page of the TypeScript SDK, and what its package is made of."""

import json
import os

import pytest

from tests.docs.pages import DOCS, ROOT, blocks_of
from tests.sdk.conftest import Run
from tests.support.gateway import Gateway
from tests.support.ledger import new_caller
from tollway.operations.catalogue import OPERATIONS

_SDK = ROOT / "sdk/typescript"
_PAGE, _PAGE_ZH = DOCS / "call/javascript.md", DOCS / "call/javascript.zh.md"
_BLOCKS = [block.text for block in blocks_of(_PAGE) if block.language == "javascript"]


@pytest.mark.sqlite
def test_the_examples_of_the_page_run(world: Gateway, run: Run) -> None:
    token = new_caller(world.store, operations=OPERATIONS, kind="test").token
    script = "\n".join(_BLOCKS).replace("tw_test_…", token)
    script = script.replace("https://gateway.example", world.base_url)
    script = script.replace("console.log(", "log(")
    head = "const lines = []; const log = (...each) => lines.push(each.join(' '));\n"
    (printed,) = run(f"{head}{script}\nprint([lines, orders.length, claims.length]);")
    lines, orders, claims = printed
    assert orders > 100 and claims > 0
    assert any(line.startswith("Ask the owner to open http") for line in lines)


@pytest.mark.sqlite
def test_the_first_example_has_five_lines_and_the_chinese_page_the_same_ones() -> None:
    assert len([line for line in _BLOCKS[0].splitlines() if line]) <= 5
    assert [
        block.text for block in blocks_of(_PAGE_ZH) if block.language == "javascript"
    ] == _BLOCKS


@pytest.mark.sqlite
def test_its_lock_file_has_digests_and_no_addresses() -> None:
    packages = json.loads((_SDK / "package-lock.json").read_text())["packages"]
    locked = [each for name, each in packages.items() if name]
    assert locked and all("integrity" in each and "resolved" not in each for each in locked)
    assert not json.loads((_SDK / "package.json").read_text()).get("dependencies")
    assert os.access(_SDK / ".npmrc", os.R_OK)


@pytest.mark.sqlite
def test_tools_that_know_no_exports_find_the_package_and_its_types() -> None:
    """TypeScript is one of them with `moduleResolution` `node`, as `commonjs` has it."""
    package = json.loads((_SDK / "package.json").read_text())
    found = {"types": package["types"], "default": package["main"]}
    assert found == package["exports"]["."]

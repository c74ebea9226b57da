"""The Python on the pages runs, against a sandbox gateway that the SDK itself starts."""

from functools import partial
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT, blocks_of
from tests.support.forks import programs
from tollway_client import Client, testing

_PAGE, _PAGE_ZH = DOCS / "call/python.md", DOCS / "call/python.zh.md"
_BLOCKS = [block.text for block in blocks_of(_PAGE) if block.language == "python"]


@pytest.mark.sqlite
def test_the_examples_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    # The same program, loaded already.
    gateway = partial(testing.sandbox_gateway, [str(programs() / "tollway")])
    monkeypatch.setattr(testing, "sandbox_gateway", gateway)
    names: dict[str, object] = {}
    with gateway() as sandbox:
        for block in _BLOCKS:
            adapted = block.replace("tw_test_…", sandbox.token)
            exec(adapted.replace("https://gateway.example", sandbox.base_url), names)
    assert isinstance(names["client"], Client)
    names["client"].close()
    printed = capsys.readouterr().out
    assert "Ask the owner to open http" in printed
    assert isinstance(names["orders"], list) and isinstance(names["claims"], list)
    assert len(names["orders"]) > 100 and names["claims"]
    assert Path("orders-2026-01.jsonl").exists()


@pytest.mark.sqlite
@pytest.mark.parametrize("sdk", ["python", "javascript"])
def test_the_readme_of_a_package_begins_as_its_page_does(sdk: str) -> None:
    folder = {"python": "python", "javascript": "typescript"}[sdk]
    installed, shown = blocks_of(ROOT / "sdk" / folder / "README.md")
    page = [block.text for block in blocks_of(DOCS / f"call/{sdk}.md")]
    assert [installed.text, shown.text] == page[:2]


@pytest.mark.sqlite
def test_the_first_example_has_five_lines_and_the_chinese_page_the_same_ones() -> None:
    assert len([line for line in _BLOCKS[0].splitlines() if line]) <= 5
    assert [block.text for block in blocks_of(_PAGE_ZH) if block.language == "python"] == _BLOCKS

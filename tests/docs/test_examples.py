"""Every command on the pages is run, and prints what the page shows."""

import re
import shutil
from pathlib import Path

import pytest

from tests.docs.likeness import assert_shown, is_like
from tests.docs.pages import (
    CALL,
    CALL_ZH,
    DOCS,
    PAGES,
    ROOT,
    TOUR,
    WITH_OWN_EXAMPLES,
    Example,
    examples_of,
    name_of,
)
from tests.docs.workplace import REMOTE, Workplace, make_demo_files
from tollway.operations.catalogue import OPERATIONS

# The page on which the reader sets up a gateway; all others use the demo world.
OWN_WORLD = DOCS / "start.md"
# Run by tests/extend, in an environment that has the packages of the page, and by
# test_moved_tour.py.
ELSEWHERE = (DOCS / "extend.md", TOUR)


@pytest.fixture(scope="session")
def demo_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo")
    make_demo_files(folder)
    return folder


def _has_own(page: Path) -> bool:
    """A Chinese page that has the same examples as the English one needs no run of its own."""
    is_twin = page.name.endswith(".zh.md") and page not in WITH_OWN_EXAMPLES
    return page not in ELSEWHERE and not is_twin


def _is_run(example: Example) -> bool:
    return any(not line.startswith("make ") for line in example.commands.text.splitlines())


def _outputs(page: Path, folder: Path, demo_files: Path) -> list[str]:
    """What the examples of a page print, each page with a demo world of its own."""
    examples = examples_of(page)
    if page == OWN_WORLD:
        return Workplace(folder).run(examples)
    is_remote = any(REMOTE in example.commands.text for example in examples)
    place = Workplace(folder, {"TOLLWAY_PUBLIC_URL": REMOTE} if is_remote else None)
    place.start_demo(demo_files)
    try:
        return place.run(examples)
    finally:
        place.stop()


@pytest.mark.skipif(
    not all(map(shutil.which, ("bash", "curl", "openssl"))),
    reason="the examples need bash, curl and openssl",
)
@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if _has_own(page) and any(map(_is_run, examples_of(page)))],
    ids=name_of,
)
def test_the_examples_print_what_the_page_shows(
    page: Path, demo_files: Path, tmp_path: Path
) -> None:
    assert_shown(examples_of(page), _outputs(page, tmp_path, demo_files))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_call_shows_its_answer(page: Path) -> None:
    for example in examples_of(page):
        if re.search(r"^(curl|call) ", example.commands.text, re.MULTILINE):
            assert example.shown is not None, f"{name_of(page)} line {example.commands.line}"


def test_every_make_target_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = {
        target
        for page in PAGES
        for target in re.findall(r"(?:^|`)make (\w+)", page.read_text("utf-8"), re.MULTILINE)
    }
    assert {"run", "test", "help"} <= named
    for target in named:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_the_tour_shows_every_code_that_can_be_brought_about_by_hand() -> None:
    shown = "".join(example.shown.text for example in examples_of(TOUR) if example.shown)
    codes = set(re.findall(r'"code": ?(\d+)', shown))
    assert codes >= {"0", "100", "103", "202", "203", "204", "302", "401", "404"}
    paths = "".join(example.commands.text for example in examples_of(TOUR))
    for operation in OPERATIONS:
        assert operation.path.removeprefix("/papi/tool/") in paths


@pytest.mark.parametrize("page", (CALL, CALL_ZH), ids=name_of)
def test_a_caller_needs_no_checkout(page: Path) -> None:
    commands = "".join(example.commands.text for example in examples_of(page))
    assert not re.search(r"\btollway |docs/|data/|\.venv|python", commands)
    for operation in OPERATIONS:
        assert f"$BASE{operation.path}" in commands


@pytest.mark.parametrize(
    ("shown", "language", "output"),
    [
        ("7 calls of …", "text", "12 calls of x"),
        ('{"code":0,…', "text", '{"code":0,"msg":"Success"}'),
        ("a\n…\nd", "text", "a\nb\nc\nd"),
        ('{"code": 100, "list": [1, "…"]}', "json", '{"code": 100, "list": [5, 6, 7]}'),
        ('{"list": ["…", "a", "…"]}', "json", '{"list": ["b", "a"]}'),
        ('{"password": "…"}', "json", '{"password": "x7asp58s"}'),
    ],
)
def test_what_only_differs_in_numbers_is_alike(shown: str, language: str, output: str) -> None:
    assert is_like(shown, language, output)


@pytest.mark.parametrize(
    ("shown", "language", "output"),
    [
        ("7 calls left", "text", "7 calls right"),
        ('{"code":204,…', "text", '{"code":0,"msg":"Success"}'),
        ("answers code 203", "text", "answers code 204"),
        ("created, at schema 0002.", "text", "created, at schema 0003."),
        ("a\nc", "text", "a\nb\nc"),
        ('{"code": 100, "data": {}}', "json", '{"code": 101, "data": {}}'),
        ('{"code": 0, "data": {}}', "json", '{"code": 0, "data": {"x": 1}}'),
        ('{"list": [1]}', "json", '{"list": [1, 2]}'),
        ('{"list": ["a", "…"]}', "json", '{"list": ["b", "a"]}'),
        ('{"list": ["…", "a", "…"]}', "json", '{"list": ["b", "c"]}'),
        ('{"list": [1]}', "json", "not JSON"),
        ('{"password": "…"}', "json", '{"password": null}'),
    ],
)
def test_what_differs_in_words_or_codes_is_not_alike(
    shown: str, language: str, output: str
) -> None:
    assert not is_like(shown, language, output)

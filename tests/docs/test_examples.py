"""Every command on the pages is run, and prints what the page shows."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.likeness import is_like
from tests.docs.pages import PAGES, ROOT, Example, examples_of
from tests.docs.workplace import Workplace
from tollway.operations.catalogue import OPERATIONS

# The page on which the reader sets up a gateway; all others work with the demo world.
OWN_WORLD = "start.md"
# Run by tests/extend, in an environment that has the packages of the page.
ELSEWHERE = {"extend.md"}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workplace]:
    place = Workplace(tmp_path_factory.mktemp("demo"))
    place.start_demo()
    yield place
    place.stop()


def _is_run(example: Example) -> bool:
    return any(not line.startswith("make ") for line in example.commands.text.splitlines())


@pytest.mark.skipif(
    not (shutil.which("bash") and shutil.which("curl")), reason="the examples need bash and curl"
)
@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page.name not in ELSEWHERE and any(map(_is_run, examples_of(page)))],
    ids=lambda page: page.name,
)
def test_the_examples_print_what_the_page_shows(
    page: Path, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    examples = examples_of(page)
    is_own = page.name == OWN_WORLD
    place = Workplace(tmp_path) if is_own else request.getfixturevalue("demo")
    wrong = [
        f"{page.name} line {example.commands.line}:\n{example.commands.text}\nprinted:\n{output}"
        for example, output in zip(examples, place.run(examples), strict=True)
        if example.shown is not None
        and not is_like(example.shown.text, example.shown.language, output)
    ]
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_call_shows_its_answer(page: Path) -> None:
    for example in examples_of(page):
        if re.search(r"^(curl|call) ", example.commands.text, re.MULTILINE):
            assert example.shown is not None, f"{page.name} line {example.commands.line}"


def test_every_make_target_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = {
        target
        for page in PAGES
        for target in re.findall(r"(?:^|`)make (\w+)", page.read_text("utf-8"), re.MULTILINE)
    }
    assert {"run", "test"} <= named
    for target in named:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_the_tour_shows_every_code_that_can_be_brought_about_by_hand() -> None:
    shown = "".join(
        example.shown.text for example in examples_of(ROOT / "README.md") if example.shown
    )
    codes = set(re.findall(r'"code": ?(\d+)', shown))
    assert codes >= {"0", "100", "103", "202", "203", "204", "302", "401", "404"}
    paths = "".join(example.commands.text for example in examples_of(ROOT / "README.md"))
    for operation in OPERATIONS:
        assert operation.path.removeprefix("/papi/tool/") in paths


def test_the_readme_begins_with_the_two_commands() -> None:
    first, second = (example.commands.text for example in examples_of(ROOT / "README.md")[:2])
    assert (first, second) == ("make run\n", "make test\n")


@pytest.mark.parametrize(
    ("shown", "language", "output"),
    [
        ("7 calls of …", "text", "12 calls of x"),
        ('{"code":0,…', "text", '{"code":0,"msg":"Success"}'),
        ("a\n…\nd", "text", "a\nb\nc\nd"),
        ('{"code": 100, "list": [1, "…"]}', "json", '{"code": 100, "list": [5, 6, 7]}'),
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
        ("a\nc", "text", "a\nb\nc"),
        ('{"code": 100, "data": {}}', "json", '{"code": 101, "data": {}}'),
        ('{"code": 0, "data": {}}', "json", '{"code": 0, "data": {"x": 1}}'),
        ('{"list": [1]}', "json", '{"list": [1, 2]}'),
        ('{"list": [1]}', "json", "not JSON"),
        ('{"password": "…"}', "json", '{"password": null}'),
    ],
)
def test_what_differs_in_words_or_codes_is_not_alike(
    shown: str, language: str, output: str
) -> None:
    assert not is_like(shown, language, output)

"""A Chinese page says the same as the English one, and leads its readers to Chinese pages."""

import re
from pathlib import Path

import pytest

from tests.docs.pages import (
    DOCS,
    PAGES,
    WITH_OWN_EXAMPLES,
    blocks_of,
    links_of,
    name_of,
    rows_of,
    without_blocks,
)

_ZH = ".zh.md"
_CHINESE = [page for page in PAGES if page.name.endswith(_ZH)]
# What callers read: all of it in both languages.
_FOR_CALLERS = [
    page
    for page in (DOCS / "call.md", *DOCS.glob("call/*.md"), *DOCS.glob("operations/*.md"))
    if not page.name.endswith(_ZH)
]

each_chinese_page = pytest.mark.parametrize("page", _CHINESE, ids=name_of)


def _english_of(page: Path) -> Path:
    return page.with_name(page.name.replace(_ZH, ".md"))


def _chinese_of(page: Path) -> Path:
    return page.with_suffix(_ZH)


@pytest.mark.parametrize("page", sorted(_FOR_CALLERS), ids=name_of)
def test_every_page_for_callers_has_a_chinese_one(page: Path) -> None:
    assert _chinese_of(page).exists()


@each_chinese_page
def test_both_pages_begin_with_a_link_to_the_other(page: Path) -> None:
    english = _english_of(page)
    assert page.read_text(encoding="utf-8").splitlines()[2] == f"[English]({english.name})"
    assert english.read_text(encoding="utf-8").splitlines()[2] == f"[中文]({page.name})"


@each_chinese_page
def test_both_pages_have_the_same_sections_and_tables(page: Path) -> None:
    assert _outline(page) == _outline(_english_of(page))


def _outline(page: Path) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """The levels of the headings; of each row of a table, its width and first names."""
    levels = re.findall(r"^#+(?= )", without_blocks(page), re.MULTILINE)
    return levels, [(len(row), re.findall(r"`[^`]+`", row[0])) for row in rows_of(page)]


@pytest.mark.parametrize(
    "page", [page for page in _CHINESE if page not in WITH_OWN_EXAMPLES], ids=name_of
)
def test_both_pages_have_the_same_examples(page: Path) -> None:
    assert [(block.language, block.text) for block in blocks_of(page)] == [
        (block.language, block.text) for block in blocks_of(_english_of(page))
    ]


@each_chinese_page
def test_a_chinese_page_links_to_chinese_pages_where_there_are_any(page: Path) -> None:
    for link in links_of(page):
        target = (page.parent / link.target.partition("#")[0]).resolve()
        if link.text != "English" and target.suffix == ".md" and not target.name.endswith(_ZH):
            assert not _chinese_of(target).exists(), link.target

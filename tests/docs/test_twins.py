"""A Chinese page says the same as the English one, and leads its readers to Chinese pages."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import (
    DOCS,
    PAGES,
    WITH_OWN_EXAMPLES,
    anchors_of,
    blocks_of,
    links_in,
    links_of,
    name_of,
    rows_of,
    sections_of,
)

_ZH = ".zh.md"
_CHINESE = [page for page in PAGES if page.name.endswith(_ZH)]
# What callers read: all of it in both languages.
_FOR_CALLERS = [
    page
    for page in (DOCS / "call.md", *DOCS.glob("call/*.md"), *DOCS.glob("operations/*.md"))
    if not page.name.endswith(_ZH)
]
# Of what operators read, what a gateway is set up and run with; the rest is in English.
_FOR_OPERATORS = [
    DOCS / "start.md",
    DOCS / "deploy.md",
    DOCS / "operate/README.md",
    DOCS / "operate/daily.md",
    DOCS / "operate/ledger.md",
    DOCS / "operate/data.md",
    DOCS / "operate/backup.md",
    DOCS / "operate/carriers.md",
]
# What people put values in place of is said in their language.
_TRANSLATED = {
    "tollway-client-python/VERSION",
    "tollway-client-javascript/VERSION",
    "HS256:<key id>:<HMAC-SHA256 in hex>",
}

each_chinese_page = pytest.mark.parametrize("page", _CHINESE, ids=name_of)


def _english_of(page: Path) -> Path:
    return page.with_name(page.name.replace(_ZH, ".md"))


def _chinese_of(page: Path) -> Path:
    return page.with_suffix(_ZH)


@pytest.mark.parametrize("page", sorted(_FOR_CALLERS) + _FOR_OPERATORS, ids=name_of)
def test_every_page_for_callers_and_these_for_operators_have_a_chinese_one(page: Path) -> None:
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
    levels = [section.partition(" ")[0] for section in sections_of(page)]
    return levels, [(len(row), re.findall(r"`[^`]+`", row[0])) for row in rows_of(page)]


@each_chinese_page
def test_each_section_has_the_items_code_and_links_of_the_english_one(page: Path) -> None:
    english = _english_of(page)
    for ours, theirs in zip(sections_of(page), sections_of(english), strict=True):
        heading = theirs.partition("\n")[0]
        assert ours.count("\n- ") == theirs.count("\n- "), heading
        assert set(_code_in(theirs)) - _TRANSLATED <= set(_code_in(ours)), heading
        assert not _targets(theirs, english) - _targets(ours, page), heading


def _code_in(section: str) -> Iterator[str]:
    for code in re.findall(r"`([^`]+)`", section):
        yield " ".join(code.split())


def _targets(section: str, page: Path) -> Counter[tuple[str, int | None]]:
    """What a section leads to, how often: a page in whatever language, and which of its headings;
    links to the page in the other language do not count."""
    links = [link for link in links_in(section, page) if link.text not in ("English", "中文")]
    return Counter(_target(link.target, page) for link in links)


def _target(address: str, page: Path) -> tuple[str, int | None]:
    path, _, anchor = address.partition("#")
    if "://" in path:
        return address, None
    target = (page.parent / path).resolve() if path else page
    heading = anchors_of(target).index(anchor) if anchor else None
    return str(target).replace(_ZH, ".md"), heading


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

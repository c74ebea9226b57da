"""The pages as the tests read them: their fenced blocks, links and tables."""

import re
from collections.abc import Iterator
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
README, README_ZH = ROOT / "README.md", ROOT / "README.zh.md"
TOUR = DOCS / "tour.md"
CALL, CALL_ZH = DOCS / "call.md", DOCS / "call.zh.md"
REFERENCE = DOCS / "operate/reference.md"
OPERATE_PAGES = tuple(
    page for page in sorted(DOCS.glob("operate/*.md")) if not page.name.endswith(".zh.md")
)
PAGES = (
    README,
    README_ZH,
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(DOCS.rglob("*.md")),
)

# Chinese pages on which some examples ask for answers in Chinese; test_readme.py compares the rest.
# All other Chinese pages have the examples of the English one.
WITH_OWN_EXAMPLES = (README_ZH, CALL_ZH, DOCS / "call/account.zh.md")

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[([^\]]*)\]\(([^)\s]+)\)")


class Block(NamedTuple):
    """A fenced block: what language it says it is in, its text, the line it begins on."""

    language: str
    text: str
    line: int


class Example(NamedTuple):
    """Commands to paste, and what the page shows of their output."""

    commands: Block
    shown: Block | None


class Link(NamedTuple):
    """A link, and where it stands."""

    page: Path
    text: str
    target: str


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@cache
def blocks_of(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(found[1], found[2], text.count("\n", 0, found.start()) + 1)
        for found in _FENCE.finditer(text)
    ]


def examples_of(page: Path) -> list[Example]:
    """The commands of a page in their order; the block that follows them shows their output."""
    blocks = blocks_of(page)
    return [
        Example(block, after if after is not None and after.language != "sh" else None)
        for block, after in zip_longest(blocks, blocks[1:])
        if block.language == "sh"
    ]


def links_of(page: Path) -> Iterator[Link]:
    yield from links_in(without_blocks(page), page)


def links_in(text: str, page: Path) -> Iterator[Link]:
    for found in _LINK.finditer(text):
        yield Link(page, found[1], found[2])


def without_blocks(page: Path) -> str:
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def sections_of(page: Path) -> list[str]:
    """The text of a page without its blocks, cut before each heading."""
    return re.split(r"^(?=#+ )", without_blocks(page), flags=re.MULTILINE)[1:]


def rows_of(page: Path) -> list[list[str]]:
    """The cells of every table row of a page."""
    lines = without_blocks(page).splitlines()
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in lines
        if line.startswith("|")
    ]


def anchors_of(page: Path) -> list[str]:
    """What a link into a page can point at: its headings, as GitHub and others spell them."""
    headings = re.findall(r"^#+ (.*)$", without_blocks(page), re.MULTILINE)
    return [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]

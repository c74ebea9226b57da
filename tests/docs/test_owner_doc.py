"""The pages for owners, members and operators: what they quote is on the pages that these see."""

import re
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT, name_of
from tollway.operations.catalogue import OPERATIONS
from tollway.web.wording import catalogue

_BUTTONS = ("Sign in", "Approve", "Decline", "All reads", "Revoke")
_PAGES = {"en": DOCS / "owner.md", "zh": DOCS / "owner.zh.md"}

both_languages = pytest.mark.parametrize(
    ("language", "page"), _PAGES.items(), ids=[name_of(page) for page in _PAGES.values()]
)


def _said(language: str, sentence: str) -> str:
    return catalogue(language).get(sentence, sentence)


@both_languages
def test_every_button_that_is_named_exists(language: str, page: Path) -> None:
    templates = (ROOT / "src").rglob("*.html")
    seen = "".join(template.read_text(encoding="utf-8") for template in templates)
    on_pages = {_said(language, each) for each in re.findall(r'>\{\{ _\("([^"]+)"\) \}\}<', seen)}
    named = set(re.findall(r"\*\*(\w[\w ]+)\*\*", page.read_text(encoding="utf-8")))
    assert {_said(language, each) for each in _BUTTONS} <= named
    assert named <= on_pages


@both_languages
def test_every_access_that_can_be_asked_for_is_explained(language: str, page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for operation in OPERATIONS:
        if operation.consent is not None:
            assert _said(language, operation.consent.asks) in text


def test_what_the_pages_for_members_name_is_on_their_pages_in_both_languages() -> None:
    named = {
        language: re.findall(r"\*\*([^*]+)\*\*", (DOCS / page).read_text(encoding="utf-8"))
        for language, page in {"en": "member.md", "zh": "member.zh.md"}.items()
    }
    words = catalogue("zh")
    assert [words[each] for each in named["en"]] == named["zh"]


@pytest.mark.parametrize("name", ["daily", "ledger"])
def test_pages_that_operators_are_sent_to_have_these_titles_in_both_languages(name: str) -> None:
    english, chinese = (
        (DOCS / f"operate/{name}{ending}").read_text(encoding="utf-8")
        for ending in (".md", ".zh.md")
    )
    titles = re.findall(r"\bpage \*([^*]+)\*", english)
    assert titles
    assert [catalogue("zh")[each] for each in titles] == re.findall("“([^”]+)”页面", chinese)

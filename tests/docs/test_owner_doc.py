"""The pages for shop owners: what they quote is on the pages that owners see."""

import re
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT, name_of
from tollway.operations.catalogue import OPERATIONS

both_languages = pytest.mark.parametrize(
    "page", (DOCS / "owner.md", DOCS / "owner.zh.md"), ids=name_of
)


@both_languages
def test_every_button_that_is_named_exists(page: Path) -> None:
    templates = (ROOT / "src").rglob("*.html")
    seen = "".join(template.read_text(encoding="utf-8") for template in templates)
    named = re.findall(r"\*\*([A-Z][\w ]+)\*\*", page.read_text(encoding="utf-8"))
    assert {"Sign in", "Approve", "Decline", "All reads", "Revoke"} <= set(named)
    for label in named:
        assert f">{label}<" in seen, label


@both_languages
def test_every_access_that_can_be_asked_for_is_explained(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for operation in OPERATIONS:
        assert operation.consent is None or operation.consent.asks in text

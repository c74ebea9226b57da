"""The pages use the words of the field: none of those that only this project would use."""

import re
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, name_of, without_blocks

# Left of the table of words; the usual word stands there in their place.
_OURS_ALONE = re.compile(
    r"\b(?:whoever|nobody|somebody|anew|books|walks?|lanes?|who waits?"
    r"|(?:is|are|was|were|be) told|hears? of|heard of|made to wait)\b",
    re.IGNORECASE,
)
_CODE = re.compile(r"`[^`]*`")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_uses_the_usual_words(page: Path) -> None:
    assert not _OURS_ALONE.findall(_CODE.sub("", without_blocks(page)))

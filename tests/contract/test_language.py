"""Which language a caller prefers, and how a phrase is filled."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tollway.contract.language import Phrase, SentenceError, preferred_language


@pytest.mark.parametrize(
    ("header", "language"),
    [
        ("", "en"),
        ("*", "en"),
        ("de", "en"),
        ("en", "en"),
        ("zh", "zh"),
        ("ZH-CN", "zh"),
        ("zh-Hans-CN", "zh"),
        # As Java and PHP write a locale.
        ("zh_CN", "zh"),
        ("zh-CN,zh;q=0.9,en;q=0.8", "zh"),
        ("en-US,en;q=0.9,zh-CN;q=0.8", "en"),
        ("de-DE, zh;q=0.2", "zh"),
        ("en;q=0.1, zh;q=0.2", "zh"),
        ("en;q=0.2, zh;q=0.1", "en"),
        ("zh, en", "en"),
        ("zh;q=0", "en"),
        ("zh;q=0.0, en;q=0", "en"),
        ("zh ; q=1.0 , en ; q=0.5", "zh"),
        ("zh;q=2, en;q=0.1", "en"),
        ("zh;q=-1", "en"),
        ("zh;q=nan", "en"),
        ("zh;q=inf", "en"),
        ("zh;q=", "en"),
        ("zho", "en"),
        (",,;;=,zh;;", "zh"),
    ],
)
def test_the_weights_decide_and_english_wins_a_tie(header: str, language: str) -> None:
    assert preferred_language(header) == language


@given(st.text(st.characters(max_codepoint=255)) | st.text("zhen-;q=.01, *"))
def test_any_header_gives_a_language(header: str) -> None:
    assert preferred_language(header) in ("en", "zh")


def test_a_phrase_in_a_phrase_is_put_in_the_same_language() -> None:
    whole = Phrase("{field} is wrong: {problem}", "{field} 有误：{problem}")
    values: dict[str, object] = {"field": "page", "problem": Phrase("too small", "太小")}
    assert whole.fill("en", values) == "page is wrong: too small"
    assert whole.fill("zh", values) == "page 有误：太小"


@given(st.text())
def test_a_value_is_never_taken_for_a_template(value: str) -> None:
    template = Phrase("<{field}>", "<{field}>")
    # What a package says of its fields is a phrase, and may have braces too.
    for each in (value, Phrase(value, value)):
        assert template.fill("en", {"field": each}) == f"<{value}>"


def test_an_error_with_a_text_in_both_languages_is_said_in_each() -> None:
    error = SentenceError(Phrase("The {courier} is shut.", "{快递}已打烊。"))
    assert str(error) == error.sentence.said("en") == "The {courier} is shut."
    assert error.sentence.said("zh") == "{快递}已打烊。"
    assert SentenceError.of(error.sentence).sentence == error.sentence

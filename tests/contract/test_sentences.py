"""Every sentence that a person is refused with exists in Chinese, with the same values."""

import ast
import re
import string
from functools import cache
from pathlib import Path

import msgspec
import pytest

import tollway
from tollway.contract.language import Phrase, Sentence, SentenceError, page_sentences
from tollway.contract.operation import OwnerKind
from tollway.identity.people import MEMBER, OPERATOR

_SOURCE = Path(tollway.__file__).parent
# Words that stand in a sentence for a kind of person, a field, a place or a unit.
_WORDS = {*OwnerKind, OPERATOR, MEMBER, "owner"} | {"id", "name", "login", "shop code"}
_WORDS |= {"provider", "to_code", "province", "city", "district", "credits"}
_COMMAND = re.compile(r"`tollway|--[a-z]")
_AT_THE_TERMINAL = re.compile(r"(at the terminal with|在终端(用|运行)) `tollway")


@cache
def _calls() -> list[tuple[str, ast.Call]]:
    """The calls that make a sentence, or an error that carries one, and where they are."""
    unread = {path: path.read_text(encoding="utf-8") for path in sorted(_SOURCE.rglob("*.py"))}
    bases: dict[str, set[str]] = {}
    calls: list[tuple[Path, ast.Call]] = []
    names, more = {"Sentence"}, {"SentenceError"}
    while more:
        names |= more
        # To parse a file takes long: only those are that have one of the names.
        named = re.compile(rf"\b(?:{'|'.join(names)})\b")
        for path in [path for path, text in unread.items() if named.search(text)]:
            for node in ast.walk(ast.parse(unread.pop(path))):
                if isinstance(node, ast.ClassDef):
                    bases[node.name] = {
                        each.id for each in node.bases if isinstance(each, ast.Name)
                    }
                elif isinstance(node, ast.Call) and node.args:
                    calls.append((path, node))
        more = {name for name, of in bases.items() if of & (names - {"Sentence"})} - names
    return [
        (f"{path.relative_to(_SOURCE)}:{node.lineno}", node)
        for path, node in calls
        if getattr(node.func, "id", "") in names
    ]


def _template(call: ast.Call) -> str | None:
    first = call.args[0]
    return first.value if isinstance(first, ast.Constant) else None


# Given beside what a sentence needs: by their names a page finds the field that is wrong.
_FIELDS = {"code", "name", "format", "price", "rate", "days"}


def _value_names(template: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(template) if name is not None}


def test_every_template_is_in_chinese_and_none_is_left_over() -> None:
    templates = {template for _, call in _calls() if (template := _template(call))}
    assert len(templates) > 100
    assert sorted((templates | _WORDS) ^ page_sentences("zh").keys()) == []


def test_a_template_is_written_out_and_is_given_its_values() -> None:
    wrong = []
    for where, call in _calls():
        assert not isinstance(call.args[0], ast.JoinedStr), f"{where}: values are given apart"
        template, given = _template(call), {each.arg for each in call.keywords}
        if len(call.args) == 2 and isinstance(call.args[1], ast.Dict):
            given = {each.value for each in call.args[1].keys if isinstance(each, ast.Constant)}
        if template is not None and None not in given:
            needed = _value_names(template)
            if not needed <= given <= needed | _FIELDS:
                wrong.append(where)
    assert wrong == []


@pytest.mark.parametrize("language", ["en", "zh"])
def test_what_pages_say_has_the_same_values(language: str) -> None:
    different = [
        template
        for template, said in page_sentences(language).items()
        if _value_names(template) != _value_names(said)
    ]
    assert different == []


def test_pages_have_a_sentence_of_their_own_for_each_that_names_a_command() -> None:
    named = {
        template
        for where, call in _calls()
        if (template := _template(call)) and _COMMAND.search(template)
        if not where.startswith("cli")
    }
    assert len(named) > 10
    assert sorted(named ^ page_sentences("en").keys()) == []


@pytest.mark.parametrize("language", ["en", "zh"])
def test_pages_name_a_command_only_for_what_is_done_at_the_terminal(language: str) -> None:
    wrong = [
        said
        for said in page_sentences(language).values()
        if _COMMAND.search(said) and not _AT_THE_TERMINAL.search(said)
    ]
    assert wrong == []


def test_an_error_is_said_as_its_reader_needs_it() -> None:
    error = SentenceError(
        "There is no account {account}: `tollway account list` shows them all.", account="a: {b}"
    )
    assert str(error) == "There is no account a: {b}: `tollway account list` shows them all."
    said = error.sentence.said("en")
    assert said == "There is no account a: {b}: the page Accounts lists them all."
    assert error.sentence.said("zh") == "账户 a: {b} 不存在：“账户”页面列有全部。"


def test_a_value_can_have_a_language_itself() -> None:
    values = {"what": Sentence("shop code"), "least": 1, "most": 64}
    sentence = Sentence("The {what} must have {least} to {most} printable characters.", values)
    assert str(sentence) == "The shop code must have 1 to 64 printable characters."
    assert sentence.said("zh") == "店铺关联码为 1 到 64 个可打印字符。"
    refused = Sentence("The carrier refused: {why}", {"why": Phrase("no", "不行")})
    assert refused.said("zh").endswith("不行")
    assert Phrase("{why}!", "{why}！").fill("zh", {"why": Sentence("shop code")}) == "店铺关联码！"


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_text_of_another_package_is_said_as_it_is(language: str) -> None:
    assert SentenceError("Of another package {0}").sentence.said(language).endswith("{0}")


def test_a_sentence_can_be_stored() -> None:
    values = {"why": Sentence("shop code"), "which": Phrase("one", "一"), "count": 3}
    sentence = Sentence("{why} {which} {count:,}", values)
    stored = msgspec.json.decode(msgspec.json.encode(sentence), type=Sentence)
    assert stored == sentence
    assert stored.said("zh") == "店铺关联码 一 3"

"""Every reason for which a record is rejected is said in Chinese."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import tollway
from tests.support.any_records import POISON, SAMPLES, between_good_ones
from tests.support.orders import sealer_of
from tests.support.stores import Store
from tollway.intake.files import read_records
from tollway.intake.loading import checked_chunks
from tollway.intake.record_problems import RecordError
from tollway.operations.catalogue import RECORD_KINDS
from tollway.web.operator.rejected import EXPECTED, PROBLEMS, said_phrase, said_reason
from tollway.web.wording import PLAIN_VIEW

_SOURCE = Path(tollway.__file__).parent
_CHINESE = PLAIN_VIEW._replace(language="zh").say
# How the phrases begin that are made apart from the errors which have them.
_BEGINS = ("it is ", "it has ", "it contains ", "it does ", "a text of", "a whole number ")
_BEGINS += ("a list of", "one of ", "a date as", "true or ", "a value that", "a time in")
_BEGINS += ("an address that", "yuan ")


def _text(node: ast.expr) -> str:
    """A text as it is written out, with a number for each of its values."""
    if isinstance(node, ast.JoinedStr):
        return "".join(
            _text(each) if isinstance(each, ast.Constant) else "7" for each in node.values
        )
    return str(node.value) if isinstance(node, ast.Constant) else ""


def _said(tree: ast.Module, *, is_apart: bool) -> Iterator[str]:
    inner = {
        id(each)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for each in node.values
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "RecordError":
            yield from (_text(each) for each in node.args[1:])
        elif is_apart and isinstance(node, ast.Constant | ast.JoinedStr) and id(node) not in inner:
            text = _text(node)
            if text.startswith(_BEGINS):
                yield text


def _phrases() -> set[str]:
    found = {""}
    for path in _SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        is_apart = path.parent.name == "intake" and path.stem.startswith("record_")
        # To parse them all takes a second.
        if is_apart or "RecordError(" in text:
            found |= set(_said(ast.parse(text), is_apart=is_apart))
    return found - {""}


@pytest.mark.sqlite
def test_every_phrase_of_a_reason_is_known() -> None:
    phrases = _phrases()
    assert len(phrases) > 45
    values = {
        "this source does not speak for the 7": "this source does not speak for the shop",
        "records of its own 7s": "records of its own shops",
        "7 with type 7": "WAIMAI_COUPON with type 4",
    }
    known = (*PROBLEMS, *EXPECTED)
    unknown = [
        each
        for each in phrases
        if (said_phrase(_CHINESE, values.get(each, each), known) or "").isascii()
    ]
    assert unknown == []


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        (
            str(RecordError("items[0].a", "it is -3", "a whole number from 0 to 9")),
            "items[0].a：为 -3；应为 0 到 9 的整数。",
        ),
        (
            "pid: it is missing; send a text of 1 to 64 characters.",
            "pid：缺失；应为 1 到 64 个字符的文本。",
        ),
        (
            "in.jsonl, 2: pid: it is missing; send a text of 1 to 64 characters.",
            "in.jsonl 第 2 行：pid：缺失；应为 1 到 64 个字符的文本。",
        ),
        (
            'the record is not a JSON object; send one, as {"name": "value"}.',
            '该记录不是 JSON 对象；应为对象，如 {"name": "value"}。',
        ),
        (
            "a: b, 7: c.xlsx, 2: pid: its formula has the error #REF!; correct it.",
            "a: b, 7: c.xlsx 第 2 行：pid：公式有错误 #REF!；请修正。",
        ),
        (
            "the record is over 1 MiB, or has over 16,384 values; send a smaller one.",
            "该记录超过 1 MiB，或超过 16,384 个值；请缩小。",
        ),
        ("Something of another package {0}.", "Something of another package {0}."),
        # Not half in one language and half in the other.
        ("pid: it is odd, 3: so; send a later time.", "pid: it is odd, 3: so; send a later time."),
    ],
)
def test_a_reason_is_said_in_chinese(reason: str, said: str) -> None:
    assert said_reason(_CHINESE, reason) == said
    assert said_reason(PLAIN_VIEW.say, reason) == reason


def _reasons(kind: str, store: Store, path: Path, lines: list[bytes]) -> Iterator[str]:
    path.write_bytes(b"\n".join(lines))
    loader = RECORD_KINDS[kind].make_loader(sealer_of(store))
    for chunk in checked_chunks(loader, read_records(path)):
        yield from (each.reason for each in chunk.rejects)


@pytest.mark.sqlite
@pytest.mark.parametrize("kind", SAMPLES)
def test_every_reason_that_occurs_is_said_in_chinese(
    store: Store, tmp_path: Path, kind: str
) -> None:
    samples = enumerate(SAMPLES[kind].records)
    odd = [(which, field, raw) for which, each in samples for field in each for raw in POISON]
    lines = [*between_good_ones(kind, odd), b'{"a":"' + b"x" * 2**20 + b'"}', b"[]", b"{}"]
    reasons = set(_reasons(kind, store, tmp_path / "in.jsonl", lines))
    reasons |= set(_reasons(kind, store, tmp_path / "in.csv", [b"a,b", b"1", b'1,"2"3"']))
    assert len(reasons) > 30
    english = re.compile(r"\b(it|the|send|of|is|has|with)\b")
    unsaid = {each for each in reasons if english.search(said_reason(_CHINESE, each))}
    assert unsaid == set()

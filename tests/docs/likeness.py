"""Is an output what a page shows? The words must be the same; the numbers may differ.

Times, ids and figures are other ones every time, so a run of digits stands for any other, and `…`
for anything. A code is a promise, and a schema is the same for all: they must be the very same.
"""

import json
import re
from collections.abc import Sequence
from typing import Any

from tests.docs.pages import Example

_SUMS = re.compile(r"^(?:Accounts: |calls:|credits ).*$", re.MULTILINE)
_CODE_OR_NUMBER = re.compile(r'((?:"code": ?|\bcode |\bschema ))?\d+(?:[.,]\d+)*')


def assert_shown(examples: Sequence[Example], outputs: Sequence[str]) -> None:
    """Fails unless the examples printed what their page shows."""
    wrong = [
        f"line {example.commands.line}:\n{example.commands.text}\nprinted:\n{output}"
        for example, output in zip(examples, outputs, strict=True)
        if example.shown is not None and not _is_shown(example, output)
    ]
    assert not wrong, "\n\n".join(wrong)


def _is_shown(example: Example, output: str) -> bool:
    """Other numbers may differ; those of the audit are the same in every demo world."""
    assert example.shown is not None
    is_exact = "tollway audit" not in example.commands.text or _sums(output) == _sums(
        example.shown.text
    )
    return is_exact and is_like(example.shown.text, example.shown.language, output)


def _sums(text: str) -> list[list[str]]:
    return [line.split() for line in _SUMS.findall(text)]


def is_like(shown: str, language: str, output: str) -> bool:
    """Whether an output is like the block of a page that shows it."""
    if language == "json":
        try:
            actual = json.loads(output)
        except json.JSONDecodeError:
            return False
        return _is_like_value(json.loads(shown), actual)
    return _pattern(shown).fullmatch(_lines(output)) is not None


def _is_like_value(shown: Any, actual: Any, name: str = "") -> bool:
    if isinstance(shown, dict):
        return (
            isinstance(actual, dict)
            and list(shown) == list(actual)
            and all(_is_like_value(shown[key], actual[key], key) for key in shown)
        )
    if isinstance(shown, list):
        return isinstance(actual, list) and _are_like(shown, actual)
    if isinstance(shown, str):
        return isinstance(actual, str) and _is_like_text(shown, actual)
    if shown is None or isinstance(shown, bool) or name == "code":
        return bool(shown == actual)
    return isinstance(actual, int | float) and not isinstance(actual, bool)


def _is_like_text(shown: str, actual: str) -> bool:
    return shown == "…" or _pattern(shown).fullmatch(_lines(actual)) is not None


def _are_like(shown: list[Any], actual: list[Any]) -> bool:
    """A list that ends with … shows its beginning; one that begins with it too, some records.

    Those of today come in any order just after midnight, when all figures are 0.
    """
    if shown[:1] == shown[-1:] == ["…"]:
        return all(any(_is_like_value(each, one) for one in actual) for each in shown[1:-1])
    if shown[-1:] == ["…"]:
        shown = shown[:-1]
        actual = actual[: len(shown)]
    return len(shown) == len(actual) and all(map(_is_like_value, shown, actual))


def _pattern(shown: str) -> re.Pattern[str]:
    """A line that is nothing but … stands for any number of lines."""
    lines = _lines(shown).split("\n")
    parts = [
        r"(?:.*\n)*" if line == "…" else re.escape(line).replace("…", ".*") + r"\n"
        for line in lines
    ]
    return re.compile("".join(parts).removesuffix(r"\n"))


def _lines(text: str) -> str:
    """The text with every number alike and every space single, without blank lines."""
    lines = (" ".join(line.split()) for line in text.splitlines())
    alike = (re.sub("─+", "─", _CODE_OR_NUMBER.sub(_alike, line)) for line in lines if line)
    return "\n".join(alike)


def _alike(found: re.Match[str]) -> str:
    return found[0] if found[1] else "0"

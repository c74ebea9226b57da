"""Every sentence of the pages exists in Chinese, with the same values; none is left over."""

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from jinja2 import Environment, nodes

import tollway
import tollway.web
from tollway.audit.carrier_journal import JOURNAL_HOLDS
from tollway.audit.report import CHECKS
from tollway.cli.audit import SCHEMA_HOLDS
from tollway.contract.decoding import declared_fields
from tollway.contract.reasons import Reason
from tollway.contract.receipt import FreeReason
from tollway.operations.account_api import ACCOUNT_OPERATIONS
from tollway.operations.catalogue import ALL_OPERATIONS
from tollway.settings import Settings
from tollway.web.wording import (
    PLAIN_VIEW,
    WORD_PARTS,
    catalogue,
    is_own_address,
    log_time,
    relative_time,
    words_of,
)
from tollway.webhooks.events import EVENT_TYPES

_WEB = Path(tollway.web.__file__).parent
# What is stored in English, and translated if these files have it.
_STORED = ("_trail", "_rejected", "_rejected_problems", "_rejected_expected")
_SAID_BY = {"say", "sentence", "sentences", "titles", "PageError", "RailLink"}


def _calls(path: Path, names: Iterable[str]) -> Iterator[ast.Call]:
    """Those of a file that has one of these names: to parse them all takes a second."""
    text = path.read_text(encoding="utf-8")
    if any(f"{name}(" in text for name in names):
        yield from (each for each in ast.walk(ast.parse(text)) if isinstance(each, ast.Call))


def _in_code(path: Path) -> Iterator[str]:
    for node in _calls(path, _SAID_BY):
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        if name in _SAID_BY:
            spread = [
                each.value.elts
                if isinstance(each, ast.Starred) and isinstance(each.value, ast.Tuple)
                else [each]
                for each in node.args
            ]
            texts = [
                each.value for some in spread for each in some if isinstance(each, ast.Constant)
            ]
            if name == "RailLink":
                texts = texts[-2:-1]
            yield from (each for each in texts if isinstance(each, str) and each)


def _in_template(path: Path) -> Iterator[str]:
    parsed = Environment(autoescape=True).parse(path.read_text(encoding="utf-8"))
    for call in parsed.find_all(nodes.Call):
        if isinstance(call.node, nodes.Name) and call.node.name == "_":
            first = call.args[0]
            if isinstance(first, nodes.Const):
                yield first.value


@cache
def sentences() -> frozenset[str]:
    found = {each for path in _WEB.rglob("*.py") for each in _in_code(path)}
    found |= {each for path in _WEB.rglob("*.html") for each in _in_template(path)}
    found |= {operation.title for operation in ALL_OPERATIONS}
    found |= {operation.note for operation in ALL_OPERATIONS if operation.note}
    found |= {operation.consent.asks for operation in ALL_OPERATIONS if operation.consent}
    for operation in (*ALL_OPERATIONS, *ACCOUNT_OPERATIONS):
        found.add(operation.title)
        found |= {each.field.meaning for each in declared_fields(operation.request_type)}
    found |= {each.metadata["meaning"] for each in fields(Settings)}
    found |= {each.reports for each in EVENT_TYPES.values()}
    found |= {JOURNAL_HOLDS, SCHEMA_HOLDS, *(check.holds for check in CHECKS)}
    found |= {each.name for each in (*Reason, *FreeReason)}
    found |= {each for part in _STORED for each in words_of("zh", part)}
    return frozenset(found)


def test_every_sentence_is_in_the_catalogue() -> None:
    missing = sorted(sentences() - catalogue("zh").keys())
    assert not missing, "\n".join(missing)


def test_no_sentence_of_the_catalogue_is_left_over() -> None:
    assert sorted(catalogue("zh").keys() - sentences()) == []


def test_each_sentence_is_in_one_file() -> None:
    # A file that is read later would change what the pages of another area say.
    found = Counter(each for part in WORD_PARTS for each in words_of("zh", part))
    assert [each for each, count in found.items() if count > 1] == []


def test_both_languages_have_the_same_values() -> None:
    def values(text: str) -> set[str]:
        return set(re.findall(r"\{(\w+)\}", text))

    different = [each for each, said in catalogue("zh").items() if values(each) != values(said)]
    assert different == []


def test_a_redirect_stays_on_these_pages() -> None:
    assert is_own_address("/operator/accounts?q=a")
    for address in ("", "//evil.example", "/\\evil.example", "https://evil.example", "/a\nb"):
        assert not is_own_address(address)


def _luminance(colour: str) -> float:
    full = colour if len(colour) == 7 else "#" + "".join(each * 2 for each in colour[1:])
    parts = [int(full[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [
        each / 12.92 if each <= 0.03928 else ((each + 0.055) / 1.055) ** 2.4 for each in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


_THEMES = ("light", "dark", "chosen dark", "print")


@pytest.mark.parametrize("theme", _THEMES)
def test_a_state_can_be_read_in_every_theme(theme: str) -> None:
    style = (_WEB / "pages.css").read_text(encoding="utf-8")
    blocks = re.findall(r":root[^{]*\{([^}]*--ground[^}]*)\}", style)
    assert len(blocks) == len(_THEMES)
    block = blocks[_THEMES.index(theme)]
    colours = dict(re.findall(r"--([\w-]+): (#\w+)", block))
    for tone, ground in (("good", "good-soft"), ("soon", "soon-soft"), ("bad", "bad-soft")):
        lighter, darker = sorted(map(_luminance, (colours[tone], colours[ground])), reverse=True)
        # What WCAG asks of small text.
        assert (lighter + 0.05) / (darker + 0.05) >= 4.5, tone


@pytest.mark.parametrize(
    ("past_s", "said"),
    [
        (0.4, "just now"),
        (7.9, "7 s ago"),
        (60, "1 min ago"),
        (7200, "2 h ago"),
        (-5, "in a moment"),
    ],
)
def test_a_time_says_how_long_ago_it_was(past_s: float, said: str) -> None:
    zone = ZoneInfo("Asia/Shanghai")
    assert relative_time(1_000_000 - past_s, 1_000_000, zone, PLAIN_VIEW.say) == said


@pytest.mark.parametrize(
    ("past_s", "said"),
    [
        (3540, "59 min ago"),
        (3600, "01-12 20:46"),
        (7 * 86_400, "01-05 21:46"),
        (365 * 86_400, "1969-01-12"),
    ],
)
def test_the_time_of_a_row_of_a_log_tells_it_from_others(past_s: float, said: str) -> None:
    zone = ZoneInfo("Asia/Shanghai")
    assert log_time(1_000_000 - past_s, 1_000_000, zone, PLAIN_VIEW.say) == said


_RECORDED_BY = {"record_act": 2, "note_act": 2, "record": 1, "_record_state": 2}


def _recorded() -> Iterator[str]:
    """The acts that are written out where they are recorded in the trail."""
    for path in Path(tollway.__file__).parent.rglob("*.py"):
        for node in _calls(path, _RECORDED_BY):
            name = getattr(node.func, "id", "")
            if name in _RECORDED_BY and len(node.args) > _RECORDED_BY[name]:
                act = node.args[_RECORDED_BY[name]]
                if isinstance(act, ast.Constant):
                    yield act.value


def test_every_act_of_the_trail_is_said_in_chinese() -> None:
    acts = set(_recorded())
    assert len(acts) > 40
    assert sorted(acts - catalogue("zh").keys()) == []

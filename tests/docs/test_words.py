"""Code, tests and pages use the words of the field, and no name that was given up for a better one.

The words and names are those of CONTRIBUTING.md, "Names and words", turned round: what a newcomer
would have to learn first, or would search for in vain.
"""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, name_of

_FOLDERS = ("src", "tests", "bench", "docs", "deploy", "sdk")
_ENDINGS = {".py", ".md", ".sql", ".html", ".lua", ".service", ".timer"}

# Also as parts of names, such as test_nobody_waits; the usual words are in the comments.
_WORDS = (
    "whoever|nobody|nobodys|somebody|somebodys",  # the caller, the worker, another process
    "anew",  # again, from the start
    "told",  # answered, reported, notified, logged
    "hears? of|heard of",  # is notified of
    "who waits?|made to wait",  # lock, timeout, deadlock
    "walks|walked|walking",  # passes through, reads, scans
    "rooms?",  # package, slot, space
    "lanes?",  # queue
    "books",  # ledger, store
    "toll",  # pipeline, gateway
    "passports?",  # caller
    "crew",  # worker group
    "desk",  # waybill book
    "uncharged",  # not charged, refused calls
    "strangers?",  # an anonymous or unauthenticated client, an unknown caller
    "mend|mends|mended|mending",  # fix, repair; correct a record
    "way there and back",  # round trip
)
_NAMES = (
    r"\bat_once\.py|\bposting\.py|\bsettlement\.py|\border\.py|\bkeeping\.py|\bcarrying\.py",
    r"\bstanding\.py|\basking\.py|\bkey_marks|\bconfirming\b|\blives\.py|\bfive\.py|\bfive_caller",
    r"\bToll\b|\bLane\b|\b_Lane\b|\bKeeping\b|\bKeptBefore\b|\bStandings\b|\bActed\b",
    r"\bclass (?:Asking|Remarks|Places|Shared|Wish|OpenedLink|Signer|Notes)\b",
    r"\bWORLD = Runtime|\bworld = Runtime|\bat: Session\b",
    r"\bclass Parts\b|\bAccountParts\b|\bSiteParts\b|\bRivalError\b|\bStoreDoubtError\b|\bUnfit\b",
    r"\bcarriers/(?:places|routes|receivers)\.py|\bledger[/.]directory\b|\btelemetry[/.]levels\b",
    r"\bwebhooks[/.](?:watching|delivering)\b|\bold_rows\.py|\blog_rewrite\b|\brow_pieces\b",
    r"\bclass (?:Directory|Levels)\b",
    r"\bUnobtained\b|\bCoreShortage\b|\bmade_aside\b|\bweb\.aside\b|\bran_s\b",
    r"\bWriteTurns\b|\bRemembered\b|\bsure_ms\b|\bservice_manager\b",
)
_WORD = re.compile(r"(?<![a-z])(?:" + "|".join(_WORDS).replace(" ", "[ _]") + r")(?![a-z])")
_NAME = re.compile("|".join(_NAMES))
# Addresses have lanes and rooms, Argon2id has lanes, and a system has a user `nobody`.
_MEANT = {
    "src/tollway/identity/passwords.py": {"lanes"},
    "src/tollway/operations/orders/masking.py": {"lane", "room"},
    "tests/operations/masking_cases.py": {"lane", "room"},
    # The name of an act in trails that exist.
    "src/tollway/intake/rejects.py": {"mend"},
    "src/tollway/web/operator/trail.py": {"mend"},
    "tests/cli/test_trail_complete.py": {"mend"},
    "tests/web/test_operator_imports.py": {"mend"},
    "tests/support/server_files.py": {"nobody"},
    "bench/cost_databases.py": {"nobody"},
}


@cache
def _files() -> tuple[Path, ...]:
    found = [*ROOT.glob("*.md"), ROOT / "Makefile", ROOT / "Containerfile", ROOT / "pyproject.toml"]
    for folder in _FOLDERS:
        found += (path for path in (ROOT / folder).rglob("*") if path.suffix in _ENDINGS)
    return tuple(sorted(path for path in found if path != Path(__file__)))


def _given_up(text: str) -> Iterator[tuple[str, int]]:
    """Each word and name, with its line. A pattern for words in any case would take twice as long,
    and so would a line at a time."""
    for pattern, where in ((_WORD, text.lower()), (_NAME, text)):
        for found in pattern.finditer(where):
            yield found[0], where.count("\n", 0, found.start()) + 1


def _found(path: Path) -> Iterator[str]:
    meant = _MEANT.get(name_of(path), set())
    for found, number in _given_up(path.read_text(encoding="utf-8")):
        if found not in meant:
            yield f"{name_of(path)}:{number}: {found}"


def test_no_file_uses_a_word_or_name_that_was_given_up() -> None:
    assert not [each for path in _files() for each in _found(path)]


def test_files_of_every_kind_are_read() -> None:
    assert {path.suffix for path in _files()} >= _ENDINGS
    assert {name_of(path).partition("/")[0] for path in _files()} >= {*_FOLDERS, "README.md"}


@pytest.mark.parametrize(
    "text",
    [
        "test_nobody_waits",
        "the caller is told so",
        "it hears of changes",
        "def told() -> str:",
        "class Wish(msgspec.Struct):",
        "tollway/ledger/keeping.py",
        "The room of the orders",
        "a flood of strangers",
        "a mended record",
        "class Parts(NamedTuple):",
        "The first line.\nThe Room of the orders",
    ],
)
def test_they_are_noticed(text: str) -> None:
    assert list(_given_up(text))


@pytest.mark.parametrize(
    "text",
    [
        "tollway serve",
        "bookkeeping",
        "class GrantRequest:",
        "the five operations",
        "a waybill book",
        "a recommended item",
    ],
)
def test_usual_words_pass(text: str) -> None:
    assert not list(_given_up(text))

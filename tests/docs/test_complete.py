"""Nothing is undocumented, and nothing is documented that does not exist."""

import re
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path

import pytest

from tests.docs.pages import (
    CALL,
    CALL_ZH,
    DOCS,
    OPERATE_PAGES,
    PAGES,
    REFERENCE,
    ROOT,
    Link,
    anchors_of,
    blocks_of,
    links_of,
    name_of,
    rows_of,
)
from tests.support.commands import all_commands
from tollway.contract.reasons import SUCCESS, Cause, Reason
from tollway.gateway.oauth import TokenRefusal
from tollway.operations.catalogue import MORE_CALLS, OPERATIONS
from tollway.settings import Settings
from tollway.telemetry.metrics import Metrics
from tollway.telemetry.requests import NO_IDS

LINKS = [link for page in PAGES for link in links_of(page)]
for_callers = pytest.mark.parametrize("page", (CALL, CALL_ZH), ids=name_of)


def test_every_setting_is_documented_with_its_default_and_no_other() -> None:
    rows = [row for row in rows_of(REFERENCE) if len(row) == 3]
    start = rows.index(["setting", "default", "meaning"]) + 2
    documented = {row[0].strip("`"): row[1].strip("`") for row in rows[start:]}
    known = {spec.name: str(spec.default) for spec in fields(Settings)}
    assert {name: documented.get(name) for name in known} == known
    assert not set(_variables()) - {f"TOLLWAY_{name.upper()}" for name in known}


def _variables() -> Iterator[str]:
    """The variables that any page sets or speaks of."""
    for page in PAGES:
        for name in re.findall(r"\bTOLLWAY_[A-Z_]+\b(?!<)", page.read_text(encoding="utf-8")):
            if name not in ("TOLLWAY_", "TOLLWAY_CONFIG"):
                yield name


def _metric_names() -> set[str]:
    metrics = Metrics()
    record = (0.0, "", "product_analysis", None, 0, "SUCCESS", 1, 0.001, NO_IDS, False, True)
    metrics.answered([record])
    text = metrics.render().decode()
    return set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))


def test_every_metric_is_documented_and_no_other() -> None:
    documented = {row[0].strip("`") for row in rows_of(REFERENCE) if row[0].startswith("`tollway_")}
    assert documented == _metric_names()
    for page in PAGES:
        named = set(re.findall(r"\btollway_[a-z_]+\w", page.read_text(encoding="utf-8")))
        assert named <= {*_metric_names(), *_NO_METRICS}, page.name


# The Python package for callers, and the function that posts charges on PostgreSQL.
_NO_METRICS = {"tollway_client", "tollway_charge"}

COMMANDS = {f"tollway {name}": command for name, command in all_commands().items()}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_an_example_and_its_options_are_named(name: str) -> None:
    examples = "".join(
        block.text for page in PAGES for block in blocks_of(page) if block.language == "sh"
    )
    assert re.search(rf"\b{name}\b", examples)
    text = "".join(page.read_text(encoding="utf-8") for page in OPERATE_PAGES)
    assert name.removeprefix("tollway ") in text
    for parameter in COMMANDS[name].params:
        for option in parameter.opts:
            assert not option.startswith("--") or option in text, option


_NAMED_COMMAND = re.compile(r"(?:`|^)tollway ([a-z][a-z-]*)(?: ([a-z][a-z-]*))?", re.MULTILINE)


def test_every_command_that_is_named_exists() -> None:
    paths = {tuple(name.split()[1:]) for name in COMMANDS}
    groups = {path[:1] for path in paths}
    known = {path[:2] for path in paths}
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for first, second in re.findall(_NAMED_COMMAND, text):
            assert (first,) in groups, f"{page.name}: tollway {first}"
            assert (first,) in known or not second or (first, second) in known, page.name


def _causes() -> dict[str, Cause]:
    return {"": SUCCESS, **{reason.name: reason.value for reason in Reason}}


@for_callers
def test_every_reason_is_documented_with_its_code_and_status_and_no_other(page: Path) -> None:
    rows = [row for row in rows_of(page) if len(row) == 5 and row[0].isdigit()]
    documented = {row[1].strip("`"): (row[0], row[4]) for row in rows}
    assert documented == {
        name: (str(cause.code), str(cause.status)) for name, cause in _causes().items()
    }


@for_callers
def test_every_error_of_the_token_endpoint_is_documented_with_its_status_and_no_other(
    page: Path,
) -> None:
    rows = [row for row in rows_of(page) if len(row) == 4 and row[1].isdigit()]
    documented = {(row[0].strip("`"), int(row[1])) for row in rows}
    assert documented == {(each.value.error, each.value.status) for each in TokenRefusal}


@for_callers
def test_every_operation_and_parameter_is_documented(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for operation in OPERATIONS:
        assert f"`{operation.method} {operation.path}`" in text
        assert f"## {operation.title}" in text or page is CALL_ZH
        names = [*operation.request_type.__struct_fields__]
        names += operation.response_type.__struct_fields__
        for name in names:
            assert f"`{name}" in text, name


@pytest.mark.parametrize("page", (DOCS / "call/more.md", DOCS / "call/more.zh.md"), ids=name_of)
def test_each_of_the_more_calls_is_documented_with_its_parameters_and_fields(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for operation in MORE_CALLS:
        assert f"`{operation.method} {operation.path}`" in text
        for name in operation.request_type.__struct_fields__:
            assert f"`{name}`" in text, name
        # The records of a file are those of the operation that it belongs to.
        fields = () if operation.is_file else operation.response_type.__struct_fields__
        for name in fields:
            assert name in text, name


@pytest.mark.parametrize("link", LINKS, ids=lambda link: f"{name_of(link.page)}:{link.target}")
def test_every_link_leads_somewhere(link: Link) -> None:
    if re.match(r"https?:", link.target):
        return
    path, _, anchor = link.target.partition("#")
    target = (link.page.parent / path).resolve() if path else link.page
    assert target.exists()
    assert target.is_relative_to(ROOT)
    if anchor:
        assert anchor in anchors_of(target)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_files_that_are_named_exist(page: Path) -> None:
    folders = "src|tests|docs|bench|requirements"
    for name in re.findall(rf"`((?:{folders})/[\w./]+)`", page.read_text(encoding="utf-8")):
        assert (ROOT / name).exists(), name
    for name in re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.py)`", page.read_text(encoding="utf-8")):
        assert (ROOT / name).exists() or (ROOT / "src/tollway" / name).exists(), name


@cache
def _test_names() -> set[str]:
    files = (ROOT / "tests").rglob("test_*.py")
    return {
        name
        for file in files
        for name in re.findall(
            r"^(?:async )?def (test_\w+)\(", file.read_text(encoding="utf-8"), re.MULTILINE
        )
    }


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_tests_that_are_named_exist(page: Path) -> None:
    named = set(re.findall(r"`(test_\w+)`", page.read_text(encoding="utf-8")))
    assert not named - _test_names()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_prose_is_wrapped(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for block in blocks_of(page):
        text = text.replace(block.text, "")
    for line in text.splitlines():
        is_free = line.startswith(("|", "![")) or " " not in line
        assert is_free or len(line) <= 100, line

"""Which versions of Python can be used is said in several places, and they agree."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from requirements import choose_python
from tests.docs.pages import ROOT

pytestmark = pytest.mark.sqlite
_CLASSIFIER = "Programming Language :: Python :: "
_TOLLWAY, _SDK = ROOT / "pyproject.toml", ROOT / "sdk/python/pyproject.toml"
_SAID = re.compile(r"Python (3\.\d+)(?: or newer| or\nnewer| 或更高| 及以上)")


def _project(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def _oldest(path: Path) -> str:
    return str(_project(path)["project"]["requires-python"]).removeprefix(">=")


@pytest.mark.parametrize("path", [_TOLLWAY, _SDK], ids=["tollway", "tollway-client"])
def test_the_versions_of_a_package_begin_with_the_oldest_and_have_no_gap(path: Path) -> None:
    classifiers = _project(path)["project"]["classifiers"]
    versions = [each.removeprefix(_CLASSIFIER) for each in classifiers if _CLASSIFIER in each]
    minors = [int(each.removeprefix("3.")) for each in versions]
    assert versions[0] == _oldest(path)
    assert minors == list(range(minors[0], minors[-1] + 1)) and minors[-1] >= 13
    # Nothing newer than the oldest may be used: ruff and mypy know what came when.
    assert _project(path)["tool"]["ruff"]["target-version"] == f"py{_oldest(path).replace('.', '')}"


def test_what_checks_locks_and_installs_takes_the_oldest_too() -> None:
    oldest, project = _oldest(_TOLLWAY), _project(_TOLLWAY)
    as_tuple = f"({oldest.replace('.', ', ')})"
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert project["tool"]["mypy"]["python_version"] == oldest
    assert set(re.findall(r"--python-version (\S+)", makefile)) == {oldest}
    assert f"sys.version_info < {as_tuple}" in makefile
    assert f"sys.version_info < {as_tuple}" in choose_python.USABLE


@pytest.mark.parametrize(
    ("page", "path"),
    [
        *((page, _TOLLWAY) for page in ("README.md", "README.zh.md", "CONTRIBUTING.md")),
        *((page, _TOLLWAY) for page in ("docs/start.md", "docs/start.zh.md", "Makefile")),
        *((page, _SDK) for page in ("sdk/python/README.md", "docs/call/python.md")),
        ("docs/call/python.zh.md", _SDK),
    ],
)
def test_a_page_says_the_oldest(page: str, path: Path) -> None:
    said = _SAID.findall((ROOT / page).read_text(encoding="utf-8"))
    assert set(said) == {_oldest(path)}

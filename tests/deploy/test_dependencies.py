"""What the gateway imports is named in pyproject.toml, and not left to come with something else."""

import ast
import re
import sys
import tomllib
from importlib.metadata import distribution

import pytest

from tests.docs.pages import ROOT

pytestmark = pytest.mark.sqlite
# Always in the same version as the package that it comes with.
_COMES_WITH = {"mcp-types": "mcp"}


# To parse every file takes twenty times as long. Ruff sees to it that each import has its own line;
# what only looks like one is found too.
_LOOKS_IMPORTED = re.compile(r"^[ \t]*(?:from|import)[ \t]+(\w+)", re.MULTILINE)


def _imported(text: str, known: set[str]) -> set[str]:
    """What is imported in a file and not known."""
    found: set[str] = set()
    if known.issuperset(_LOOKS_IMPORTED.findall(text)):
        return found
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {each.name.partition(".")[0] for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found.add(node.module.partition(".")[0])
    return found - known


def _plain(name: str) -> str:
    return re.sub("[-_.]+", "-", name).lower()


def _modules_of(package: str) -> set[str]:
    """What is imported of it."""
    files = distribution(package).files
    assert files
    return {each.parts[0].partition(".")[0] for each in files}


def test_every_package_that_is_imported_is_named() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [*project["dependencies"], *project["optional-dependencies"]["mcp"]]
    named = {_plain(re.split("[<>=;]", line)[0]) for line in lines}
    named |= {each for each, with_ in _COMES_WITH.items() if with_ in named}
    known = {*sys.stdlib_module_names, "tollway"}.union(*map(_modules_of, named))
    files = [path.read_text(encoding="utf-8") for path in (ROOT / "src/tollway").rglob("*.py")]
    assert set().union(*(_imported(text, known) for text in files)) == set()
    assert _imported("import tollway, asyncio\nimport yaml", known) == {"yaml"}

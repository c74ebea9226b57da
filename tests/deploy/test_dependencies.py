"""What the gateway imports is named in pyproject.toml, and not left to come with something else."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions

import pytest

from tests.docs.pages import ROOT

pytestmark = pytest.mark.sqlite
# Always in the same version as the package that it comes with.
_COMES_WITH = {"mcp-types": "mcp"}


def _imported() -> set[str]:
    found: set[str] = set()
    for file in (ROOT / "src/tollway").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {each.name.partition(".")[0] for each in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module is not None:
                found.add(node.module.partition(".")[0])
    return found - set(sys.stdlib_module_names) - {"tollway"}


def _plain(name: str) -> str:
    return re.sub("[-_.]+", "-", name).lower()


def test_every_package_that_is_imported_is_named() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [*project["dependencies"], *project["optional-dependencies"]["mcp"]]
    named = {_plain(re.split("[<>=;]", line)[0]) for line in lines}
    packages = packages_distributions()
    unnamed = {
        module
        for module in _imported()
        if named.isdisjoint(
            _COMES_WITH.get(_plain(each), _plain(each)) for each in packages[module]
        )
    }
    assert unnamed == set()

"""What comes from the descriptors is in the SDKs as the descriptors are now."""

import ast
from pathlib import Path

import pytest

from sdk.generator.__main__ import SDK, generated

_GENERATED = generated()


@pytest.mark.parametrize("path", _GENERATED, ids=lambda path: str(path.relative_to(SDK)))
def test_a_generated_file_is_what_the_descriptors_make(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == _GENERATED[path], "run `make sdk`"


@pytest.mark.parametrize("path", sorted(SDK.glob("python/**/*.py")), ids=lambda path: path.name)
def test_the_python_sdk_has_the_syntax_of_the_oldest_python_that_it_is_for(path: Path) -> None:
    ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 9))


@pytest.mark.parametrize(
    "path", sorted(SDK.glob("typescript/src/*.ts")), ids=lambda path: path.name
)
def test_no_line_of_the_typescript_sdk_is_too_long(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if len(line) > 100] == []

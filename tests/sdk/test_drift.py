"""What comes from the descriptors is in the SDKs as the descriptors are now."""

import ast
import inspect
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from sdk.generator.__main__ import SDK, generated
from tollway_client import AsyncClient, Client

_GENERATED = generated()


@pytest.mark.parametrize("path", _GENERATED, ids=lambda path: str(path.relative_to(SDK)))
def test_a_generated_file_is_what_the_descriptors_make(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == _GENERATED[path], "run `make sdk`"


@pytest.mark.parametrize("client", [Client, AsyncClient])
def test_editors_know_what_a_waybill_of_a_batch_has(client: type[Client | AsyncClient]) -> None:
    """Any mapping was taken: a name that was mistyped came back from the gateway, as code 100."""
    (of_batch,) = get_args(get_type_hints(client.issue_waybills)["waybills"])
    alone = dict(inspect.signature(client.issue_waybill).parameters)
    for name in ("self", "idempotency_key", "headers"):
        del alone[name]
    required = {name for name, each in alone.items() if each.default is inspect.Parameter.empty}
    assert getattr(of_batch, "__required_keys__", None) == required
    assert of_batch.__optional_keys__ == alone.keys() - required


@pytest.mark.parametrize("path", sorted(SDK.glob("python/**/*.py")), ids=lambda path: path.name)
def test_the_python_sdk_has_the_syntax_of_the_oldest_python_that_it_is_for(path: Path) -> None:
    ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 9))


@pytest.mark.parametrize(
    "path", sorted(SDK.glob("typescript/src/*.ts")), ids=lambda path: path.name
)
def test_no_line_of_the_typescript_sdk_is_too_long(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if len(line) > 100] == []

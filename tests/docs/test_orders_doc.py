"""The pages about orders: their examples are run, their tables are complete."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, blocks_of, name_of
from tests.support.gateway import Gateway
from tests.support.ledger import RUNTIME
from tests.support.orders import order, sealer_of
from tests.support.pushes import EVERYONE
from tests.support.stores import Store
from tollway.contract.decoding import declared_fields
from tollway.intake.sources import add_source
from tollway.operations.orders.operation import OrderEntry, OrderPage, OrdersRequest
from tollway.operations.orders.records import OrderRecord

PAGE, PAGE_ZH = DOCS / "operations/orders.md", DOCS / "operations/orders.zh.md"


def _block(language: str) -> str:
    """The first of the page; tests/docs/test_twins.py says that the Chinese page has the same."""
    return next(block.text for block in blocks_of(PAGE) if block.language == language)


def test_the_signing_example_pushes_an_order(tmp_path: Path) -> None:
    store = Store(tmp_path / "tollway.db")
    made = store.do(
        lambda database: add_source(database, sealer_of(store), "market", EVERYONE, RUNTIME)
    )
    gateway = Gateway(store)
    environment = {
        "PUSH_SECRET": made.secret,
        "PUSH_SOURCE": "market",
        "BASE_URL": gateway.base_url,
        "ORDER": json.dumps(order()),
    }
    done = _run_example(environment)
    refused = _run_example({**environment, "PUSH_SOURCE": "unknown"})
    gateway.stop()
    assert json.loads(done.stdout) == {"stored": 1, "unchanged": 0, "rejected": 0}, done.stderr
    assert refused.returncode == 1
    assert refused.stderr.startswith('401: {"error":')


def _run_example(environment: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", _block("python")],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_sample_answer_has_every_field() -> None:
    sample = json.loads(_block("json"))
    assert list(sample) == list(OrderPage.__struct_fields__)
    assert list(sample["content"][0]) == list(OrderEntry.__struct_fields__)


@pytest.mark.parametrize("page", (PAGE, PAGE_ZH), ids=name_of)
def test_every_field_is_described(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    names = [field.name for field in declared_fields(OrdersRequest)]
    for name in (*names, *OrderRecord.__struct_fields__):
        assert f"`{name}`" in text

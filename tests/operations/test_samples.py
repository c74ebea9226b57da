"""The samples of the documentation, sent and compared, and the pages that show them."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.gateway import Gateway
from tests.support.samples import DOCS, PUBLIC_URL, SAMPLES, Sample, replay, sample_world, steady
from tests.support.stores import Store
from tollway.contract.decoding import declared_fields
from tollway.contract.operation import Operation
from tollway.operations.catalogue import OPERATIONS

PAGES = {
    each.name: (DOCS / "operations" / f"{each.name}.md").read_text(encoding="utf-8")
    for each in OPERATIONS
}


class SampleGateway:
    """A gateway that serves the world of the samples, and the token of their caller."""

    def __init__(self, store: Store) -> None:
        self.token = sample_world(store)
        self.gateway = Gateway(store, public_url=PUBLIC_URL)


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SampleGateway]:
    started = SampleGateway(Store(tmp_path_factory.mktemp("samples") / "tollway.db"))
    yield started
    assert started.gateway.stop() == 0


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_the_sample_request_gets_the_sample_response(
    serving: SampleGateway, sample: Sample
) -> None:
    reply = replay(serving.gateway, sample, serving.token)
    assert steady(reply.envelope) == steady(sample.expected())
    assert [type(reply.envelope[name]) for name in ("msec", "time")] == [int, int]


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_every_operation_has_a_sample_of_a_success(operation: Operation) -> None:
    envelopes = [sample.expected() for sample in SAMPLES if sample.operation is operation]
    assert 0 in [envelope["code"] for envelope in envelopes]


@pytest.mark.parametrize(
    "change",
    [
        {"code": 1},
        {"msg": "success"},
        {"data": {"total": 3.0, "list": [], "objectId": "wb_1"}},
        {"data": {"list": [], "total": 3, "objectId": "wb_1"}},
        {"data": {"total": 3, "list": [], "objectId": "1"}},
        {"data": {"total": 3, "list": []}},
        {"data": {"total": 3, "list": [], "objectId": "wb_1", "time": 1}},
    ],
)
def test_whatever_does_not_move_is_compared(change: dict[str, Any]) -> None:
    data = {"total": 3, "list": [], "objectId": "wb_1"}
    envelope = {"code": 0, "msg": "Success", "msec": 1, "time": 2, "data": data}
    later = {**envelope, "msec": 33, "time": 44, "data": {**data, "objectId": "wb_2"}}
    assert steady(envelope) == steady(later)
    assert steady(envelope) != steady({**envelope, **change})


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_the_page_tells_the_path_and_every_field(operation: Operation) -> None:
    page = PAGES[operation.name]
    assert operation.path in page
    for field in declared_fields(operation.request_type):
        assert f"`{field.name}`" in page, field.name
    for name in operation.response_type.__struct_fields__:
        assert re.search(rf'[`"]{name}[`"]', page), name


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_the_page_leads_to_every_file_of_its_samples(operation: Operation) -> None:
    for path in (DOCS / "samples" / operation.name).iterdir():
        assert f"(../samples/{operation.name}/{path.name})" in PAGES[operation.name], path.name


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_an_answer_that_a_page_shows_is_one_of_its_samples(operation: Operation) -> None:
    envelopes = [sample.expected() for sample in SAMPLES if sample.operation is operation]
    for block in re.findall(r"```json\n(.*?)```", PAGES[operation.name], re.DOTALL):
        shown = json.loads(block)
        if "withholding_money" in shown:
            assert json.dumps(shown) in [json.dumps(envelope["data"]) for envelope in envelopes]
        elif "code" in shown:
            assert steady(shown) in [steady(envelope) for envelope in envelopes]

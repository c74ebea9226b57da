"""The samples of the documentation, sent and compared, and the pages that show them.

Each folder of `docs/samples` belongs to one operation. It holds requests with their responses, and
the file that was imported before, if there is one. A request is a whole HTTP message (`.http`) or
the body that is posted to the operation (`.json`).
"""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support import forks
from tests.support.all_operations import all_operations_caller
from tests.support.gateway import Gateway, Reply, reply_of
from tests.support.stores import Store
from tollway.consent.owners import put_owner
from tollway.contract.decoding import declared_fields
from tollway.contract.operation import Operation
from tollway.demo.owners import USER_UNAUTHORIZED
from tollway.operations.catalogue import OPERATIONS
from tollway.operations.waybills.demo import fill_carriers
from tollway.store.database import Database

DOCS = Path(__file__).parents[2] / "docs"
# What a gateway is called that serves where the samples say; links begin with it.
PUBLIC_URL = "http://127.0.0.1:8080"
_IMPORTED = {
    "coupon_claims/claims.csv": "coupon-claims",
    "orders/orders.jsonl": "orders",
    "product_analysis/figures.jsonl": "product-figures",
    "promotion_material/materials.jsonl": "promotion-material",
}
# What is another one each time: the clock, and what is drawn by chance or made with a drawn key.
_MOVING = re.compile(
    r'(?<=^  "msec": )\d+|(?<=^  "time": )\d+|(?<="expires_at": )\d+'
    r'|(?<="objectId": "wb_)\w+|(?<=HS256:1:)[0-9a-f]{64}|(?<=/authorize\?link=)[^"]+'
    r'|(?<=issuedAtS\\":)\d+',
    re.MULTILINE,
)


class Sample(NamedTuple):
    """A request and the response to it, as they stand in the documentation."""

    operation: Operation
    request: Path
    response: Path

    @property
    def name(self) -> str:
        return f"{self.operation.name}/{self.request.name}"

    def expected(self) -> dict[str, Any]:
        envelope: dict[str, Any] = json.loads(self.response.read_text(encoding="utf-8"))
        return envelope


def _samples_of(operation: Operation) -> list[Sample]:
    folder = DOCS / "samples" / operation.name
    return [
        Sample(operation, path, path.with_name(f"{path.stem.replace('request', 'response')}.json"))
        for path in sorted(folder.glob("*request.*"))
    ]


SAMPLES = [sample for operation in OPERATIONS for sample in _samples_of(operation)]


def sample_world(store: Store) -> str:
    """Fills a database with what the samples speak of; gives the token of their caller."""
    for file, kind in _IMPORTED.items():
        path = DOCS / "samples" / file
        rejects = store.path.with_name("rejects.jsonl")
        forks.run(
            *("tollway", "import", kind, str(path), "--rejects", str(rejects)),
            env={**os.environ, **store.settings},
        ).check_returncode()
        assert not rejects.exists(), rejects.read_text(encoding="utf-8")

    async def work(database: Database) -> None:
        await fill_carriers(database, numbers=3)
        await database.write(lambda transaction: put_owner(transaction, USER_UNAUTHORIZED, ""))

    store.do(work)
    return all_operations_caller(store).token


def replay(gateway: Gateway, sample: Sample, token: str) -> Reply:
    """Sends a sample's request exactly as it is written, with a token that is good."""
    content = sample.request.read_text(encoding="utf-8").replace("{token}", token)
    if sample.request.suffix == ".json":
        path = sample.operation.path
        return gateway.post_bytes(path, content.encode(), "application/json", token)
    head, _, body = content.partition("\n\n")
    first, *lines = head.splitlines()
    method, target, _ = first.split(" ")
    headers = dict(line.split(": ", 1) for line in lines)
    # Lines on the wire end as HTTP and its forms want it.
    sent = body.replace("\n", "\r\n").encode()
    return reply_of(gateway.client.request(method, target, headers=headers, content=sent))


def steady(envelope: dict[str, Any]) -> str:
    """An answer as text, without what moves. Fields in another order, or 1.0 for 1, are another
    text."""
    return _MOVING.sub("…", json.dumps(envelope, ensure_ascii=False, indent=2))


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
        # One that is cut short follows a command, whose output tests/docs compares with it.
        elif "code" in shown and '"…"' not in block:
            assert steady(shown) in [steady(envelope) for envelope in envelopes]

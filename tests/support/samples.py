"""The samples of the documentation: the little world they were made in, and how they are replayed.

Each folder of `docs/samples` belongs to one operation. It holds requests with their responses, and
the file that was imported before, if there is one. A request is a whole HTTP message (`.http`) or
the body that is posted to the operation (`.json`).
"""

import json
import os
import re
from pathlib import Path
from typing import Any, NamedTuple

from tests.support import forks
from tests.support.all_operations import all_operations_caller
from tests.support.gateway import Gateway, Reply, reply_of
from tests.support.stores import Store
from tollway.consent.owners import put_owner
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

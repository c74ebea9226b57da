"""The samples of the documentation, sent and compared."""

import json
import re
from pathlib import Path
from typing import Any

from tests.support.gateway import Gateway
from tests.support.stores import Store
from tests.support.waybills import issue, new_customer
from tollway.contract.decoding import declared_fields
from tollway.demo.carriers import fill_carriers
from tollway.operations.waybills.descriptor import WAYBILLS

DOCS = Path(__file__).parents[2] / "docs"
SAMPLES = DOCS / "samples" / "waybills"


def _steady(envelope: dict[str, Any]) -> dict[str, Any]:
    """Without what is another one each time: the clock, chance, this gateway's address and key."""
    data = envelope["data"]
    printed = json.loads(data["printData"])
    address = re.sub(r"^http://[^/]+", "", printed["templateURL"])
    signed = re.sub(r"[0-9a-f]{64}$", "", printed["signature"])
    steady = {**printed, "templateURL": address, "signature": signed}
    payload = {**data, "objectId": data["objectId"][:3], "printData": steady}
    return {**envelope, "msec": 0, "time": 0, "data": payload}


def test_the_sample_request_gets_the_sample_response(own_store: Store) -> None:
    own_store.do(lambda database: fill_carriers(database, numbers=3))
    customer = new_customer(own_store)
    gateway = Gateway(own_store)
    sent = json.loads((SAMPLES / "request.json").read_text("utf-8"))
    envelope = issue(gateway, customer.token, sent).envelope
    gateway.stop()
    told = json.loads((SAMPLES / "response.json").read_text("utf-8"))
    assert _steady(envelope) == _steady(told)


def test_the_page_tells_every_field() -> None:
    page = (DOCS / "operations" / "waybills.md").read_text("utf-8")
    fields = {each.name for each in declared_fields(WAYBILLS.request_type)}
    fields |= set(WAYBILLS.response_type.__struct_fields__)
    assert not [name for name in fields if f"`{name}`" not in page]
    assert WAYBILLS.path in page

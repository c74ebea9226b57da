"""Whatever stands in a query string, the answer is an envelope, and only success is charged."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from http.client import HTTPConnection
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import PRODUCT
from tests.support.gateway import ANALYSIS, Gateway
from tests.support.ledger import CALLS, new_caller
from tests.support.stores import Store


@dataclass
class Wire:
    """One connection of one caller, and a look into its balance."""

    connection: HTTPConnection
    token: str
    account_id: str
    store: Store
    amount: int = 100_000

    def taken(self) -> int:
        """How many calls were charged since this was last asked."""
        where = f"account_id = '{self.account_id}' AND unit = '{CALLS}'"
        before = self.amount
        ((self.amount,),) = self.store.run(f"SELECT amount FROM balance WHERE {where}")
        return before - self.amount


@pytest.fixture(scope="module")
def wire(gateway: Gateway, store: Store) -> Iterator[Wire]:
    caller = new_caller(store, calls=100_000, rate_limit=1_000_000)
    connection = HTTPConnection("127.0.0.1", gateway.port, timeout=30)
    yield Wire(connection, caller.token, caller.account_id, store)
    connection.close()


# Every byte that HTTP lets stand in a target as it is; the server itself refuses the others.
LEGAL = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '<>#"')
NAMES = st.sampled_from(["product_id", "query_date", "Product_id", "product_id[]", ""])
VALUES = (
    st.sampled_from([PRODUCT, "2026-01-01", "2024-02-29", "0001-01-01", "9999-12-31", "%00", "%ff"])
    | st.dates().map(date.isoformat)
    | st.text(LEGAL, max_size=20)
    | st.text(max_size=70).map(quote)
    | st.binary(max_size=10).map(quote)
)
QUERIES = st.text(LEGAL, max_size=60) | st.lists(
    st.tuples(NAMES | st.text(LEGAL, max_size=10), st.sampled_from(["=", "", "=="]), VALUES).map(
        "".join
    ),
    max_size=5,
).map("&".join)


@settings(max_examples=50)
@given(query=QUERIES)
def test_the_answer_is_0_or_100_and_only_0_is_charged(wire: Wire, query: str) -> None:
    headers = {"Authorization": f"Bearer {wire.token}"}
    wire.connection.request("GET", f"{ANALYSIS}?{query}", headers=headers)
    response = wire.connection.getresponse()
    envelope = json.loads(response.read())
    # The next example may take long to make, and the gateway ends connections that are idle.
    wire.connection.close()
    assert response.status == 200
    assert list(envelope) == ["code", "msg", "msec", "time", "data"]
    assert envelope["code"] in (0, 100) and envelope["msg"]
    assert bool(envelope["data"]) == (envelope["code"] == 0)
    assert wire.taken() == (1 if envelope["code"] == 0 else 0)


def test_the_queries_tried_can_succeed_at_all(wire: Wire, question: dict[str, str]) -> None:
    pairs = [f"{name}={value}" for name, value in question.items()]
    for query in ("&".join(pairs), "&".join([*pairs, *pairs, "x=%00", "=", "&"])):
        headers = {"Authorization": f"Bearer {wire.token}"}
        wire.connection.request("GET", f"{ANALYSIS}?{query}", headers=headers)
        assert json.loads(wire.connection.getresponse().read())["code"] == 0
        assert wire.taken() == 1

"""Which receipts are there after a restart, and after a flood of refusals."""

import pytest

from tests.support.gateway import Gateway, Reply
from tests.support.ledger import CALLS, Caller, new_caller
from tests.support.receipts import ask_receipt, id_of, notes_of, receipt_of
from tests.support.stores import Store


def test_receipts_are_there_after_a_restart(own_store: Store, question: dict[str, str]) -> None:
    caller = new_caller(own_store)
    gateway = Gateway(own_store)
    replies = [gateway.get(token=caller.token, query=query) for query in (question, {})]
    # Stopped at once: what was answered is stored first.
    assert gateway.stop() == 0
    gateway = Gateway(own_store)
    receipts = [ask_receipt(gateway, caller.token, id_of(reply)).data for reply in replies]
    assert [each["outcome"] for each in receipts] == ["charged", "not_charged"]
    assert (receipts[0]["balance_after"], receipts[0]["unit"]) == (99, CALLS)
    assert gateway.stop() == 0


def flood(gateway: Gateway, caller: Caller, question: dict[str, str]) -> list[Reply]:
    replies = [gateway.get(token=caller.token, query=question) for _ in range(100)]
    return [reply for reply in replies if reply.code == 202]


def dropped(gateway: Gateway) -> int:
    lines = gateway.client.get("/metrics").text.splitlines()
    name = 'tollway_receipts_dropped_total{cause="too_fast"} '
    return sum(int(float(line.removeprefix(name))) for line in lines if line.startswith(name))


@pytest.mark.parametrize("common_rate", [5, 1000])
def test_of_a_flood_of_refusals_only_the_first_of_each_second_are_kept(
    own_store: Store, question: dict[str, str], common_rate: int
) -> None:
    """With a common rate above the flood all are kept: so it is the rule that keeps others out."""
    caller = new_caller(own_store, rate_limit=1)
    gateway = Gateway(own_store, rate_limit=common_rate)
    throttled = flood(gateway, caller, question)
    first = receipt_of(gateway, caller.token, throttled[0])
    assert (first["code"], first["reason"]) == (202, "THROTTLED")
    left_out = dropped(gateway)
    assert gateway.stop() == 0
    assert notes_of(own_store, caller) + left_out == len(throttled)
    if common_rate == 5:
        assert left_out > 0
    else:
        assert left_out == 0

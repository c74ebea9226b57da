"""Which receipts are there after a restart, and after a flood of refusals."""

from datetime import date, timedelta

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


def test_of_a_flood_of_refusals_the_first_of_each_minute_are_kept_and_the_others_counted(
    own_store: Store, question: dict[str, str], today: date
) -> None:
    caller = new_caller(own_store, rate_limit=1)
    gateway = Gateway(own_store)
    throttled = flood(gateway, caller, question)
    first = receipt_of(gateway, caller.token, throttled[0])
    assert (first["code"], first["reason"]) == (202, "THROTTLED")
    left_out = dropped(gateway)
    assert gateway.stop() == 0
    # Ten, and up to ten more if a minute has ended meanwhile and the next one begun.
    assert 10 <= notes_of(own_store, caller) <= 20
    assert notes_of(own_store, caller) + left_out == len(throttled)
    ((counted,),) = own_store.run("SELECT sum(more) FROM refused_call")
    assert int(counted) == left_out
    gateway = Gateway(own_store)
    try:
        token = caller.token
        listed = gateway.get("/account/v1/requests", token=token).data["requests"]
        assert sum(each["more"] for each in listed if each["code"] == 202) == left_out
        days = {"from_date": f"{today - timedelta(days=1)}", "to_date": f"{today}"}
        used = gateway.get("/account/v1/usage", token=token, query=days).data["days"]
        assert sum(each["other_calls"] for each in used) == len(throttled)
    finally:
        assert gateway.stop() == 0

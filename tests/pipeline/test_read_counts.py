"""An owner sees how many records each read got: of every operation, and of repetitions too."""

from datetime import date
from types import SimpleNamespace
from typing import Any, cast
from zoneinfo import ZoneInfo

import pytest

from tests.support.all_operations import all_operations_caller, ask, good_request
from tests.support.gateway import Gateway
from tests.support.handlers import may_go_on
from tests.support.receipts import id_of
from tests.support.stores import Store
from tollway.consent.grants import grants_of_account, newest_reads
from tollway.contract.operation import Operation, records_with
from tollway.ledger.caller_cache import Caller
from tollway.ledger.charges import Charge, GrantKey
from tollway.operations.catalogue import ALL_OPERATIONS, OPERATIONS
from tollway.operations.orders.operation import ORDERS
from tollway.operations.subject import Counted
from tollway.pipeline.bodies import NO_BODY
from tollway.pipeline.call import Call
from tollway.pipeline.perform import Perform
from tollway.pipeline.settle import Settle
from tollway.store.database import Database

_UNDER_CONSENT = [each for each in OPERATIONS if each.consent is not None]


def _records_of(operation: Operation, data: dict) -> int:
    if operation.name == "orders":
        return len(data["content"])
    if operation.name == "promotion_material":
        return len(data["affiliate_sc_optimus_promotion_response"]["result_list"]["map_data"])
    return 1


@pytest.mark.parametrize("operation", _UNDER_CONSENT, ids=lambda each: each.name)
def test_a_read_and_its_repetition_have_the_number_of_their_records(
    served: Gateway, world: Store, today: date, operation: Operation
) -> None:
    caller, sent = all_operations_caller(world), good_request(operation, today)
    key = {"Idempotency-Key": "once"}
    replies = [ask(served, operation, caller.token, sent, key) for _ in range(2)]
    assert [each.code for each in replies] == [0, 0]
    expected = _records_of(operation, replies[0].data)
    assert expected > 0

    async def work(database: Database) -> dict[str, int | None]:
        return {
            read.request_id: read.records
            for each in await grants_of_account(database, caller.account_id)
            for read in await newest_reads(database, each.grant, 10)
        }

    assert world.do(work) == {id_of(each): expected for each in replies}


def test_every_answer_under_a_consent_can_be_counted() -> None:
    # A file has as many as the export that it belongs to.
    missing = [
        each.name
        for each in ALL_OPERATIONS
        if each.consent is not None and each.count_records is None and not each.is_file
    ]
    assert missing == []


class Batcher:
    """Keeps the charge that it is given."""

    counts_calls = False

    def settle(self, charge: Charge) -> None:
        self.charge = charge


@pytest.mark.sqlite
def test_a_handler_says_how_many_but_a_repetition_has_those_of_the_answer_that_it_gets() -> None:
    batcher, settle = Batcher(), Settle(ZoneInfo("Asia/Shanghai"))
    call = Call("", "POST", ORDERS.path, b"", {}, NO_BODY, 0.0)
    call.operation, call.price = ORDERS, 1
    call.caller = Caller("token", "account", is_test=False, expires_at_s=None, permissions={})
    call.directory = None
    # As no handler answers: what it says is not counted again.
    handlers = {ORDERS.name: lambda *_: Counted(b'[{"order_sn":"1"}]', 2)}
    call.environment = cast(Any, SimpleNamespace(batcher=batcher, handlers=handlers))
    call.grant = GrantKey("shop", "s1", "consent")
    call.request = None
    Perform(may_go_on)(call)
    settle(call)
    assert batcher.charge.records == 2
    # Another call under the same key was answered meanwhile.
    settle.replay(call, "first", call.data)
    assert batcher.charge.records == 1


def test_a_mark_in_a_text_is_not_counted() -> None:
    count = records_with('"order_sn":')
    assert count(rb'[{"order_sn":"1","remark":"\"order_sn\":\"2\""},{"order_sn":"3"}]') == 2

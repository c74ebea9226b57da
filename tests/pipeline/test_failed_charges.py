"""What a call is answered whose charge fails in the database, and what it leaves behind."""

import asyncio
from collections.abc import AsyncGenerator
from types import SimpleNamespace
from typing import Any, cast
from zoneinfo import ZoneInfo

import msgspec
import pytest

from tollway.contract.reasons import Reason, Refusal
from tollway.ledger.caller_cache import Caller
from tollway.ledger.charge_queue import PendingCharge
from tollway.ledger.charges import Act, ActResult, Charge
from tollway.operations.subject import Stream
from tollway.operations.waybills.operation import WAYBILLS
from tollway.pipeline.bodies import NO_BODY
from tollway.pipeline.call import Admission, Call
from tollway.pipeline.envelope import Enveloper
from tollway.pipeline.settle import Settle
from tollway.store.database import CommitUnknownError, StoreBusyError, StoreError

pytestmark = pytest.mark.sqlite

PRICE = 5


def call_of(*commits: ActResult | Exception) -> tuple[Call, list[Charge]]:
    """A call whose commits end so, one after the other; and what was posted."""
    outcomes, posted = iter(commits), list[Charge]()

    def settle(charge: Charge) -> PendingCharge:
        posted.append(charge)
        pending = PendingCharge(charge, 0.0)
        pending.end(next(outcomes))
        return pending

    call = Call("request", "POST", WAYBILLS.path, b"", {}, NO_BODY, 0.0)
    call.operation, call.operation_name, call.price = WAYBILLS, WAYBILLS.name, PRICE
    call.caller = Caller("tok_x", "acc_x", False, None, {})
    call.directory = None
    call.account_id, call.admission = "acc_x", Admission(10, 9)
    call.environment = cast(
        Any, SimpleNamespace(batcher=SimpleNamespace(counts_calls=False, settle=settle))
    )
    call.act = act
    return call, posted


async def act(_transaction: object, _charge: object) -> ActResult:
    raise AssertionError("the batcher of this test does no act")


async def next_act() -> Act:
    return cast(Act, act)


async def settled(call: Call) -> None:
    pending = Settle(ZoneInfo("Asia/Shanghai"))(call)
    assert pending is not None
    waiting = pending.resume()
    if waiting is not None:
        await waiting


@pytest.mark.parametrize("error", [StoreError("it fails"), CommitUnknownError("who knows")])
def test_a_call_whose_credits_are_held_says_that_they_are(
    error: StoreError, caplog: pytest.LogCaptureFixture
) -> None:
    held = ActResult(b"", is_paid=False, then=next_act, is_held=True)
    call, posted = call_of(held, error)
    with pytest.raises(Refusal) as refused:
        asyncio.run(settled(call))
    assert refused.value.reason is Reason.CARRIER_SILENT
    assert refused.value.values["cost"] == PRICE
    assert len(posted) == 2
    # The answer names the carrier, the log the database.
    assert f"the outcome of a call with a hold is not known: {error}" in caplog.text


def test_a_call_that_waited_for_another_and_holds_nothing_fails_as_the_database_does() -> None:
    waited = ActResult(b"", is_paid=False, then=next_act)
    call, posted = call_of(waited, StoreBusyError("it fails"))
    with pytest.raises(StoreBusyError, match="it fails"):
        asyncio.run(settled(call))
    assert len(posted) == 2


def enveloper() -> Enveloper:
    nothing = SimpleNamespace(record=lambda _: None)
    return Enveloper(*cast(Any, (None, nothing, lambda *_: None)), mapped=True)


@pytest.mark.parametrize(
    ("error", "reason", "logged"),
    [
        (
            CommitUnknownError("who knows"),
            Reason.COMMIT_IN_DOUBT,
            "a commit is in doubt: who knows",
        ),
        (StoreError("no"), Reason.STORE_UNAVAILABLE, "the database is unavailable: no"),
        (StoreBusyError("slow"), Reason.TIMED_OUT, None),
    ],
)
def test_each_failure_of_the_database_has_its_own_reason(
    error: StoreError, reason: Reason, logged: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    call, _ = call_of()
    call.charged = PRICE
    answer = enveloper().failure(call, error)
    assert (b"x-tollway-reason", reason.name.encode()) in answer.headers
    assert answer.status == reason.value.status
    assert msgspec.json.decode(answer.body)["code"] == reason.value.code
    assert call.charged == 0
    assert [each.getMessage() for each in caplog.records] == ([] if logged is None else [logged])


def test_a_file_that_is_not_sent_after_all_is_ended() -> None:
    async def pieces() -> AsyncGenerator[bytes, None]:
        yield b""

    ended: list[str] = []
    call, _ = call_of()
    call.stream = Stream("text/plain", pieces(), lambda: ended.append("stream"))
    answer = enveloper().failure(call, StoreBusyError("slow"))
    assert (answer.stream, ended) == (None, ["stream"])

"""The carrier has answered, and the commit that stores its answer fails: it is made all the same,
once."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support.fake_carrier import ISSUE, LOOK_UP, FakeCarrier
from tests.support.in_process import in_gateway
from tests.support.ledger import RUNTIME, Caller
from tests.support.remote import PATIENT, connected_carrier, ledger_of
from tests.support.stores import Store
from tests.support.waybills import PRICE, new_customer, request
from tollway.gateway.gateway import Gateway
from tollway.operations.waybills import remote_issue
from tollway.operations.waybills.operation import WAYBILLS
from tollway.pipeline import ending_holds
from tollway.pipeline.bodies import Message
from tollway.pipeline.http import Request
from tollway.pipeline.steps import answer_of
from tollway.store.database import (
    CommitUnknownError,
    Database,
    StoreBusyError,
    StoreError,
    StoreUnavailableError,
)
from tollway.store.open import open_sealer
from tollway.webhooks.endpoints import add_endpoint

CREDITS = 10_000
_ALL = 1_000_000
CHARGED_ONCE = ["top_up", "hold", "release", "charge"]


@pytest.fixture
def carrier(tmp_path: Path) -> Iterator[FakeCarrier]:
    """One that cannot be asked what became of an order."""
    started = FakeCarrier(tmp_path)
    started.misbehave("refuse", message=LOOK_UP)
    yield started
    assert started.stop() == 0


class Failing:
    """A database whose writes fail while it is said with which error, but for the first one, which
    is that of the hold. A commit that is in doubt was made."""

    def __init__(self, gateway: Gateway, error: StoreError, times: int) -> None:
        self.error, self.left, self.failed = error, times, 0
        self._is_first = True
        self._write = gateway._database.write
        gateway._database.write = self.write  # type: ignore[method-assign]

    async def write(self, work: Callable[..., Awaitable[Any]]) -> Any:
        is_failing = not self._is_first and self.left > 0
        self._is_first = False
        if not is_failing:
            return await self._write(work)
        self.left -= 1
        self.failed += 1
        if isinstance(self.error, CommitUnknownError):
            await self._write(work)
        raise self.error


def asked(caller: Caller, body: dict[str, Any]) -> Request:
    content = msgspec.json.encode(body)
    headers = {
        "host": "test",
        "authorization": f"Bearer {caller.token}",
        "content-type": "application/json",
        "content-length": str(len(content)),
        "idempotency-key": "k",
    }
    scope = {
        "http_version": "1.1",
        "method": "POST",
        "raw_path": WAYBILLS.path.encode(),
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 9),
    }

    async def receive() -> Message:
        return {"type": "http.request", "body": content, "more_body": False}

    return scope, receive


async def answered(gateway: Gateway, caller: Caller, body: dict[str, Any]) -> Any:
    (progress,) = gateway.edge.begin([asked(caller, body)])
    return msgspec.json.decode((await answer_of(progress, gateway.edge.go_on)).body)


def reported(store: Store) -> list[Any]:
    return [json_["data"]["outcome"] for json_ in map(msgspec.json.decode, _bodies(store))]


def _bodies(store: Store) -> list[str]:
    return [body for (body,) in store.run("SELECT body FROM webhook_delivery")]


def add_receiver(store: Store, caller: Caller) -> None:
    sealer = open_sealer(store.url, store.key_file)

    async def add(database: Database) -> None:
        await add_endpoint(database, sealer, RUNTIME, caller.account_id, "https://a.example", 0)

    store.do(add)


ERRORS = [StoreUnavailableError("away"), CommitUnknownError("who knows"), StoreBusyError("slow")]


def _asks_for_a_waybill(
    store: Store, carrier: FakeCarrier, fault: str | None
) -> tuple[Caller, dict[str, Any]]:
    """A customer with a receiver, and its request."""
    customer = new_customer(store, credits_=CREDITS)
    add_receiver(store, customer)
    if fault is not None:
        carrier.misbehave(fault, message=ISSUE)
    return customer, request(connected_carrier(store, carrier, **PATIENT))


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_commit_that_fails_once_is_made_again_and_the_call_has_its_answer(
    own_store: Store, carrier: FakeCarrier, monkeypatch: pytest.MonkeyPatch, error: StoreError
) -> None:
    customer, body = _asks_for_a_waybill(own_store, carrier, None)

    async def work(gateway: Gateway) -> None:
        failing = Failing(gateway, error, times=1)
        answer = await answered(gateway, customer, body)
        assert (answer["code"], failing.failed) == (0, 1)
        assert [answer["data"]["waybillCode"]] == carrier.issued()
        again = await answered(gateway, customer, body)
        assert again["data"]["waybillCode"] == answer["data"]["waybillCode"]

    in_gateway(own_store, monkeypatch, work)
    ledger = ledger_of(own_store, customer)
    assert (ledger.available, ledger.held, ledger.posted) == (CREDITS - PRICE, 0, PRICE)
    assert ledger.kinds == CHARGED_ONCE
    assert carrier.received(ISSUE) == 1
    # The caller has it from its call.
    assert reported(own_store) == []


@pytest.mark.parametrize("fault", [None, "refuse"])
def test_a_call_does_not_wait_for_a_long_outage_and_its_answer_is_stored_after_it(
    own_store: Store, carrier: FakeCarrier, monkeypatch: pytest.MonkeyPatch, fault: str | None
) -> None:
    customer, body = _asks_for_a_waybill(own_store, carrier, fault)
    monkeypatch.setattr(ending_holds, "_CALL_WAITS_S", 0.0)
    monkeypatch.setattr(ending_holds, "_PAUSE_S", 0.001)

    async def work(gateway: Gateway) -> None:
        failing = Failing(gateway, StoreUnavailableError("away"), times=_ALL)
        answer = await answered(gateway, customer, body)
        assert answer["code"] == 101
        assert "credits are held" in answer["msg"]
        while failing.failed < 3:  # noqa: ASYNC110 - it can only be polled
            await asyncio.sleep(0)
        failing.left = 0
        # A gateway that stops tries once more.
        await gateway._pipeline.closings.finish()

    in_gateway(own_store, monkeypatch, work)
    ledger = ledger_of(own_store, customer)
    is_issued = fault is None
    assert ledger.kinds == (CHARGED_ONCE if is_issued else ["top_up", "hold", "release"])
    assert (ledger.held, ledger.posted) == (0, PRICE if is_issued else 0)
    # Its caller got no answer.
    assert reported(own_store) == ["issued" if is_issued else "given_up"]
    assert own_store.run("SELECT number FROM waybill") == [
        (carrier.issued()[0] if is_issued else None,)
    ]


@pytest.mark.parametrize("fault", [None, "refuse"])
def test_a_commit_in_doubt_that_was_made_is_reported_to_the_caller_that_was_answered_without_it(
    own_store: Store, carrier: FakeCarrier, monkeypatch: pytest.MonkeyPatch, fault: str | None
) -> None:
    customer, body = _asks_for_a_waybill(own_store, carrier, fault)
    monkeypatch.setattr(ending_holds, "_CALL_WAITS_S", 0.0)

    async def work(gateway: Gateway) -> None:
        Failing(gateway, CommitUnknownError("who knows"), times=2)
        assert (await answered(gateway, customer, body))["code"] == 101
        await gateway._pipeline.closings.finish()

    in_gateway(own_store, monkeypatch, work)
    is_issued = fault is None
    assert ledger_of(own_store, customer).posted == (PRICE if is_issued else 0)
    assert reported(own_store) == ["issued" if is_issued else "given_up"]


def test_a_caller_that_goes_away_keeps_nothing_from_being_stored(
    own_store: Store, carrier: FakeCarrier, monkeypatch: pytest.MonkeyPatch
) -> None:
    customer = new_customer(own_store, credits_=CREDITS)
    body = request(connected_carrier(own_store, carrier, **PATIENT))

    async def work(gateway: Gateway) -> None:
        failing = Failing(gateway, StoreUnavailableError("away"), times=1)
        call = asyncio.ensure_future(answered(gateway, customer, body))
        while not failing.failed:  # noqa: ASYNC110 - it can only be polled
            await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    in_gateway(own_store, monkeypatch, work)
    assert ledger_of(own_store, customer).kinds == CHARGED_ONCE


def test_what_cannot_be_stored_before_a_stop_is_in_the_log_with_its_number(
    own_store: Store,
    carrier: FakeCarrier,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    customer = new_customer(own_store, credits_=CREDITS)
    body = request(connected_carrier(own_store, carrier, **PATIENT))
    monkeypatch.setattr(ending_holds, "_CALL_WAITS_S", 0.0)

    async def work(gateway: Gateway) -> None:
        failing = Failing(gateway, StoreUnavailableError("away"), times=_ALL)
        assert (await answered(gateway, customer, body))["code"] == 101
        await gateway._pipeline.closings.finish()
        failing.left = 0

    in_gateway(own_store, monkeypatch, work)
    ((object_id,),) = own_store.run("SELECT object_id FROM waybill WHERE state = 'pending'")
    (number,) = carrier.issued()
    (said,) = [each.getMessage() for each in caplog.records if number in each.getMessage()]
    assert f"tollway reconcile --decide {object_id} --number {number}" in said
    assert said.endswith("could not be stored: away")
    assert ledger_of(own_store, customer).held == PRICE


def test_a_message_that_was_delayed_while_the_machine_slept_is_not_sent(
    own_store: Store, carrier: FakeCarrier, monkeypatch: pytest.MonkeyPatch
) -> None:
    customer = new_customer(own_store, credits_=CREDITS)
    body = request(connected_carrier(own_store, carrier, **PATIENT))
    # Another node may have given its waybill up meanwhile.
    moments = iter([0.0, float(PATIENT["settle_after_s"])])
    monkeypatch.setattr(remote_issue, "uptime_s", lambda: next(moments))

    async def work(gateway: Gateway) -> None:
        assert (await answered(gateway, customer, body))["code"] == 101

    in_gateway(own_store, monkeypatch, work)
    assert carrier.received(ISSUE) == 0
    assert ledger_of(own_store, customer).kinds == ["top_up", "hold", "release"]

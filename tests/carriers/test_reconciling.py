"""Reconciliation beside calls: a waybill that is never answered for shuts no carrier."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NamedTuple, cast

import pytest
from msgspec.structs import replace

from tests.carriers.conftest import Clock, new_order
from tests.support.fake_carrier import ISSUE, LOOK_UP, FakeCarrier
from tests.support.gateway import Gateway
from tests.support.in_loop import InLoop
from tests.support.ledger import RUNTIME
from tests.support.remote import PATIENT, age_past_deadline, age_pending, connected_carrier
from tests.support.stores import Store
from tests.support.waybills import issue, new_customer, request
from tollway.carriers import CarrierError, reconciling
from tollway.carriers.carrier_links import OpenedCarrierLink, find_link
from tollway.carriers.carriers import known_carrier
from tollway.carriers.connectors.breaker import State
from tollway.carriers.connectors.connector import Connector, Issued, OutcomeUnknownError
from tollway.carriers.connectors.http_exchange import open_client
from tollway.carriers.connectors.remote_carriers import Remotes
from tollway.carriers.reconciling import Finding, Outcome, Reconciler
from tollway.carriers.vault import load_vault
from tollway.store.database import Database, StoreUnavailableError
from tollway.store.open import OpenDatabase, key_path, open_sealer
from tollway.webhooks.endpoints import add_endpoint

PENDING = 3
PAUSE_S = 15.0
# A look-up without an answer takes as long. Calls have more time: the machine may be busy.
_LOOK_UP_MS = 300


class ReconcilerParts(NamedTuple):
    """What one gateway has of a carrier with pending waybills."""

    reconciler: Reconciler
    remotes: Remotes
    clock: Clock
    carrier: FakeCarrier
    wp_code: str
    connector: Callable[[], Awaitable[Connector]]

    @property
    def state(self) -> State:
        return self.remotes.breakers[self.wp_code].state

    async def settle(self) -> list[Outcome]:
        return [each.outcome for each in await self.reconciler.settle_all()]

    async def issue(self) -> object:
        return await (await self.connector()).issue(new_order())


@pytest.fixture
def parts(own_store: Store, carrier: FakeCarrier) -> InLoop[ReconcilerParts]:
    """Beside a carrier for which some waybills wait since a gateway has stopped."""
    store = own_store
    customer = new_customer(store)
    wp_code = connected_carrier(store, carrier, **PATIENT)
    gateway = Gateway(store, reconcile_interval_s=3600)
    carrier.misbehave("cut_after_commit", message=ISSUE, times=PENDING)
    # It does not want to tell, so the deadline is not waited for.
    carrier.misbehave("refuse", message=LOOK_UP, times=PENDING)
    for _ in range(PENDING):
        assert issue(gateway, customer.token, request(wp_code)).code == 101
    assert gateway.stop() == 0
    age_past_deadline(store, PATIENT["deadline_ms"])
    store.run(f"UPDATE carrier_link SET deadline_ms = {_LOOK_UP_MS}")

    async def run(
        test: Callable[[ReconcilerParts], Awaitable[None]], database: OpenDatabase
    ) -> None:
        clock = Clock()
        vault = load_vault(key_path(store.url, store.key_file))
        remotes = Remotes(open_client(), clock)

        async def connector() -> Connector:
            opened = await find_link(database, vault.sealer, wp_code)
            assert opened is not None
            link = replace(opened.link, deadline_ms=PATIENT["deadline_ms"])
            patient = OpenedCarrierLink(link, opened.secret)
            return remotes.connector(await known_carrier(database, wp_code), patient)

        reconciler = Reconciler(database, remotes, vault, RUNTIME)
        try:
            await test(ReconcilerParts(reconciler, remotes, clock, carrier, wp_code, connector))
        finally:
            await remotes.close()

    return InLoop(lambda test: store.do(partial(run, test)))


async def test_what_gets_no_answer_shuts_no_carrier_and_takes_no_probe(
    parts: ReconcilerParts, carrier: FakeCarrier
) -> None:
    carrier.misbehave("cut_before_commit", message=LOOK_UP)
    for _ in range(2):
        assert await parts.settle() == [Outcome.NO_ANSWER] * PENDING
    assert isinstance(await parts.issue(), Issued)

    carrier.misbehave("cut_before_commit", message=ISSUE, times=5)
    for _ in range(5):
        with pytest.raises(OutcomeUnknownError):
            await parts.issue()
    # Nothing at all is sent to a carrier that is shut.
    asked = carrier.received(LOOK_UP)
    assert parts.state is State.OPEN
    assert await parts.settle() == [Outcome.NO_ANSWER] * PENDING
    assert carrier.received(LOOK_UP) == asked

    parts.clock.now_s += PAUSE_S
    assert await parts.settle() == [Outcome.NO_ANSWER] * PENDING
    assert carrier.received(LOOK_UP) > asked
    assert isinstance(await parts.issue(), Issued)
    assert parts.state is State.CLOSED


async def test_without_calls_what_is_pending_is_settled_all_the_same(
    parts: ReconcilerParts, carrier: FakeCarrier
) -> None:
    carrier.misbehave("cut_before_commit", message=ISSUE, times=5)
    for _ in range(5):
        with pytest.raises(OutcomeUnknownError):
            await parts.issue()
    parts.clock.now_s += PAUSE_S
    assert await parts.settle() == [Outcome.ISSUED] * PENDING


async def test_a_round_that_ends_early_is_continued_and_does_not_begin_with_the_same_waybill(
    parts: ReconcilerParts, carrier: FakeCarrier, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each round has time for one waybill.
    monkeypatch.setattr(reconciling, "_ROUND_S", -1)
    carrier.misbehave("refuse", message=LOOK_UP)
    asked = []
    for _ in range(2 * PENDING):
        (finding,) = await parts.reconciler.settle_all()
        assert finding.outcome is Outcome.NO_ANSWER
        asked.append(finding.waybill.object_id)
    assert len(set(asked)) == PENDING
    assert asked[:PENDING] == asked[PENDING:]


async def test_an_order_behind_all_that_one_round_asks_for_can_be_decided(
    parts: ReconcilerParts, own_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconciling, "_AT_ONCE_MAX", 1)
    await asyncio.to_thread(age_pending, own_store)
    newest = "SELECT order_sn FROM waybill ORDER BY asked_at_s DESC, object_id DESC LIMIT 1"
    ((order_sn,),) = await asyncio.to_thread(own_store.run, newest)
    finding = await parts.reconciler.decide(order_sn, None, None, RUNTIME)
    assert (finding.waybill.order_sn, finding.outcome) == (order_sn, Outcome.GIVEN_UP)


async def test_of_equal_orders_of_several_shops_each_can_be_decided(
    parts: ReconcilerParts, own_store: Store
) -> None:
    await asyncio.to_thread(age_pending, own_store)
    equal = "order_sn = 'equal-01', owner_id = object_id"
    await asyncio.to_thread(own_store.run, f"UPDATE waybill SET {equal}")
    with pytest.raises(CarrierError) as error:
        await parts.reconciler.decide("equal-01", parts.wp_code, None, RUNTIME)
    ids = await asyncio.to_thread(own_store.run, "SELECT object_id FROM waybill")
    assert len(ids) == PENDING
    for (object_id,) in ids:
        assert object_id in str(error.value)
        finding = await parts.reconciler.decide(object_id, None, None, RUNTIME)
        assert finding.outcome is Outcome.GIVEN_UP
        assert finding.waybill.object_id == object_id


async def test_what_is_dated_ahead_and_has_a_link_that_cannot_be_opened_stops_no_other(
    parts: ReconcilerParts, own_store: Store
) -> None:
    await asyncio.to_thread(age_pending, own_store, -3600)
    altered = "UPDATE carrier_link SET url = 'https://elsewhere.example'"
    await asyncio.to_thread(own_store.run, altered)
    assert await parts.settle() == [Outcome.FAILED] * PENDING


async def test_what_the_operator_decides_is_reported_to_the_caller(
    parts: ReconcilerParts, own_store: Store, carrier: FakeCarrier
) -> None:
    await asyncio.to_thread(age_pending, own_store)
    rows = await asyncio.to_thread(own_store.run, "SELECT account_id, order_sn FROM waybill")
    (account_id, first), (_, second), *_ = rows
    sealer = open_sealer(own_store.url, own_store.key_file)

    async def add(database: Database) -> None:
        await add_endpoint(database, sealer, RUNTIME, account_id, "https://shop.example", 0)

    await asyncio.to_thread(own_store.do, add)
    number = carrier.issued()[0]
    await parts.reconciler.decide(first, None, number, RUNTIME)
    await parts.reconciler.decide(second, None, None, RUNTIME)
    bodies = "SELECT type, body FROM webhook_delivery ORDER BY number"
    found = [
        (kind, json.loads(body)["data"])
        for kind, body in await asyncio.to_thread(own_store.run, bodies)
    ]
    assert [(kind, data["order_sn"], data["outcome"], data["number"]) for kind, data in found] == [
        ("waybill.settled", first, "issued", number),
        ("waybill.settled", second, "given_up", None),
    ]


def test_a_store_that_fails_leaves_no_work_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """What goes on unseen would use a database that may be closed by then."""
    ended: list[str] = []

    async def pending(_: Database) -> list[str]:
        return ["fails", "goes on"]

    async def settle_of(_: Reconciler, wp_code: str) -> list[Finding]:
        if wp_code == "fails":
            raise StoreUnavailableError("away")
        await asyncio.sleep(0.01)
        ended.append(wp_code)
        return []

    async def work() -> None:
        nothing = cast(Any, None)
        with pytest.raises(StoreUnavailableError):
            await Reconciler(nothing, nothing, nothing, RUNTIME).settle_all()
        assert len(asyncio.all_tasks()) == 1

    monkeypatch.setattr(reconciling, "carriers_pending", pending)
    monkeypatch.setattr(Reconciler, "_settle_of", settle_of)
    asyncio.run(work())
    assert ended == ["goes on"]

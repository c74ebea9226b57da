"""Webhooks, from what happens in the gateway to a receiver that checks the signature."""

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.engines import Engine
from tests.support.fake_carrier import FakeCarrier
from tests.support.gateway import Gateway
from tests.support.ledger import RUNTIME, Caller, new_caller
from tests.support.owners import authorize, shop
from tests.support.remote import eventually, left_pending
from tests.support.stores import Store
from tests.support.webhooks import Received, Receiver, WatchfulGateway
from tollway.consent.grants import grants_of_account, revoke_grant
from tollway.ledger.runtime import Runtime
from tollway.operations.catalogue import BY_NAME
from tollway.store.database import Database
from tollway.store.open import open_sealer
from tollway.webhooks.delivery import RETRY_AFTER_S
from tollway.webhooks.endpoints import ENDPOINTS_MAX, add_endpoint
from tollway.webhooks.events import EVENT_TYPES, Event, record_event
from tollway.webhooks.polled_events import watch
from tollway_client import Client, errors
from tollway_client.webhooks import verify

ORDERS = BY_NAME["orders"]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, engine: Engine) -> Iterator[Gateway]:
    store = Store(tmp_path_factory.mktemp("webhooks") / "tollway.db")
    gateway = WatchfulGateway(store, webhook_internal_hosts="127.0.0.1, other.internal")
    yield gateway
    assert gateway.stop() == 0


@pytest.fixture
def caller(served: Gateway) -> Caller:
    return new_caller(served.store, operations=(ORDERS,), credits_=100, rate_limit=1000)


@pytest.fixture
def client(served: Gateway, caller: Caller) -> Iterator[Client]:
    with Client(caller.token, served.base_url) as made:
        yield made


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()
    # What the reference shows has the fields that really come.
    for each in made.received:
        content = json.loads(each.body)
        if content["type"] != "webhook.test":
            kind, data = EVENT_TYPES[content["type"]], content["data"]
            assert data.keys() == kind.example.keys()
            assert {name for name in data if data[name] is None} <= {*kind.nullable}


def _types(receiver: Receiver) -> list[str]:
    return [json.loads(each.body)["type"] for each in receiver.received]


def _hurry(store: Store) -> None:
    """The next attempts are due now."""
    store.run("UPDATE webhook_delivery SET next_at_ms = 0 WHERE state = 'waiting'")


def _record(store: Store, *events: Event) -> None:
    async def work(database: Database) -> None:
        for event in events:
            await database.write(lambda tx, event=event: record_event(tx, RUNTIME, event))

    store.do(work)


def test_consents_and_low_balances_are_reported_and_signed(
    served: Gateway, client: Client, caller: Caller, receiver: Receiver
) -> None:
    made = client.account.webhooks_make(url=receiver.url)
    client.account.alerts_set(unit="credits", below=100)
    owner = shop("880012077")
    served.store.do(lambda database: authorize(database, caller.account_id, ORDERS, owner))

    async def revoke(database: Database) -> None:
        for each in await grants_of_account(database, caller.account_id):
            await revoke_grant(database, RUNTIME, each.grant.id)

    client.orders(owner_id=owner.id)
    served.store.do(revoke)
    eventually(lambda: set(_types(receiver)), lambda seen: len(seen) == 3)
    events = [verify(each.body, each.headers, made.secret) for each in receiver.received]
    by_type = {each.type: each.data for each in events}
    assert by_type["balance.low"] == {"unit": "credits", "left": 99, "below": 100}
    assert by_type["consent.given"]["owner_id"] == owner.id
    order = [each.type for each in events if each.type.startswith("consent")]
    assert order == ["consent.given", "consent.revoked"]
    with pytest.raises(errors.SignatureError):
        verify(receiver.received[0].body + b" ", receiver.received[0].headers, made.secret)


def test_an_export_that_was_paid_is_reported_once(
    served: Gateway, client: Client, caller: Caller, receiver: Receiver
) -> None:
    owner = shop("880012078")
    served.store.do(lambda database: authorize(database, caller.account_id, ORDERS, owner))
    made = client.account.webhooks_make(url=receiver.url)
    window = {"owner_id": owner.id, "start_time": "2026-01-01", "end_time": "2026-02-01"}
    sent = {"token": caller.token, "headers": {"Idempotency-Key": "one export"}}
    answer = served.post_json(f"{ORDERS.path}/export", window, **sent)
    assert answer.data["withholding_money"] == 1
    # A repetition, a dry run and a refusal report nothing.
    assert served.post_json(f"{ORDERS.path}/export", window, **sent).data["withholding_money"] == 0
    dry = {"X-Tollway-Dry-Run": "1"}
    served.post_json(f"{ORDERS.path}/export", window, token=caller.token, headers=dry)
    backwards = {**window, "end_time": "2025-01-01"}
    assert served.post_json(f"{ORDERS.path}/export", backwards, token=caller.token).code == 100
    client.account.webhooks_test()
    eventually(lambda: set(_types(receiver)), lambda seen: "webhook.test" in seen)
    eventually(lambda: set(_types(receiver)), lambda seen: "export.ready" in seen)
    (ready,) = (each for each in receiver.received if b"export.ready" in each.body)
    event = verify(ready.body, ready.headers, made.secret)
    assert event.data["request_id"] == answer.headers["x-request-id"]
    names = ("export_id", "records", "download_url", "expires_at", "cursor")
    assert {name: event.data[name] for name in names} == {name: answer.data[name] for name in names}


def test_a_failed_one_is_tried_again_and_holds_up_its_subject_alone(
    served: Gateway, client: Client, caller: Caller, receiver: Receiver
) -> None:
    made = client.account.webhooks_make(url=receiver.url)
    receiver.answer = lambda found: 500 if b'"n":1' in found.body else 200
    account = caller.account_id
    _record(
        served.store,
        Event(account, "webhook.test", "a", {"n": 1}),
        Event(account, "webhook.test", "a", {"n": 2}),
        Event(account, "webhook.test", "b", {"n": 3}),
    )
    eventually(lambda: len(receiver.received), lambda count: count >= 2)
    seen = [json.loads(each.body)["data"]["n"] for each in receiver.received]
    assert 2 not in seen and {1, 3} <= set(seen)
    receiver.answer = lambda _: 200
    _hurry(served.store)
    eventually(lambda: receiver.received[-1].body, lambda body: b'"n":2' in body)
    firsts = [each for each in receiver.received if b'"n":1' in each.body]
    assert len({each.headers["webhook-id"] for each in firsts}) == 1 and len(firsts) >= 2

    def log() -> list[tuple[int, str]]:
        listed = client.account.webhooks_deliveries(webhook_id=made.endpoint.id).deliveries
        return [(each.number, each.state) for each in listed]

    eventually(log, lambda seen: seen == [(3, "delivered"), (2, "delivered"), (1, "delivered")])
    event_id = firsts[0].headers["webhook-id"]
    client.account.webhooks_redeliver(webhook_id=made.endpoint.id, event_id=event_id)
    eventually(
        lambda: sum(each.headers["webhook-id"] == event_id for each in receiver.received),
        lambda count: count == len(firsts) + 1,
    )


def test_a_test_event_does_not_wait_for_one_that_failed(client: Client, receiver: Receiver) -> None:
    client.account.webhooks_make(url=receiver.url)
    ids: list[str] = []

    def answer(found: Received) -> int:
        ids.append(found.headers["webhook-id"])
        return 500 if ids[-1] == ids[0] else 204

    receiver.answer = answer
    client.account.webhooks_test()
    eventually(lambda: len(ids), lambda count: count > 0)
    client.account.webhooks_test()
    eventually(lambda: len({*ids}), lambda count: count == 2)


def test_to_a_webhook_that_ended_nothing_is_sent_again_and_its_log_stays(
    client: Client, receiver: Receiver
) -> None:
    webhook_id = client.account.webhooks_make(url=receiver.url).endpoint.id
    client.account.webhooks_test()

    def log() -> list[str]:
        listed = client.account.webhooks_deliveries(webhook_id=webhook_id).deliveries
        return [each.state for each in listed]

    eventually(log, lambda seen: seen == ["delivered"])
    client.account.webhooks_end(webhook_id=webhook_id)
    event_id = receiver.received[0].headers["webhook-id"]
    with pytest.raises(errors.NotFoundError):
        client.account.webhooks_redeliver(webhook_id=webhook_id, event_id=event_id)
    assert log() == ["delivered"]


def test_one_of_a_clock_that_was_far_ahead_is_delivered_when_the_clock_is_right(
    served: Gateway, client: Client, caller: Caller, receiver: Receiver
) -> None:
    client.account.webhooks_make(url=receiver.url)
    ahead = Runtime(now_s=lambda: time.time() + 10 * 365 * 86_400)
    event = Event(caller.account_id, "webhook.test", "a", {"n": 1})
    served.store.do(lambda database: database.write(lambda tx: record_event(tx, ahead, event)))
    _record(served.store, Event(caller.account_id, "webhook.test", "a", {"n": 2}))
    eventually(lambda: len(receiver.received), lambda count: count == 2)
    assert [json.loads(each.body)["data"]["n"] for each in receiver.received] == [1, 2]


def test_it_is_given_up_after_three_days_and_the_next_one_follows(
    served: Gateway, client: Client, caller: Caller, receiver: Receiver
) -> None:
    assert 3 * 86_400 - 7200 < sum(RETRY_AFTER_S) < 3 * 86_400 + 7200
    made = client.account.webhooks_make(url=receiver.url)
    receiver.answer = lambda found: 500 if b'"n":1' in found.body else 200
    account = caller.account_id
    _record(served.store, *(Event(account, "webhook.test", "a", {"n": n}) for n in (1, 2)))
    eventually(lambda: len(receiver.received), lambda count: count >= 1)
    # As if all attempts but the last had been made.
    served.store.run(
        f"UPDATE webhook_delivery SET attempts = {len(RETRY_AFTER_S)}, next_at_ms = 0"
        f" WHERE state = 'waiting' AND number = 1 AND endpoint_id = '{made.endpoint.id}'"
    )
    eventually(lambda: receiver.received[-1].body, lambda body: b'"n":2' in body)
    log = client.account.webhooks_deliveries(webhook_id=made.endpoint.id).deliveries
    assert (log[1].state, log[1].status) == ("failed", 500)
    whole = client.account.webhooks_deliveries(webhook_id=made.endpoint.id, limit=len(log))
    assert whole.next_before is None


def test_one_whose_secret_cannot_be_read_is_given_up_in_the_end(
    served: Gateway, client: Client, caller: Caller, receiver: Receiver
) -> None:
    made, other = (client.account.webhooks_make(url=receiver.url) for _ in range(2))
    client.account.webhooks_end(webhook_id=other.endpoint.id)
    # Sealed for another record, it opens as little as after the loss of its key.
    served.store.run(
        "UPDATE webhook_endpoint SET sealed_secrets = (SELECT sealed_secrets FROM webhook_endpoint"
        f" WHERE id = '{other.endpoint.id}') WHERE id = '{made.endpoint.id}'"
    )
    _record(served.store, Event(caller.account_id, "webhook.test", "a", {"n": 1}))
    its = f"state = 'waiting' AND endpoint_id = '{made.endpoint.id}'"
    served.store.run(
        f"UPDATE webhook_delivery SET attempts = {len(RETRY_AFTER_S)}, next_at_ms = 0 WHERE {its}"
    )
    (state,) = eventually(
        lambda: [
            each.state
            for each in client.account.webhooks_deliveries(webhook_id=made.endpoint.id).deliveries
        ],
        lambda states: states == ["failed"],
    )
    assert state == "failed" and not receiver.received


def test_while_a_secret_is_replaced_both_sign(client: Client, receiver: Receiver) -> None:
    made = client.account.webhooks_make(url=receiver.url)
    new = client.account.webhooks_rotate(webhook_id=made.endpoint.id).secret
    client.account.webhooks_test()
    eventually(lambda: len(receiver.received), lambda count: count == 1)
    (found,) = receiver.received
    for secret in (made.secret, new):
        assert verify(found.body, found.headers, secret).type == "webhook.test"
    client.account.webhooks_end(webhook_id=made.endpoint.id)
    client.account.webhooks_test()
    with pytest.raises(errors.NotFoundError):
        client.account.webhooks_end(webhook_id=made.endpoint.id)
    assert len(receiver.received) == 1


@pytest.mark.parametrize(
    "url",
    [
        "http://gateway.example/hook",
        "https://localhost/hook",
        "https://10.1.2.3/hook",
        "https://169.254.169.254/latest",
        "https://[::1]/hook",
        "https://[::ffff:10.0.0.1]/hook",
        "https://[64:ff9b::a00:1]/hook",
        "https://user:secret@127.0.0.1/hook",
        "https://0.0.0.0/",
        "https://2130706433/",
        "https:///hook",
        "ftp://127.0.0.1/hook",
        "no address",
    ],
)
def test_an_address_that_is_internal_or_not_https_is_refused(client: Client, url: str) -> None:
    with pytest.raises(errors.ParameterError, match="url"):
        client.account.webhooks_make(url=url)


def test_why_an_address_is_refused_is_said_in_both_languages(
    served: Gateway, caller: Caller
) -> None:
    said = {}
    for language in ("en", "zh"):
        headers = {"Authorization": f"Bearer {caller.token}", "Accept-Language": language}
        answer = httpx.post(
            f"{served.base_url}/account/v1/webhooks/make",
            json={"url": "http://hooks.example/"},
            headers=headers,
        )
        said[language] = answer.json()["msg"]
    assert said["en"].startswith("Parameter url is not valid: it is not https. Send an https ")
    assert said["zh"].startswith("参数 url 无效：不是 https。请传入可从公网访问的 https 地址")


def test_an_alert_for_no_balance_names_those_that_there_are(client: Client) -> None:
    said = "unit is not valid: there is no such balance. Send calls:product_analysis or credits."
    with pytest.raises(errors.ParameterError, match=said):
        client.account.alerts_set(unit="fen", below=1)


def test_secrets_are_stored_sealed(served: Gateway, client: Client, receiver: Receiver) -> None:
    secret = client.account.webhooks_make(url=receiver.url).secret
    assert secret.removeprefix("whsec_").encode() not in served.store.content()


def test_a_balance_that_is_low_before_there_is_a_webhook_is_reported_to_the_first(
    served: Gateway, client: Client, receiver: Receiver
) -> None:
    client.account.alerts_set(unit="credits", below=1000)
    # The gateway looks for itself too; it reports the same once.
    served.store.do(lambda database: watch(database, RUNTIME))
    client.account.webhooks_make(url=receiver.url)
    served.store.do(lambda database: watch(database, RUNTIME))
    eventually(lambda: _types(receiver), lambda seen: seen == ["balance.low"])


def test_what_expires_soon_is_reported_once(served: Gateway, receiver: Receiver) -> None:
    short = new_caller(served.store, lifetime_s=3600)
    with Client(short.token, served.base_url) as client:
        client.account.webhooks_make(url=receiver.url)
    eventually(lambda: _types(receiver), lambda seen: seen == ["token.expiring"])


def test_a_waybill_that_waited_for_its_carrier_is_reported_when_it_is_settled(
    tmp_path: Path, receiver: Receiver
) -> None:
    store, carrier = Store(tmp_path / "tollway.db"), FakeCarrier(tmp_path)
    customer, body = left_pending(store, carrier, "cut_after_commit")

    async def add(database: Database) -> None:
        sealer = open_sealer(store.url, store.key_file)
        await add_endpoint(database, sealer, RUNTIME, customer.account_id, receiver.url, 0)

    store.do(add)
    gateway = Gateway(store, webhook_internal_hosts="127.0.0.1", reconcile_interval_s=1)
    eventually(lambda: _types(receiver), lambda seen: seen == ["waybill.settled"])
    data = json.loads(receiver.received[0].body)["data"]
    assert (data["outcome"], data["order_sn"]) == ("issued", body["order_sn"])
    assert [data["number"]] == carrier.issued()
    assert gateway.stop() == 0
    assert carrier.stop() == 0


def test_receivers_that_hang_delay_no_other_account(served: Gateway, client: Client) -> None:
    over = threading.Event()

    def hang(_: Received) -> int:
        over.wait()
        return 200

    hanging, receiver = Receiver(hang), Receiver()
    slow = new_caller(served.store, rate_limit=1000)
    with Client(slow.token, served.base_url) as other:
        for _ in range(ENDPOINTS_MAX):
            other.account.webhooks_make(url=hanging.url)
    # More than are sent, or looked at, at once.
    events = (Event(slow.account_id, "webhook.test", f"{n}", {"n": n}) for n in range(40))
    _record(served.store, *events)
    eventually(lambda: len(hanging.received), lambda count: count >= ENDPOINTS_MAX)
    client.account.webhooks_make(url=receiver.url)
    client.account.webhooks_test()
    eventually(lambda: _types(receiver), lambda seen: seen == ["webhook.test"])
    over.set()
    hanging.close()
    receiver.close()
    with Client(slow.token, served.base_url) as other:
        for each in other.account.webhooks().webhooks:
            other.account.webhooks_end(webhook_id=each.id)

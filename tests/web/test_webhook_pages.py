"""The webhooks of an account on its members' pages: the same rules as the account API."""

import html
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.support.browsers import Browser, open_until, shown_secret
from tests.support.engines import Engine
from tests.support.gateway import Gateway
from tests.support.ledger import RUNTIME, Caller, new_caller
from tests.support.members import entered
from tests.support.remote import eventually
from tests.support.stores import Store
from tests.support.webhooks import Receiver, WatchfulGateway
from tollway.identity.people import Role
from tollway.ledger.accounts import close_account
from tollway.store.open import open_sealer
from tollway.webhooks.endpoints import ENDPOINTS_MAX, add_endpoint
from tollway_client.webhooks import verify

PAGE = "/account/webhooks"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, engine: Engine) -> Store:
    """Another than the shared one, which its own gateway serves."""
    return Store(tmp_path_factory.mktemp("webhook_pages") / "tollway.db")


@pytest.fixture(scope="module")
def gateway(store: Store) -> Iterator[Gateway]:
    """One that delivers at once, also to this machine."""
    started = WatchfulGateway(store, webhook_internal_hosts="127.0.0.1")
    yield started
    assert started.stop() == 0


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


@dataclass
class Endpoint:
    """A webhook that a page has added."""

    id: str
    secret: str


def _add(member: Browser, url: str) -> Endpoint:
    member.open(PAGE)
    page = member.send(f"{PAGE}/add", url=url).text
    found = re.search(rf'webhook_id=(\w+)">{re.escape(html.escape(url))}<', page)
    assert found is not None
    return Endpoint(found[1], shown_secret(page))


def _count(store: Store, caller: Caller, counted: str) -> int:
    rows = store.run(
        f"SELECT number FROM account_day WHERE account_id = '{caller.account_id}' "
        f"AND counted = '{counted}'"
    )
    return int(rows[0][0]) if rows else 0


def _fill(store: Store, caller: Caller, counted: str, most: int) -> None:
    store.run(
        f"UPDATE account_day SET number = {most} WHERE account_id = '{caller.account_id}' "
        f"AND counted = '{counted}'"
    )


def test_a_webhook_is_added_tested_rotated_and_removed(
    gateway: Gateway, store: Store, member: Browser, caller: Caller, receiver: Receiver
) -> None:
    assert "There is no webhook yet: add the first below." in member.open(PAGE).text
    assert "Send a test event" not in member.page
    made = _add(member, receiver.url)
    # The same form again adds no other: each event would come twice.
    answer = member.send(f"{PAGE}/add", url=receiver.url)
    assert answer.status_code == 409 and "There is a webhook with this address" in answer.text
    # The secret is shown once, and never again.
    assert made.secret.startswith("whsec_") and made.secret not in member.open(PAGE).text
    assert "A test event is on its way" in member.send(f"{PAGE}/test").text
    eventually(lambda: len(receiver.received), lambda count: count == 1)
    (first,) = receiver.received
    assert verify(first.body, first.headers, made.secret).type == "webhook.test"
    log = f"/account/webhook?webhook_id={made.id}"
    page = open_until(member, log, "delivered")
    assert "HTTP 204" in page and "webhook.test" in page and "active" in page
    # The API knows the same webhook.
    (listed,) = gateway.get("/account/v1/webhooks", token=caller.token).data["webhooks"]
    assert (listed["id"], listed["url"]) == (made.id, receiver.url)

    (ask,) = re.findall(r'href="(/account/webhook/rotate[^"]*)"', member.open(PAGE).text)
    assert "signs too for a day" in member.open(html.unescape(ask)).text
    asked = member.hidden()
    secret = shown_secret(member.send("/account/webhook/rotate").text)
    # The same form again makes no other secret, which would end the first one.
    again = member.client.post("/account/webhook/rotate", data=asked)
    assert again.status_code == 409 and "changed meanwhile" in again.text
    assert _count(store, caller, "secrets") == 1
    member.open(PAGE)
    member.send(f"{PAGE}/test")
    eventually(lambda: len(receiver.received), lambda count: count == 2)
    for each in (secret, made.secret):
        verify(receiver.received[1].body, receiver.received[1].headers, each)

    (ask,) = re.findall(r'href="(/account/webhook/remove[^"]*)"', member.open(PAGE).text)
    assert "Are you sure?" in member.open(html.unescape(ask)).text
    assert "nothing more is sent to it" in member.send("/account/webhook/remove").text
    assert "not in use" in member.page and "Send a test event" not in member.page
    answer = member.send(f"{PAGE}/test")
    assert answer.status_code == 409 and "There is no webhook" in answer.text
    assert member.open(log).status_code == 200
    # All of it is in the trail, without a secret.
    acts = store.run(
        f"SELECT act, after FROM operator_act WHERE subject = 'account {caller.account_id}' "
        "AND act LIKE 'webhook%' ORDER BY number"
    )
    assert [act for act, _ in acts] == ["webhook add", "webhook rotate", "webhook end"]
    assert "whsec_" not in str(acts)


def test_failures_are_shown_and_an_event_is_sent_again(member: Browser, receiver: Receiver) -> None:
    receiver.answer = lambda _: 500
    made = _add(member, receiver.url)
    member.send(f"{PAGE}/test")
    log = f"/account/webhook?webhook_id={made.id}"
    page = open_until(member, log, "HTTP 500")
    assert "waiting" in page and "last event is retried" in page
    assert "last event is retried" in member.open(PAGE).text
    member.client.headers["accept-language"] = "zh"
    page = member.open(PAGE).text
    assert "最近事件重试中" in page and "更换密钥" in page and "添加回调" in page
    assert "等待中" in member.open(log).text
    del member.client.headers["accept-language"]
    receiver.answer = lambda _: 204
    (ask,) = re.findall(r'href="(/account/webhook/again[^"]*)"', member.open(log).text)
    member.open(html.unescape(ask))
    assert "on its way again" in member.send("/account/webhook/again").text
    assert "last event is retried" not in open_until(member, log, "delivered")
    ids = {each.headers["webhook-id"] for each in receiver.received}
    assert len(receiver.received) >= 2 and len(ids) == 1


def test_an_address_that_may_not_be_is_refused_at_its_field_and_counted(
    store: Store, member: Browser, caller: Caller
) -> None:
    member.open(PAGE)
    for url, problem in (
        ("http://shop.example/", "it is not https"),
        ("https://localhost/", "it leads to an internal address"),
        ("", "it has no host"),
    ):
        answer = member.send(f"{PAGE}/add", url=url)
        assert answer.status_code == 409 and problem in answer.text
        # What was typed is kept.
        assert f'value="{url}"' in answer.text
    assert _count(store, caller, "refused_hosts") == 1
    _fill(store, caller, "refused_hosts", 50)
    answer = member.send(f"{PAGE}/add", url="https://localhost/")
    assert answer.status_code == 409 and "daily limit" in answer.text
    assert "internal address" not in answer.text


def test_an_address_that_is_too_long_is_refused_and_not_cut(member: Browser) -> None:
    """Cut to the length of its field, it would be another address."""
    url = f"https://shop.example/?key={'k' * 600}"
    found = re.search(r'name="url"[^>]* maxlength="(\d+)"', member.open(PAGE).text)
    assert found is not None and int(found[1]) >= len(url)
    answer = member.send(f"{PAGE}/add", url=url)
    assert answer.status_code == 409 and "over 500 characters" in answer.text
    # Not parsed whole, which would take the event loop as long as dozens of calls.
    answer = member.send(f"{PAGE}/add", url=f"https://shop.example/{'k' * 70_000}")
    assert answer.status_code == 409 and "over 500 characters" in answer.text


def test_the_limits_are_those_of_the_api(
    store: Store, member: Browser, caller: Caller, receiver: Receiver
) -> None:
    sealer = open_sealer(store.url, store.key_file)

    async def fill(database):  # type: ignore[no-untyped-def]
        for number in range(ENDPOINTS_MAX - 1):
            url = f"{receiver.url}?{number}"
            await add_endpoint(database, sealer, RUNTIME, caller.account_id, url, 0)

    store.do(fill)
    made = _add(member, receiver.url)
    answer = member.send(f"{PAGE}/add", url=f"{receiver.url}?another")
    assert answer.status_code == 409 and "end one first" in answer.text
    member.send(f"{PAGE}/test")
    _fill(store, caller, "events", 200)
    assert "daily limit" in member.send(f"{PAGE}/test").text
    store.run(
        "INSERT INTO account_day (account_id, counted, day_start_s, number) VALUES "
        f"('{caller.account_id}', 'secrets', {int(time.time())}, 50)"
    )
    answer = member.send("/account/webhook/rotate", webhook_id=made.id, sure="yes")
    assert answer.status_code == 409 and "daily limit" in answer.text


def test_a_reader_sees_webhooks_and_changes_none_and_a_closed_account_has_no_acts(
    gateway: Gateway, store: Store, member: Browser, receiver: Receiver
) -> None:
    caller = new_caller(store)
    owner = entered(store, Browser(gateway), caller)
    made = _add(owner, receiver.url)
    reader = entered(store, member, caller, Role.READER)
    for path in (PAGE, f"/account/webhook?webhook_id={made.id}"):
        page = reader.open(path).text
        assert receiver.url in page and "New secret" not in page and "webhooks/add" not in page
    store.do(lambda database: close_account(database, RUNTIME, caller.account_id))
    page = owner.open(PAGE).text
    assert "This account is closed" in page and "webhooks/add" not in page
    answer = owner.send(f"{PAGE}/add", url=receiver.url)
    assert answer.status_code == 409 and "This account is closed" in answer.text
    for act in ("rotate", "remove", "again"):
        fields = {"webhook_id": made.id, "event_id": "evt_1", "sure": "yes"}
        assert owner.send(f"/account/webhook/{act}", **fields).status_code == 404
    owner.client.close()

"""Events while the receiver fails at random and the gateway is killed again and again."""

import json
import random
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from tests.support.ledger import RUNTIME, new_caller
from tests.support.stores import Store
from tests.support.webhooks import Received, Receiver, WatchfulGateway
from tollway.store.database import Database
from tollway.webhooks.events import Event, record_event
from tollway_client import Client
from tollway_client.webhooks import verify

_SUBJECTS = 20
_STALLED_MAX_S = 600
# Looked at when all have arrived.
_AGE_MAX_S = 86_400


def campaign(folder: Path, *, events: int, kills: int, seed: int) -> tuple[list[Received], str]:
    """Each event arrives, those of a subject in their order, repetitions with the same id. Returns
    what arrived, and the secret that it is signed with."""
    rng = random.Random(seed)
    store = Store(folder / "tollway.db")
    caller = new_caller(store)
    receiver = Receiver(lambda _: rng.choice((200, 200, 200, 500, 503)))
    gateway = WatchfulGateway(store, webhook_internal_hosts="127.0.0.1")
    with Client(caller.token, gateway.base_url) as client:
        secret = client.account.webhooks_make(url=receiver.url).secret

    async def record(database: Database, numbers: range) -> None:
        for n in numbers:
            event = Event(caller.account_id, "webhook.test", f"subject {n % _SUBJECTS}", {"n": n})
            await database.write(lambda tx, event=event: record_event(tx, RUNTIME, event))

    share = events // (kills + 1)
    for life in range(kills + 1):
        last = events if life == kills else (life + 1) * share
        numbers = range(life * share, last)
        store.do(lambda database, numbers=numbers: record(database, numbers))
        if life < kills:
            seen = len(receiver.received)
            _wait(
                store, receiver, lambda seen=seen: len(receiver.received) > seen + rng.randrange(5)
            )
            gateway.kill()
            gateway.stop()
            gateway = WatchfulGateway(store, webhook_internal_hosts="127.0.0.1")
    _wait(store, receiver, lambda: _waiting(store) == 0)
    assert gateway.stop() == 0
    receiver.close()
    check(receiver.received, secret, events)
    return receiver.received, secret


def _wait(store: Store, receiver: Receiver, is_over: Callable[[], bool]) -> None:
    """Waits, and has what failed tried again at once, also what a killed gateway had claimed."""
    arrived, deadline_s = -1, 0.0
    while not is_over():
        if len(receiver.received) > arrived:
            arrived, deadline_s = len(receiver.received), time.monotonic() + _STALLED_MAX_S
        assert time.monotonic() < deadline_s, "webhooks are not delivered"
        store.run(
            "UPDATE webhook_delivery SET next_at_ms = 0, attempts = 0 WHERE state = 'waiting'"
        )
        time.sleep(0.2)


def _waiting(store: Store) -> int:
    count = "SELECT count(*) FROM webhook_delivery WHERE state = 'waiting'"
    return int(store.run(count)[0][0])


def check(received: list[Received], secret: str, events: int) -> None:
    ids: dict[int, set[str]] = defaultdict(set)
    order: dict[int, list[int]] = defaultdict(list)
    for each in received:
        event = verify(each.body, each.headers, secret, tolerance_s=_AGE_MAX_S)
        n = json.loads(each.body)["data"]["n"]
        ids[n].add(event.id)
        if n not in order[n % _SUBJECTS]:
            order[n % _SUBJECTS].append(n)
    assert sorted(ids) == list(range(events)), "each arrives"
    assert all(len(each) == 1 for each in ids.values()), "a repetition has the same id"
    assert all(each == sorted(each) for each in order.values()), "those of a subject in order"

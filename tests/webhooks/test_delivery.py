"""One worker's deliveries, to a receiver in this process."""

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain, repeat
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.support.ledger import RUNTIME, new_caller
from tests.support.stores import Store
from tests.support.webhooks import Received, Receiver
from tollway.ledger.accounts import close_account
from tollway.ledger.runtime import Runtime
from tollway.store.database import Database, Reader, StoreUnavailableError
from tollway.store.open import open_sealer
from tollway.webhooks import delivery
from tollway.webhooks.addresses import Addresses
from tollway.webhooks.delivery import RETRY_AFTER_S, Deliverer
from tollway.webhooks.delivery_log import deliver_again
from tollway.webhooks.endpoints import add_endpoint, rotate_secret
from tollway.webhooks.events import Event, record_event

_TODAY_S = 20_000 * 86_400


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


@pytest.fixture
def one_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of a test is also that of the database."""

    async def own_ms(_: Reader, own_ms: int) -> int:
        return own_ms

    monkeypatch.setattr(delivery, "common_ms", own_ms)


class Worker:
    """Delivers what is due when it is asked to, and waits for the outcome."""

    def __init__(self, store: Store, receiver: Receiver) -> None:
        self._store, self._url = store, receiver.url
        self.sealer = open_sealer(store.url, store.key_file)

    def record(self, account_id: str, events: int = 1) -> None:
        """Events to a new webhook of the account."""

        async def work(database: Database) -> None:
            place = (account_id, self._url, _TODAY_S)
            await add_endpoint(database, self.sealer, RUNTIME, *place)
            event = Event(account_id, "webhook.test", "test", {})
            for _ in range(events):
                await database.write(lambda tx: record_event(tx, RUNTIME, event))

        self._store.do(work)

    def deliver(self, times: int = 1, runtime: Runtime = RUNTIME) -> None:
        async def work(database: Database) -> None:
            deliverer = Deliverer(database, self.sealer, Addresses(["127.0.0.1"]), runtime)
            for _ in range(times):
                await deliverer.deliver_due()
                await asyncio.gather(*deliverer._tasks)
            await deliverer.close()

        self._store.do(work)


def test_a_cookie_that_a_receiver_sets_goes_to_no_receiver_at_its_address(
    own_store: Store, receiver: Receiver
) -> None:
    worker = Worker(own_store, receiver)
    receiver.headers["set-cookie"] = "session=of-the-first; Path=/"
    # The second is of the same subject, so it is sent after the answer to the first.
    worker.record(new_caller(own_store).account_id, events=2)
    worker.deliver(times=2)
    assert len(receiver.received) == 2
    assert not any("cookie" in each.headers for each in receiver.received)


@pytest.mark.sqlite
def test_of_several_addresses_of_a_host_one_that_cannot_be_reached_is_passed_over(
    own_store: Store, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = ["127.0.0.9", "127.0.0.1"]
    monkeypatch.setattr("tollway.webhooks.addresses._addresses_of", lambda _: found)
    worker = Worker(own_store, receiver)
    worker.record(new_caller(own_store).account_id)
    worker.deliver()
    assert own_store.run("SELECT state FROM webhook_delivery") == [("delivered",)]
    assert len(receiver.received) == 1


def test_one_that_is_asked_for_again_during_its_last_attempt_is_sent_again(
    own_store: Store, receiver: Receiver
) -> None:
    worker, account_id = Worker(own_store, receiver), new_caller(own_store).account_id
    worker.record(account_id)
    own_store.run(f"UPDATE webhook_delivery SET attempts = {len(RETRY_AFTER_S)}")
    ((endpoint_id,),) = own_store.run("SELECT id FROM webhook_endpoint")

    def ask_again(found: Received) -> int:
        asked = (account_id, endpoint_id, found.headers["webhook-id"], RUNTIME.at_ms())
        receiver.answer = lambda _: 204
        assert own_store.do(lambda database: deliver_again(database, *asked))
        return 500

    receiver.answer = ask_again
    worker.deliver(times=2)
    assert own_store.run("SELECT state, attempts FROM webhook_delivery") == [("delivered", 1)]
    assert len(receiver.received) == 2


@pytest.mark.usefixtures("one_clock")
def test_a_claim_lasts_a_minute_also_if_it_was_made_late(
    own_store: Store, receiver: Receiver
) -> None:
    began_s = RUNTIME.at_s()
    # What is due was looked for at first; two minutes later it is claimed.
    times_s = chain([began_s], repeat(began_s + 120))
    leases_ms: list[int] = []

    def look(_: Received) -> int:
        leases_ms.extend(own_store.run("SELECT next_at_ms FROM webhook_delivery")[0])
        return 204

    receiver.answer = look
    worker = Worker(own_store, receiver)
    worker.record(new_caller(own_store).account_id)
    own_store.run("UPDATE webhook_delivery SET next_at_ms = 0")
    worker.deliver(runtime=Runtime(now_s=lambda: next(times_s)))
    assert leases_ms == [(began_s + 180) * 1000]


@pytest.mark.postgresql
def test_nodes_whose_clocks_are_days_apart_make_no_more_attempts_than_one(
    own_store: Store, receiver: Receiver
) -> None:
    worker = Worker(own_store, receiver)
    worker.record(new_caller(own_store).account_id)
    # The next attempt but one is half an hour later.
    own_store.run("UPDATE webhook_delivery SET attempts = 4")
    receiver.answer = lambda _: 500
    for _ in range(4):
        for ahead_s in (0, 3 * 86_400, -3 * 86_400):
            clock = Runtime(now_s=lambda ahead_s=ahead_s: time.time() + ahead_s)
            worker.deliver(runtime=clock)
    assert own_store.run("SELECT state, attempts FROM webhook_delivery") == [("waiting", 5)]


@pytest.mark.postgresql
def test_what_a_node_that_is_ahead_records_is_due_at_once(
    own_store: Store, receiver: Receiver
) -> None:
    worker, account_id = Worker(own_store, receiver), new_caller(own_store).account_id
    ahead = Runtime(now_s=lambda: time.time() + 3600)
    worker.record(account_id, events=0)
    event = Event(account_id, "webhook.test", "test", {})
    own_store.do(lambda database: database.write(lambda tx: record_event(tx, ahead, event)))
    worker.deliver()
    assert own_store.run("SELECT state FROM webhook_delivery") == [("delivered",)]


@pytest.mark.postgresql
def test_both_secrets_sign_after_a_node_that_is_a_day_behind_has_rotated(
    own_store: Store, receiver: Receiver
) -> None:
    worker, account_id = Worker(own_store, receiver), new_caller(own_store).account_id
    worker.record(account_id)
    ((endpoint_id,),) = own_store.run("SELECT id FROM webhook_endpoint")
    own = (Runtime(now_s=lambda: time.time() - 86_400), account_id, endpoint_id)
    own_store.do(lambda database: rotate_secret(database, worker.sealer, *own, _TODAY_S))
    worker.deliver()
    (received,) = receiver.received
    assert len(received.headers["webhook-signature"].split()) == 2


def test_to_an_account_that_is_closed_nothing_more_is_sent(
    own_store: Store, receiver: Receiver
) -> None:
    worker, account_id = Worker(own_store, receiver), new_caller(own_store).account_id
    worker.record(account_id)
    own_store.do(lambda database: close_account(database, RUNTIME, account_id))
    event = Event(account_id, "webhook.test", "test", {})
    own_store.do(lambda database: database.write(lambda tx: record_event(tx, RUNTIME, event)))
    worker.deliver()
    assert own_store.run("SELECT state FROM webhook_delivery") == [("failed",)]
    assert not receiver.received


def test_a_webhook_that_is_added_while_the_account_is_closed_gets_nothing(
    own_store: Store, receiver: Receiver
) -> None:
    worker, account_id = Worker(own_store, receiver), new_caller(own_store).account_id
    worker.record(account_id)
    own_store.do(lambda database: close_account(database, RUNTIME, account_id))
    # Its token was checked just before.
    worker.record(account_id)
    worker.deliver()
    assert own_store.run("SELECT state FROM webhook_delivery") == [("failed",)]
    assert not receiver.received


def test_an_attempt_that_the_end_of_the_worker_cuts_short_does_not_count(
    own_store: Store, receiver: Receiver
) -> None:
    worker, arrived, go_on = Worker(own_store, receiver), threading.Event(), threading.Event()

    def hang(_: Received) -> int:
        arrived.set()
        go_on.wait(10)
        return 500

    receiver.answer = hang
    worker.record(new_caller(own_store).account_id)

    async def work(database: Database) -> None:
        deliverer = Deliverer(database, worker.sealer, Addresses(["127.0.0.1"]), RUNTIME)
        begun = asyncio.create_task(deliverer.deliver_due())
        assert await asyncio.to_thread(arrived.wait, 10)
        begun.cancel()
        await deliverer.close()

    own_store.do(work)
    go_on.set()
    assert own_store.run("SELECT state, attempts FROM webhook_delivery") == [("waiting", 0)]
    receiver.answer = lambda _: 500
    # It is due at once: the worker that ended has let it go.
    worker.deliver()
    assert own_store.run("SELECT state, attempts FROM webhook_delivery") == [("waiting", 1)]


def test_a_claim_that_the_end_of_the_worker_cuts_short_does_not_count(
    own_store: Store, receiver: Receiver
) -> None:
    worker = Worker(own_store, receiver)
    worker.record(new_caller(own_store).account_id)

    class _Claiming(Deliverer):
        """Its claim is committed after it was stopped: a commit that has begun goes on."""

        begun, go_on = asyncio.Event(), asyncio.Event()
        commit: asyncio.Task[bool]

        async def _claim(self, *claim: Any) -> bool:
            async def commit() -> bool:
                self.begun.set()
                await self.go_on.wait()
                return await super(_Claiming, self)._claim(*claim)

            self.commit = asyncio.create_task(commit())
            return await asyncio.shield(self.commit)

    async def work(database: Database) -> None:
        deliverer = _Claiming(database, worker.sealer, Addresses(["127.0.0.1"]), RUNTIME)
        running = asyncio.create_task(deliverer.deliver_due())
        await deliverer.begun.wait()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        closing = asyncio.create_task(deliverer.close())
        deliverer.go_on.set()
        assert await deliverer.commit
        await closing

    own_store.do(work)
    assert own_store.run("SELECT state, attempts FROM webhook_delivery") == [("waiting", 0)]
    worker.deliver()
    assert own_store.run("SELECT state, attempts FROM webhook_delivery") == [("delivered", 1)]


def test_a_last_attempt_whose_outcome_is_not_stored_is_made_once_more(
    own_store: Store, receiver: Receiver
) -> None:
    worker = Worker(own_store, receiver)
    worker.record(new_caller(own_store).account_id)
    own_store.run(f"UPDATE webhook_delivery SET attempts = {len(RETRY_AFTER_S)}")

    class _Cut(Deliverer):
        async def _settle(self, *_: object) -> None:
            raise StoreUnavailableError("the database is away")

    async def work(database: Database) -> None:
        deliverer = _Cut(database, worker.sealer, Addresses(["127.0.0.1"]), RUNTIME)
        await deliverer.deliver_due()
        await asyncio.gather(*deliverer._tasks)
        await deliverer.close()

    own_store.do(work)
    assert len(receiver.received) == 1
    own_store.run("UPDATE webhook_delivery SET next_at_ms = 0")
    worker.deliver()
    assert own_store.run("SELECT state FROM webhook_delivery") == [("delivered",)]
    assert len({each.headers["webhook-id"] for each in receiver.received}) == 1


@pytest.mark.usefixtures("one_clock")
def test_one_that_ends_its_worker_each_time_is_given_up_in_the_end(
    own_store: Store, receiver: Receiver
) -> None:
    worker = Worker(own_store, receiver)
    worker.record(new_caller(own_store).account_id, events=2)
    now_s = [RUNTIME.at_s() + 1]
    runtime = Runtime(now_s=lambda: now_s[0])

    class _Dying(Deliverer):
        """Its process is killed during the attempt: nothing is settled, or given back."""

        async def _deliver(self, _: object) -> None: ...

    async def die(database: Database) -> None:
        await _Dying(database, worker.sealer, Addresses(["127.0.0.1"]), runtime).deliver_due()

    began_s, seen = now_s[0], []
    for _ in range(len(RETRY_AFTER_S) + 2):
        own_store.do(die)
        ((attempts, next_at_ms),) = own_store.run(
            "SELECT attempts, next_at_ms FROM webhook_delivery WHERE number = 1"
        )
        seen.append(attempts)
        # Until then no other worker takes it.
        now_s[0] = next_at_ms // 1000 + 1
    # One attempt more than if no answer had come, and over the same three days.
    assert seen == list(range(1, len(RETRY_AFTER_S) + 3))
    assert sum(RETRY_AFTER_S) <= now_s[0] - began_s < sum(RETRY_AFTER_S) + 300
    # It is given up unsent, and the next of its subject has its turn.
    worker.deliver(times=2, runtime=runtime)
    assert own_store.run("SELECT state, attempts FROM webhook_delivery ORDER BY number") == [
        ("failed", len(RETRY_AFTER_S) + 2),
        ("delivered", 1),
    ]
    assert len(receiver.received) == 1


@pytest.mark.sqlite
@pytest.mark.parametrize(
    "line", [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 100 Continue\r\n", b"more", b"\r\n"]
)
def test_an_answer_without_an_end_is_not_read_for_long(own_store: Store, line: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            connection, _ = listening.accept()
            with connection, suppress(OSError):
                while True:
                    connection.sendall(line * 1000)

        threading.Thread(target=answer, daemon=True).start()
        place = SimpleNamespace(url=f"http://127.0.0.1:{listening.getsockname()[1]}/hook")
        worker = Worker(own_store, cast(Receiver, place))
        worker.record(new_caller(own_store).account_id)
        began_s = time.monotonic()
        worker.deliver()
        # It is ended, and does not wait for the time limit.
        assert time.monotonic() - began_s < 10
    assert own_store.run("SELECT state, attempts FROM webhook_delivery") == [("waiting", 1)]


@pytest.mark.sqlite
def test_an_interim_answer_is_none(own_store: Store) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n")
                connection.sendall(b"HTTP/1.1 204\r\n\r\n")

        threading.Thread(target=answer, daemon=True).start()
        place = SimpleNamespace(url=f"http://127.0.0.1:{listening.getsockname()[1]}/hook")
        worker = Worker(own_store, cast(Receiver, place))
        worker.record(new_caller(own_store).account_id)
        worker.deliver()
    assert own_store.run("SELECT state FROM webhook_delivery") == [("delivered",)]

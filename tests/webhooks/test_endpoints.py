"""Endpoints: secrets that are rotated at once or by a wrong clock, or are broken, and their end."""

import asyncio
import time
from contextlib import suppress
from typing import Any

import pytest

from tests.support.ledger import RUNTIME, new_caller
from tests.support.stores import Store
from tollway.ledger import LedgerError
from tollway.ledger.creation_limits import count_today
from tollway.ledger.runtime import Runtime
from tollway.store.database import Database
from tollway.store.open import open_sealer
from tollway.webhooks import endpoints
from tollway.webhooks.addresses import Addresses
from tollway.webhooks.delivery import RETRY_AFTER_S, Deliverer
from tollway.webhooks.endpoints import (
    add_endpoint,
    end_endpoint,
    find_target,
    list_endpoints,
    rotate_secret,
    secrets_context,
)
from tollway.webhooks.events import Event, record_event
from tollway.webhooks.signature import key_of

_TODAY_S = 20_000 * 86_400
_URL = "https://93.184.216.34/hook"


def test_a_secret_that_was_changed_since_it_was_seen_is_not_changed_again(store: Store) -> None:
    sealer, account_id = open_sealer(store.url, store.key_file), new_caller(store).account_id

    async def work(database: Database) -> None:
        made = await add_endpoint(database, sealer, RUNTIME, account_id, _URL, _TODAY_S)
        seen, known = made.endpoint, (account_id, made.endpoint.id)
        new = await rotate_secret(database, sealer, RUNTIME, *known, _TODAY_S, seen=seen)
        with pytest.raises(LedgerError, match="changed meanwhile"):
            await rotate_secret(database, sealer, RUNTIME, *known, _TODAY_S, seen=seen)
        target = await find_target(database, sealer, *known, RUNTIME.at_s())
        assert target is not None
        assert target.keys == [key_of(each) for each in (str(new), made.secret)]

    store.do(work)


@pytest.mark.postgresql
def test_of_secrets_that_are_rotated_at_once_none_is_lost(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    sealer, account_id = open_sealer(store.url, store.key_file), new_caller(store).account_id

    async def work(database: Database) -> None:
        made = await add_endpoint(database, sealer, RUNTIME, account_id, _URL, _TODAY_S)
        own, both = (account_id, made.endpoint.id), asyncio.Barrier(2)

        async def count_together(*counted: Any) -> None:
            """Waits for the other rotation, unless that is locked out before it comes here."""
            with suppress(TimeoutError):
                async with asyncio.timeout(0.5):
                    await both.wait()
            await count_today(*counted)

        monkeypatch.setattr(endpoints, "count_today", count_together)
        new = await asyncio.gather(
            *(rotate_secret(database, sealer, RUNTIME, *own, _TODAY_S) for _ in range(2))
        )
        target = await find_target(database, sealer, *own, RUNTIME.at_s())
        assert target is not None
        # The second kept the first one's, and the one before them.
        assert {*target.keys} == {key_of(each or "") for each in (made.secret, *new)}

    store.do(work)


def test_each_secret_signs_for_a_day_also_if_the_next_one_is_replaced_too(store: Store) -> None:
    """Who lost the answer of a rotation, and rotates again, has the first secret in use."""
    sealer, account_id = open_sealer(store.url, store.key_file), new_caller(store).account_id
    day_s = 86_400

    async def work(database: Database) -> None:
        made = await add_endpoint(database, sealer, RUNTIME, account_id, _URL, _TODAY_S)
        secrets, own = [made.secret], (account_id, made.endpoint.id)

        async def rotated() -> None:
            secrets.insert(0, str(await rotate_secret(database, sealer, RUNTIME, *own, _TODAY_S)))

        async def signing(passed_s: int) -> list[bytes]:
            target = await find_target(database, sealer, *own, RUNTIME.at_s() + passed_s)
            assert target is not None
            return target.keys

        await rotated()
        await rotated()
        assert await signing(0) == list(map(key_of, secrets))
        assert await signing(day_s + 60) == [key_of(secrets[0])]
        for _ in range(endpoints.SIGNING_MAX):
            await rotated()
        assert await signing(0) == list(map(key_of, secrets[: endpoints.SIGNING_MAX]))

    store.do(work)


@pytest.mark.postgresql
@pytest.mark.parametrize("ahead_s", [-40 * 86_400, 40 * 86_400])
def test_the_times_of_an_endpoint_are_of_the_clock_of_all_nodes(store: Store, ahead_s: int) -> None:
    sealer, account_id = open_sealer(store.url, store.key_file), new_caller(store).account_id
    wrong = Runtime(now_s=lambda: time.time() + ahead_s)

    async def work(database: Database) -> None:
        made = await add_endpoint(database, sealer, wrong, account_id, _URL, _TODAY_S)
        own = (account_id, made.endpoint.id)
        assert await rotate_secret(database, sealer, wrong, *own, _TODAY_S)
        # The old secret signs for a day more, also on a node whose clock is right.
        for passed_s, keys in ((0, 2), (86_400 - 60, 2), (86_400 + 60, 1)):
            target = await find_target(database, sealer, *own, RUNTIME.at_s() + passed_s)
            assert target is not None and len(target.keys) == keys
        assert await end_endpoint(database, wrong, *own)
        # One that has ended just now is still shown when another is made.
        await add_endpoint(database, sealer, RUNTIME, account_id, _URL, _TODAY_S)
        ended = next(
            each for each in await list_endpoints(database, account_id) if each.id == own[1]
        )
        for at_s in (
            made.endpoint.made_at_s,
            ended.made_at_s,
            ended.rotated_at_s,
            ended.ended_at_s,
        ):
            assert at_s is not None and abs(at_s - RUNTIME.at_s()) < 60

    store.do(work)


def test_endpoints_that_ended_long_ago_go_when_the_account_makes_another(store: Store) -> None:
    sealer = open_sealer(store.url, store.key_file)
    account_id, other_id = (new_caller(store).account_id for _ in range(2))

    async def make(database: Database, of_account: str = account_id) -> str:
        made = await add_endpoint(database, sealer, RUNTIME, of_account, _URL, _TODAY_S)
        return made.endpoint.id

    async def listed(database: Database, of_account: str = account_id) -> set[str]:
        return {each.id for each in await list_endpoints(database, of_account)}

    active, lately, long_ago = (store.do(make) for _ in range(3))
    of_other = store.do(lambda database: make(database, other_id))
    for days, endpoint_id in ((29, lately), (31, long_ago), (31, of_other)):
        ended_at_s = RUNTIME.at_s() - days * 86_400
        store.run(
            f"UPDATE webhook_endpoint SET ended_at_s = {ended_at_s} WHERE id = '{endpoint_id}'"
        )
    last = store.do(make)
    assert store.do(listed) == {active, lately, last}
    assert store.do(lambda database: listed(database, other_id)) == {of_other}


def test_a_delivery_that_fails_unexpectedly_is_tried_later_and_given_up_in_the_end(
    own_store: Store,
) -> None:
    sealer = open_sealer(own_store.url, own_store.key_file)
    account_id = new_caller(own_store).account_id

    async def record(database: Database) -> None:
        await add_endpoint(database, sealer, RUNTIME, account_id, _URL, _TODAY_S)
        event = Event(account_id, "webhook.test", "test", {})
        await database.write(lambda tx: record_event(tx, RUNTIME, event))

    async def deliver(database: Database) -> None:
        deliverer = Deliverer(database, sealer, Addresses([]), RUNTIME)
        await deliverer.deliver_due()
        await asyncio.gather(*deliverer._tasks)
        await deliverer.close()

    def after(attempts: int) -> tuple[str, int]:
        """Its state, and in how many seconds it is tried again."""
        own_store.run(f"UPDATE webhook_delivery SET attempts = {attempts}, next_at_ms = 0")
        own_store.do(deliver)
        ((state, next_at_ms),) = own_store.run("SELECT state, next_at_ms FROM webhook_delivery")
        return state, int(next_at_ms) // 1000 - RUNTIME.at_s()

    own_store.do(record)
    # Something that no version of the gateway has written.
    ((endpoint_id,),) = own_store.run("SELECT id FROM webhook_endpoint")
    broken = sealer.seal(b"[", secrets_context(endpoint_id)).hex()
    literal = f"'\\x{broken}'" if own_store.is_shared else f"x'{broken}'"
    own_store.run(f"UPDATE webhook_endpoint SET sealed_secrets = {literal}")
    state, delay_s = after(5)
    assert state == "waiting" and delay_s > RETRY_AFTER_S[5] // 2
    state, _ = after(len(RETRY_AFTER_S))
    assert state == "failed"

"""Endpoints whose secrets are rotated at once, or are broken."""

import asyncio
import base64
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.support.ledger import RUNTIME, new_caller
from tests.support.stores import Store
from tollway.ledger.daily_limits import count_today
from tollway.ledger.runtime import Runtime
from tollway.store.database import Database
from tollway.store.open import open_sealer
from tollway.webhooks import endpoints
from tollway.webhooks.addresses import Addresses
from tollway.webhooks.delivering import RETRY_AFTER_S, Deliverer
from tollway.webhooks.endpoints import (
    add_endpoint,
    end_endpoint,
    find_target,
    list_endpoints,
    rotate_secret,
    secrets_context,
)
from tollway.webhooks.events import Event, record_event

_TODAY_S = 20_000 * 86_400
_URL = "https://93.184.216.34/hook"


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
        # The second kept the first one's: both sign, and the one before them no longer does.
        keys = {base64.b64decode((each or "").removeprefix("whsec_")) for each in new}
        assert len(target.keys) == 2 and keys.issuperset(target.keys)

    store.do(work)


def test_endpoints_that_ended_long_ago_go_when_the_account_makes_another(store: Store) -> None:
    sealer = open_sealer(store.url, store.key_file)
    account_id, other_id = (new_caller(store).account_id for _ in range(2))

    async def make(database: Database, of_account: str = account_id) -> str:
        made = await add_endpoint(database, sealer, RUNTIME, of_account, _URL, _TODAY_S)
        return made.endpoint.id

    async def work(database: Database) -> None:
        active, lately, long_ago = [await make(database) for _ in range(3)]
        of_other = await make(database, other_id)
        for days, endpoint_id in ((29, lately), (31, long_ago)):
            past = SimpleNamespace(at_s=lambda days=days: RUNTIME.at_s() - days * 86_400)
            assert await end_endpoint(database, cast(Runtime, past), account_id, endpoint_id)
        past = SimpleNamespace(at_s=lambda: RUNTIME.at_s() - 31 * 86_400)
        assert await end_endpoint(database, cast(Runtime, past), other_id, of_other)
        last = await make(database)
        left = {each.id for each in await list_endpoints(database, account_id)}
        assert left == {active, lately, last}
        assert [each.id for each in await list_endpoints(database, other_id)] == [of_other]

    store.do(work)


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

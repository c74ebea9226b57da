"""A revoked client: it gets no token, and none that it got is good for anything, on any node."""

import asyncio
import time
from pathlib import Path

import pytest
from sqlalchemy import text

from tests.support.clients import OwnClient, ask, assert_refused, new_client, obtain, revoke
from tests.support.gateway import Gateway
from tests.support.ledger import RUNTIME
from tests.support.stores import Store
from tollway.ledger import clients
from tollway.ledger import clients as client_tokens
from tollway.ledger.clients import obtain_token, recognise, revoke_client
from tollway.ledger.runtime import Runtime
from tollway.ledger.tokens import IssuedToken, list_tokens, revoke_token
from tollway.store.database import Database
from tollway.store.query import Query

WAITS_FOR_TURN = Query(text("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"))


def valid_tokens(store: Store, client: OwnClient) -> int:
    tokens = store.do(lambda database: list_tokens(database, client.caller.account_id))
    return sum(each.client_id == client.id and each.revoked_at_s is None for each in tokens)


def test_all_its_tokens_are_refused_everywhere_and_those_of_others_are_not(
    own_store: Store, nodes: list[Gateway], question: dict[str, str]
) -> None:
    client, other = (new_client(own_store, rate_limit=1_000_000, calls=100_000) for _ in range(2))
    tokens = [obtain(node, client) for node in nodes for _ in range(2)]
    spared = [obtain(nodes[0], other), client.caller.token]
    for node in nodes:
        for token in (*tokens, *spared):
            assert node.get(token=token, query=question).code == 0
    revoke(own_store, client)
    for node in nodes:
        for token in tokens:
            assert_refused(node, token, question)
        assert ask(node, client.form).status_code == 401
        for token in spared:
            assert node.get(token=token, query=question).code == 0
    assert valid_tokens(own_store, client) == 0


def test_also_by_a_command_whose_clock_is_ahead(
    gateway: Gateway, store: Store, question: dict[str, str]
) -> None:
    """By that clock the token has expired; by those of the gateways it has not."""
    client = new_client(store)
    token = obtain(gateway, client)
    assert gateway.get(token=token, query=question).code == 0
    ahead = Runtime(now_s=lambda: time.time() + 7 * 86_400)
    store.do(lambda database: revoke_client(database, ahead, client.id))
    assert_refused(gateway, token, question)


def test_one_of_its_tokens_can_be_revoked_alone(
    gateway: Gateway, store: Store, question: dict[str, str]
) -> None:
    client = new_client(store)
    first, second = obtain(gateway, client), obtain(gateway, client)
    store.do(lambda database: revoke_token(database, RUNTIME, first))
    assert_refused(gateway, first, question)
    assert gateway.get(token=second, query=question).code == 0


def test_a_token_expires_when_it_says_so(own_store: Store, question: dict[str, str]) -> None:
    client = new_client(own_store)
    gateway = Gateway(own_store, oauth_token_minutes=1)
    answer = ask(gateway, client.form).json()
    assert answer["expires_in"] == 60
    assert gateway.get(token=answer["access_token"], query=question).code == 0
    own_store.run(f"UPDATE token SET expires_at_s = issued_at_s WHERE client_id = '{client.id}'")
    own_store.run("UPDATE version SET directory = directory + 1")
    assert_refused(gateway, answer["access_token"], question)
    assert gateway.stop() == 0


def test_a_test_client_gets_tokens_of_the_sandbox(
    gateway: Gateway, store: Store, question: dict[str, str]
) -> None:
    token = obtain(gateway, new_client(store, kind="test", calls=0))
    assert token.startswith("tw_test_")
    assert gateway.get(token=token, query=question).code == 0


@pytest.fixture
def raced(tmp_path: Path) -> Store:
    return Store(tmp_path / "raced.db")


async def _revoke_while_one_is_given(
    database: Database, client: OwnClient, patch: pytest.MonkeyPatch
) -> None:
    """The client is revoked when its token is looked into and not yet written."""
    found = await recognise(database, client.id, client.secret)
    assert found is not None
    revoking: list[asyncio.Task[object]] = []
    put = client_tokens.put_token

    async def put_late(*arguments: object, **named: object) -> IssuedToken:
        task = asyncio.create_task(revoke_client(database, RUNTIME, client.id))
        revoking.append(task)
        async with asyncio.timeout(10):
            while not task.done() and not await database.fetch_all(WAITS_FOR_TURN):
                pass
        return await put(*arguments, **named)  # type: ignore[arg-type]

    patch.setattr(client_tokens, "put_token", put_late)
    await obtain_token(database, RUNTIME, found, 3600)
    await revoking[0]


@pytest.mark.postgresql
def test_no_token_slips_through_while_its_client_is_revoked(
    raced: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = new_client(raced)
    raced.do(lambda database: _revoke_while_one_is_given(database, client, monkeypatch))
    assert valid_tokens(raced, client) == 0


@pytest.mark.postgresql
def test_control_without_turns_one_would(raced: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    async def no_lock(*_: object) -> None:
        pass

    client = new_client(raced)
    for module in (client_tokens, clients):
        monkeypatch.setattr(module, "one_at_a_time", no_lock)
    raced.do(lambda database: _revoke_while_one_is_given(database, client, monkeypatch))
    assert valid_tokens(raced, client) == 1


def test_control_a_revocation_that_leaves_the_tokens_would_be_seen(
    gateway: Gateway, store: Store, question: dict[str, str]
) -> None:
    client = new_client(store)
    token = obtain(gateway, client)
    store.run(f"UPDATE client SET revoked_at_s = 1 WHERE id = '{client.id}'")
    assert ask(gateway, client.form).status_code == 401
    assert gateway.get(token=token, query=question).code == 0
    assert valid_tokens(store, client) == 1

"""Requests about one token at the same moment: each is answered as if one came after the other."""

import asyncio
from functools import partial
from itertools import count
from types import SimpleNamespace
from typing import cast
from zoneinfo import ZoneInfo

import msgspec
import pytest
from msgspec.structs import replace
from sqlalchemy import text

from tests.support.ledger import RUNTIME
from tests.support.stores import Store
from tollway.contract.reasons import Reason, Refusal
from tollway.ledger import tokens as ledger_tokens
from tollway.ledger.accounts import open_account
from tollway.ledger.clients import add_client, obtain_token, revoke_client
from tollway.ledger.tokens import IssuedToken, Token, issue_token, list_tokens, revoke_token
from tollway.operations.account_api import tokens as account_tokens
from tollway.operations.account_api.operation import AccountCall, AccountDependencies, Handler
from tollway.operations.account_api.tokens import ENDPOINTS, MakeTokenRequest, RevokeTokenRequest
from tollway.operations.account_api.tokens import RotateTokenRequest as Rotate
from tollway.operations.account_api.webhooks import ENDPOINTS as WEBHOOKS
from tollway.operations.account_api.webhooks import MakeWebhookRequest
from tollway.store.database import Database
from tollway.store.open import open_sealer
from tollway.store.query import Query
from tollway.webhooks.endpoints import list_endpoints

_WAITS = Query(text("SELECT 1 FROM pg_locks WHERE NOT granted"))
_numbers = count(1)


class _Parts:
    runtime = RUNTIME
    zone = ZoneInfo("Asia/Shanghai")

    def __init__(self, database: Database) -> None:
        self.database = database


def _handler(database: Database, path: str) -> Handler:
    (endpoint,) = (each for each in ENDPOINTS if each.operation.path.endswith(path))
    return partial(endpoint.handle, cast(AccountDependencies, _Parts(database)))


def _call(token: Token) -> AccountCall:
    at_s = RUNTIME.now_s()
    return AccountCall(token.account_id, token.id, None, at_s, "en", list, lambda _: True)


async def _new_token(database: Database) -> Token:
    account = await open_account(database, RUNTIME, f"racing {next(_numbers)}")
    return (await issue_token(database, RUNTIME, account.id)).token


def _read_early(monkeypatch: pytest.MonkeyPatch, token: Token) -> None:
    """What the request has read is from before the other one."""

    async def own(*_: object) -> Token:
        monkeypatch.undo()
        return token

    monkeypatch.setattr(account_tokens, "_own", own)


async def _revoked_token(database: Database, monkeypatch: pytest.MonkeyPatch) -> Token:
    """A token that is revoked, which the request has not read yet."""
    token = await _new_token(database)
    await revoke_token(database, RUNTIME, token.id)
    _read_early(monkeypatch, token)
    return token


async def test_a_token_that_is_revoked_twice_at_once_is_revoked(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = await _new_token(database)
    revoked = await revoke_token(database, RUNTIME, token.id)
    _read_early(monkeypatch, token)
    revoke = _handler(database, "tokens/revoke")
    assert await revoke(RevokeTokenRequest(token.id), _call(token)) == revoked


async def test_a_token_that_is_revoked_while_it_is_rotated_is_refused(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = await _revoked_token(database, monkeypatch)
    rotate = _handler(database, "tokens/rotate")
    with pytest.raises(Refusal) as caught:
        await rotate(Rotate(token.id), _call(token))
    assert caught.value.reason is Reason.CREDENTIAL_INVALID
    assert len(await list_tokens(database, token.account_id)) == 1


async def test_a_token_that_is_revoked_while_it_makes_another_is_refused(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = await _revoked_token(database, monkeypatch)
    make = _handler(database, "tokens/make")
    with pytest.raises(Refusal) as caught:
        await make(MakeTokenRequest("another"), _call(token))
    assert caught.value.reason is Reason.CREDENTIAL_INVALID
    assert len(await list_tokens(database, token.account_id)) == 1


async def test_a_client_that_is_revoked_while_its_token_makes_another_is_refused(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    account_id = (await _new_token(database)).account_id
    client = (await add_client(database, RUNTIME, account_id)).client
    obtained = await obtain_token(database, RUNTIME, client, 60)
    assert obtained is not None
    await revoke_client(database, RUNTIME, client.id)
    _read_early(monkeypatch, obtained.token)
    make = _handler(database, "tokens/make")
    with pytest.raises(Refusal) as caught:
        await make(MakeTokenRequest("another"), _call(obtained.token))
    assert caught.value.reason is Reason.CREDENTIAL_INVALID


@pytest.mark.postgresql
@pytest.mark.parametrize("path", ["tokens/make", "tokens/rotate"])
async def test_after_a_revocation_nothing_comes_that_was_made_with_the_token(
    path: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The token is revoked when another has been permitted and is not stored yet."""
    maker = await _new_token(database)
    other = (await issue_token(database, RUNTIME, maker.account_id)).token
    request: msgspec.Struct = MakeTokenRequest("x")
    if path == "tokens/rotate":
        request = Rotate(other.id)
    put = ledger_tokens.put_token
    revoking: list[asyncio.Task[int]] = []

    async def revoke_and_list() -> int:
        await revoke_token(database, RUNTIME, maker.id)
        return len(await list_tokens(database, maker.account_id))

    async def put_late(*arguments: object, **named: object) -> IssuedToken:
        revoking.append(asyncio.create_task(revoke_and_list()))
        async with asyncio.timeout(10):
            while not revoking[0].done() and not await database.fetch_all(_WAITS):
                pass
        return await put(*arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(ledger_tokens, "put_token", put_late)
    await _handler(database, path)(request, _call(maker))
    assert await revoking[0] == len(await list_tokens(database, maker.account_id)) == 3


def test_a_token_that_is_revoked_while_its_webhook_is_looked_up_adds_none(store: Store) -> None:
    """How long that takes is up to the name server of its maker."""
    sealer = open_sealer(store.url, store.key_file)

    async def work(database: Database) -> None:
        maker = await _new_token(database)

        async def resolve(*_: object) -> None:
            await revoke_token(database, RUNTIME, maker.id)

        addresses = SimpleNamespace(check=lambda url: url, resolve=resolve)
        vault = SimpleNamespace(sealer=sealer)
        parts = SimpleNamespace(**vars(_Parts(database)), runtime=RUNTIME, zone=_Parts.zone)
        parts.addresses, parts.vault = addresses, vault
        (make,) = (each for each in WEBHOOKS if each.operation.path.endswith("webhooks/make"))
        with pytest.raises(Refusal) as caught:
            await make.handle(
                cast(AccountDependencies, parts),
                MakeWebhookRequest("https://shop.example"),
                _call(maker),
            )
        assert caught.value.reason is Reason.CREDENTIAL_INVALID
        assert await list_endpoints(database, maker.account_id) == []

    store.do(work)


@pytest.mark.parametrize("path", ["tokens/make", "tokens/rotate"])
async def test_no_token_outlives_its_maker_by_the_time_that_a_body_was_held_back(
    path: str, database: Database
) -> None:
    maker = await _new_token(database)
    request = MakeTokenRequest("x") if path == "tokens/make" else Rotate(maker.id)
    now_s = RUNTIME.at_s()
    held_back = replace(_call(maker), at_s=now_s - 9.0)
    with pytest.raises(Refusal) as caught:
        await _handler(database, path)(request, replace(held_back, token_expires_at_s=now_s))
    assert caught.value.reason is Reason.CREDENTIAL_INVALID
    ends_at_s = now_s + 60
    made = await _handler(database, path)(request, replace(held_back, token_expires_at_s=ends_at_s))
    assert isinstance(made, IssuedToken) and made.token.expires_at_s is not None
    # To the second in which it was made.
    assert made.token.expires_at_s <= ends_at_s + 1


async def test_a_token_that_is_revoked_rotates_no_other(database: Database) -> None:
    maker = await _new_token(database)
    other = (await issue_token(database, RUNTIME, maker.account_id)).token
    await revoke_token(database, RUNTIME, maker.id)
    rotate = _handler(database, "tokens/rotate")
    with pytest.raises(Refusal) as caught:
        await rotate(Rotate(other.id), _call(maker))
    assert caught.value.reason is Reason.CREDENTIAL_INVALID
    assert len(await list_tokens(database, maker.account_id)) == 2

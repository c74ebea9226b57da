"""Tokens that an account makes, rotates and revokes itself, and how many it has."""

from datetime import date

import pytest

from tests.operations.account_api.test_account_api import ANALYSIS, get_own
from tests.support.all_operations import ask, good_request
from tests.support.changes import assert_seen
from tests.support.clients import new_client, obtain, revoke
from tests.support.gateway import Gateway, reply_of
from tests.support.ledger import RUNTIME, Caller, new_caller
from tollway.ledger.tokens import issue_token
from tollway.store.database import Database
from tollway_client import Client, errors


def test_tokens_are_made_rotated_and_revoked(
    client: Client, world: Gateway, caller: Caller, today: date
) -> None:
    request = good_request(ANALYSIS, today)

    def code(token: str) -> int:
        return ask(world, ANALYSIS, token, request).code

    made = client.account.tokens_make(label="reports", expires_days=30)
    assert made.text.startswith("tw_live_") and code(made.text) == 0
    # Spaces around a value are no part of it.
    test = client.account.tokens_make(label="tests", kind=" test ")
    assert test.text.startswith("tw_test_") and code(test.text) == 0
    new = client.account.tokens_rotate(token_id=made.token.id, overlap_s=0)
    assert (new.token.label, new.token.kind) == ("reports", "live")
    assert new.token.expires_at_s == made.token.expires_at_s and code(new.text) == 0
    assert_seen(world.store, lambda: code(made.text), 401)
    assert client.account.tokens_revoke(token_id=new.token.id).revoked_at_s is not None
    assert_seen(world.store, lambda: code(new.text), 401)
    # Once more, which changes nothing.
    client.account.tokens_revoke(token_id=new.token.id)
    listed = {each.id: each.revoked_at_s for each in client.account.tokens().tokens}
    assert listed.keys() == {caller.token_id, made.token.id, test.token.id, new.token.id}
    assert made.text not in str(client.account.tokens())


@pytest.mark.parametrize("sent", [" ", None, [], ","])
def test_a_limit_of_a_new_token_that_is_sent_blank_is_refused(
    sent: object, world: Gateway, caller: Caller
) -> None:
    """It would be a token without the limit."""
    headers = {"Authorization": f"Bearer {caller.token}"}
    for limit in ("operations", "addresses", "expires_days", "credits_per_day", "calls_per_day"):
        body = {"label": "x", limit: sent}
        reply = reply_of(world.client.post("/account/v1/tokens/make", json=body, headers=headers))
        assert (reply.code, limit in reply.msg) == (100, True)
        if sent is None:
            assert "or leave it out" in reply.msg


def test_a_token_never_makes_one_that_outlives_it(world: Gateway) -> None:
    short = new_caller(world.store, lifetime_s=1000)
    with Client(short.token, world.base_url) as client:
        made = client.account.tokens_make(label="longer", expires_days=30)
        assert made.token.expires_at_s is not None
        assert made.token.expires_at_s - made.token.issued_at_s <= 1000
        lasting = world.store.do(lambda db: issue_token(db, RUNTIME, short.account_id))
        rotated = client.account.tokens_rotate(token_id=lasting.token.id)
        assert rotated.token.expires_at_s is not None
        assert rotated.token.expires_at_s - rotated.token.issued_at_s <= 1000


def test_revoking_a_client_ends_what_its_tokens_made_and_were_rotated_to(world: Gateway) -> None:
    own = new_client(world.store)
    with Client(obtain(world, own), world.base_url) as client:
        (obtained,) = (each for each in client.account.tokens().tokens if each.client_id)
        made = client.account.tokens_make(label="made with it").text
        new = client.account.tokens_rotate(token_id=obtained.id).text
    assert [get_own(world, each, "tokens").code for each in (made, new)] == [0, 0]
    revoke(world.store, own)
    for each in (made, new):
        assert_seen(world.store, lambda each=each: get_own(world, each, "tokens").code, 401)  # type: ignore[misc]


def test_an_account_has_so_many_valid_tokens(
    client: Client, world: Gateway, caller: Caller
) -> None:
    async def issue(database: Database) -> None:
        for _ in range(199):
            await issue_token(database, RUNTIME, caller.account_id, lifetime_s=60)

    world.store.do(issue)
    with pytest.raises(errors.PermissionMissingError, match="200 valid tokens"):
        client.account.tokens_make(label="one more")
    # One that leaked can be replaced all the same.
    assert client.account.tokens_rotate(token_id=caller.token_id).text
    # One that has expired is not valid.
    world.store.run(
        f"UPDATE token SET expires_at_s = 1 WHERE account_id = '{caller.account_id}' "
        f"AND expires_at_s IS NOT NULL AND id <> '{caller.token_id}'"
    )
    assert client.account.tokens_make(label="one more").text


def test_tokens_of_clients_and_pages_take_no_place_of_the_accounts_own(
    client: Client, world: Gateway, caller: Caller
) -> None:
    async def issue(database: Database) -> None:
        for number in range(200):
            whose = "pages" if number % 2 else "cli_000000000000"
            await issue_token(database, RUNTIME, caller.account_id, lifetime_s=60, client_id=whose)

    world.store.do(issue)
    assert client.account.tokens_make(label="one more").text

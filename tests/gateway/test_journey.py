"""A client's way: added, given a token, paid call, revoked; and what is seen of it meanwhile."""

import json
from collections.abc import Iterator

import pytest

from tests.support import forks
from tests.support.clients import (
    ask,
    ask_multipart,
    assert_refused,
    basic,
    new_client,
)
from tests.support.gateway import Gateway
from tests.support.ledger import CALLS, calls_left, newest_entry
from tests.support.stores import Store
from tollway.gateway.oauth import GRANT_TYPE
from tollway.ledger.token_format import is_well_formed


@pytest.fixture
def own_gateway(own_store: Store) -> Iterator[Gateway]:
    """Other tests put into the database of all what an audit would object to."""
    with Gateway(own_store) as started:
        yield started


def test_from_the_command_line_to_a_paid_call_and_to_the_end(
    own_gateway: Gateway, own_store: Store, question: dict[str, str]
) -> None:
    caller = new_client(own_store).caller

    def tollway(*arguments: str) -> str:
        done = forks.run("tollway", *arguments, "--database", own_store.url)
        done.check_returncode()
        return done.stdout

    added = tollway("client", "add", caller.account_id, "--label", "till").splitlines()
    form = dict(line.split("=") for line in added[:2])
    token = ask(own_gateway, {**form, "grant_type": GRANT_TYPE}).json()["access_token"]
    before = calls_left(own_store, caller)
    assert own_gateway.get(token=token, query=question).code == 0
    assert calls_left(own_store, caller) == before - 1
    listed = json.loads(tollway("token", "list", caller.account_id, "--json"))
    (obtained,) = (each for each in listed if each["client_id"] == form["client_id"])
    assert newest_entry(own_store, caller, CALLS).token_id == obtained["id"]
    revoked = tollway("client", "revoke", form["client_id"])
    assert revoked == (
        f"Client {form['client_id']} is revoked: its tokens are refused from the next call on.\n"
    )
    assert_refused(own_gateway, token, question)
    assert ask(own_gateway, {**form, "grant_type": GRANT_TYPE}).status_code == 401
    # What the operator issued is not the client's, and goes on.
    assert own_gateway.get(token=caller.token, query=question).code == 0
    assert "All checks passed." in tollway("audit")


@pytest.mark.parametrize("way", ["urlencoded", "multipart", "basic"])
def test_every_way_of_asking_gets_a_token(
    gateway: Gateway, store: Store, question: dict[str, str], way: str
) -> None:
    client = new_client(store)
    if way == "basic":
        headers = basic(client.id, client.secret)
        response = ask(gateway, {"grant_type": GRANT_TYPE}, headers=headers)
    else:
        send = ask if way == "urlencoded" else ask_multipart
        response = send(gateway, {**client.form, "scope": "", "more": "is ignored"})
    assert response.status_code == 200
    answer = response.json()
    assert set(answer) == {"access_token", "token_type", "expires_in"}
    assert (answer["token_type"], answer["expires_in"]) == ("Bearer", 120 * 60)
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["pragma"] == "no-cache"
    assert response.headers["content-type"] == "application/json"
    assert is_well_formed(answer["access_token"])
    assert gateway.get(token=answer["access_token"], query=question).code == 0

"""Clients for tests: an account that has one, and how it asks for a token."""

from base64 import b64encode
from typing import Any, NamedTuple

import httpx

from tests.support.changes import assert_seen
from tests.support.gateway import Gateway
from tests.support.ledger import RUNTIME, Caller, new_caller
from tests.support.stores import Store
from tollway.gateway.oauth import GRANT_TYPE, TOKEN_PATH
from tollway.ledger.clients import add_client, revoke_client


class OwnClient(NamedTuple):
    """A client, and the account that it belongs to."""

    caller: Caller
    id: str
    secret: str

    @property
    def form(self) -> dict[str, str]:
        """What it sends when it asks for a token."""
        return {"grant_type": GRANT_TYPE, "client_id": self.id, "client_secret": self.secret}


def new_client(store: Store, *, kind: str = "live", **of_caller: Any) -> OwnClient:
    """A client of a new account that can call."""
    caller = new_caller(store, **of_caller)
    added = store.do(lambda database: add_client(database, RUNTIME, caller.account_id, kind=kind))
    return OwnClient(caller, added.client_id, added.client_secret)


def revoke(store: Store, client: OwnClient) -> None:
    store.do(lambda database: revoke_client(database, RUNTIME, client.id))


def ask(gateway: Gateway, form: dict[str, str], **more: Any) -> httpx.Response:
    """Asks for a token with an urlencoded form."""
    return gateway.client.post(TOKEN_PATH, data=form, **more)


def ask_multipart(gateway: Gateway, form: dict[str, str], **more: Any) -> httpx.Response:
    parts = {name: (None, value.encode()) for name, value in form.items()}
    return gateway.client.post(TOKEN_PATH, files=parts, **more)


def basic(client_id: str, secret: str) -> dict[str, str]:
    """The header of HTTP Basic."""
    encoded = b64encode(f"{client_id}:{secret}".encode()).decode()
    return {"Authorization": f"Basic {encoded}"}


def obtain(gateway: Gateway, client: OwnClient) -> str:
    """A token, which must be given."""
    response = ask(gateway, client.form)
    assert response.status_code == 200, response.text
    token: str = response.json()["access_token"]
    return token


def assert_refused(gateway: Gateway, token: str, question: dict[str, str]) -> None:
    """That a call sees that a token was just ended."""
    assert_seen(gateway.store, lambda: gateway.get(token=token, query=question).code, 401)

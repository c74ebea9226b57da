"""Users, grants and callers of promotion material, for tests."""

from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.gateway import Gateway, Reply
from tests.support.ledger import RUNTIME, Caller, new_caller
from tests.support.stores import Store
from tollway.consent.grants import Grant, GrantRequest, give_grant
from tollway.consent.links import PasswordLinks
from tollway.consent.owners import Owner, add_owner, credential_of_login
from tollway.ledger.runtime import Runtime
from tollway.operations.promotion_material.operation import PROMOTION_MATERIAL
from tollway.store.database import Database
from tollway.store.keys import load_secret

PATH = PROMOTION_MATERIAL.path
PASSWORD = "correct horse battery"
_numbers = count(1)


class Person(NamedTuple):
    """A user known to the gateway, who signs in with PASSWORD."""

    id: int
    login: str


def new_asker(store: Store, **changes: Any) -> Caller:
    """A new account that may call promotion material."""
    usual = {"operations": (PROMOTION_MATERIAL,), "credits_": 100, "rate_limit": 1000}
    return new_caller(store, **{**usual, **changes})


def new_person(store: Store, name: str = "林小满") -> Person:
    number = next(_numbers)
    person = Person(880_000 + number, f"person{number}")
    known = Owner("user", str(person.id), name, None, person.login, 0)
    store.do(lambda database: add_owner(database, RUNTIME, known, PASSWORD))
    return person


def password_link(store: Store, login: str, age_s: int = 0) -> str:
    """The link that an operator makes for an owner who has forgotten the password."""

    async def work(database: Database) -> str:
        found = await credential_of_login(database, login)
        assert found is not None
        links = PasswordLinks(load_secret(Path(f"{store.path}.secret")), "")
        made_then = Runtime(now_s=lambda: RUNTIME.at_s() - age_s)
        return (await links.make(database, made_then, found)).url

    return store.do(work)


def allow(store: Store, asker: Caller, person: Person, lifetime_s: int | None = 3600) -> Grant:
    grant_request = GrantRequest(asker.account_id, "user", str(person.id), "promotion")
    return store.do(
        lambda database: give_grant(
            database, RUNTIME, grant_request, lifetime_s=lifetime_s, granted_by="operator"
        )
    )


def ask(gateway: Gateway, asker: Caller, person_id: int, **changes: object) -> Reply:
    """A call that succeeds if the person authorized the asker; a change to None leaves out."""
    body = {
        "adzone_id": 77,
        "site_id": 66,
        "promotion_id": 37104,
        "platform_user_id": person_id,
        **changes,
    }
    sent = {name: value for name, value in body.items() if value is not None}
    return gateway.post_json(PATH, sent, token=asker.token)

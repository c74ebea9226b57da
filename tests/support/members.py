"""Members of an account, and the browser of one who signed in."""

import time

from tests.support.browsers import Browser
from tests.support.ledger import RUNTIME, Caller
from tests.support.stores import Store
from tollway.identity.people import Role
from tollway.identity.sign_in_links import Invitation, invite


def new_member(
    store: Store, account_id: str, role: Role = Role.OWNER, name: str = "Mei"
) -> Invitation:
    return store.do(
        lambda database: invite(
            database,
            RUNTIME,
            role=role,
            name=name,
            login=f"mei{time.time_ns()}",
            account_wanted=account_id,
        )
    )


def entered(store: Store, browser: Browser, caller: Caller, role: Role = Role.OWNER) -> Browser:
    made = new_member(store, caller.account_id, role)
    browser.open(f"/account/enter?link={made.link}")
    browser.enter("/account")
    return browser

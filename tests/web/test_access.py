"""Who may open and use which page: every path of both areas, by every kind of person. And what a
member finds of another account under its ids, whatever page or operation they are put into."""

import time
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.support.browsers import Browser, operator_link
from tests.support.consent import new_person
from tests.support.gateway import ANALYSIS, Gateway, Reply
from tests.support.ledger import CALLS, RUNTIME, Caller, new_caller
from tests.support.members import entered, new_member
from tests.support.stores import Store
from tollway.contract.operation import Encoding, Operation
from tollway.identity.people import Person, Role
from tollway.ledger.tokens import issue_token
from tollway.operations.account_api import ACCOUNT_OPERATIONS
from tollway.store.open import open_sealer
from tollway.web.area import PageSpec
from tollway.web.caller.pages import PAGES as CALLER_PAGES
from tollway.web.operator.pages import PAGES as OPERATOR_PAGES
from tollway.webhooks.endpoints import add_endpoint

ALL = (*CALLER_PAGES, *OPERATOR_PAGES)
# These do something with an empty form too: they begin work, send the database, issue a token, or
# send an event.
DONE_WITHOUT_FIELDS = (
    *("/operator/audit/run", "/operator/backup/download"),
    *("/account/tokens/issue", "/account/webhooks/test"),
)


class People(NamedTuple):
    """Browsers of those who signed in; only the first of each area has its cookie."""

    visitor: Browser
    shop: Browser
    reader: Browser
    developer: Browser
    owner: Browser
    operator: Browser


@pytest.fixture(scope="module")
def people(gateway: Gateway, store: Store) -> Iterator[People]:
    caller = new_caller(store)
    found = People(*(Browser(gateway) for _ in People._fields))
    for browser, role in zip(found[2:5], (Role.READER, Role.DEVELOPER, Role.OWNER), strict=True):
        entered(store, browser, caller, role)
    found.shop.open("/owner")
    found.shop.sign_in(new_person(store).login)
    found.operator.open(f"/operator/enter?link={operator_link(store)}")
    found.operator.send("/operator/enter")
    yield found
    for each in found:
        each.client.close()


def may(who: str, spec: PageSpec, *, is_act: bool) -> bool | None:
    """The table: whether a person may; None for one who is not signed in to this area."""
    area = {"operator": "/operator", "shop": "", "visitor": ""}.get(who, "/account")
    if not area or not spec.path.startswith(area):
        return None
    if who == "reader":
        return not is_act and not spec.needs_owner
    return who != "developer" or not spec.needs_owner


@pytest.mark.parametrize("who", People._fields)
def test_a_page_is_shown_to_those_who_may_see_it(people: People, who: str) -> None:
    for spec in ALL:
        answer = getattr(people, who).client.get(spec.path, follow_redirects=False)
        allowed, asks_to_sign_in = may(who, spec, is_act=False), 'type="password"' in answer.text
        found = (spec.path, answer.status_code, asks_to_sign_in)
        if allowed is None:
            assert found == (spec.path, 200, True)
        elif spec.show is None:
            assert found == (spec.path, 303, False)
        else:
            assert (answer.status_code == 403) is not allowed, found


def form_token(browser: Browser, area: str) -> str:
    """What the forms of an area have, as long as their reader is signed in."""
    browser.open(area)
    return browser.hidden()["form_token"]


@pytest.mark.parametrize("who", People._fields)
def test_an_act_is_done_for_those_who_may_do_it(people: People, who: str) -> None:
    """With an empty form: who may not is refused before it is read, and so is one that was not sent
    from a page."""
    browser = getattr(people, who)
    tokens = {area: form_token(browser, area) for area in ("/account", "/operator")}
    for spec in ALL:
        if spec.act is None:
            continue
        token = tokens["/account" if spec.path.startswith("/account") else "/operator"]
        allowed = may(who, spec, is_act=True)
        if allowed and spec.path in DONE_WITHOUT_FIELDS:
            token = ""
        for sent in ("", "0" * 64, token):
            form = {"files": {"form_token": (None, sent)}} if spec.takes_file else {}
            answer = browser.client.post(
                spec.path, **(form or {"data": {"form_token": sent}}), follow_redirects=False
            )
            if sent and sent == token and allowed:
                assert answer.status_code != 403 and answer.status_code < 500, spec.path
            else:
                assert answer.status_code == 403, spec.path
    # No act has ended the session, which would be a reason to refuse all others.
    assert tokens == {area: form_token(browser, area) for area in tokens}


# What another account might want to change.
STATE = {
    "token": "id, label, revoked_at_s, expires_at_s",
    "person": "id, role, removed_at_s, password_hash",
    "balance": "unit, amount",
    "permission": "operation, price, rate_limit",
    "webhook_endpoint": "id, url, rotated_at_s, ended_at_s",
    "webhook_delivery": "endpoint_id, number, event_id",
    "balance_alert": "unit, below",
}
MARK = f"hidden{time.time_ns()}"
# These take no id that could be another's, or that of a waybill, which
# `tests/operations/account_api/test_account_api.py` asks for.
NEED_MORE = {"account_usage", "account_tokens_make", "account_consents_link"}
NEED_MORE |= {"account_webhooks_make"}
NEED_MORE |= {each.name for each in ACCOUNT_OPERATIONS if "waybills" in each.name}


class Victim(NamedTuple):
    """An account, of whose names each has the mark; its ids are what another may have found."""

    caller: Caller
    member: Person
    token_id: str
    request_id: str
    webhook_id: str
    event_id: str

    def values(self) -> dict[str, str]:
        ids = dict.fromkeys(("id", "request_id", "q"), self.request_id)
        ids |= dict.fromkeys(("token", "token_id"), self.token_id)
        ids |= dict.fromkeys(("account", "account_id", "of"), self.caller.account_id)
        ids |= {"webhook_id": self.webhook_id, "event_id": self.event_id}
        ids |= {"unit": CALLS, "below": "5", "limit": "10"}
        return {**ids, "member": self.member.id, "role": "reader", "hours": "24", "sure": "yes"}


@pytest.fixture
def victim(gateway: Gateway, store: Store, question: dict[str, str]) -> Victim:
    return new_victim(gateway, store, question)


def new_victim(gateway: Gateway, store: Store, question: dict[str, str]) -> Victim:
    caller = new_caller(store, name=f"{MARK} {time.time_ns()}")
    member = new_member(store, caller.account_id, name=MARK).person
    issued = store.do(
        lambda database: issue_token(database, RUNTIME, caller.account_id, label=MARK)
    )
    answer = gateway.get(ANALYSIS, token=issued.text, query=question)
    assert answer.code == 0
    sealer, url = open_sealer(store.url, store.key_file), f"https://{MARK}.example"
    endpoint = store.do(
        lambda database: add_endpoint(database, sealer, RUNTIME, caller.account_id, url, 0)
    )
    request_id, webhook_id = answer.headers["x-request-id"], endpoint.endpoint.id
    assert gateway.post_json("/account/v1/webhooks/test", {}, token=issued.text).data["done"]
    ((event_id,),) = store.run(
        f"SELECT event_id FROM webhook_delivery WHERE endpoint_id = '{webhook_id}'"
    )
    return Victim(caller, member, issued.token.id, request_id, webhook_id, event_id)


def state_of(store: Store, victim: Victim) -> list[list[tuple[object, ...]]]:
    account = f"account_id = '{victim.caller.account_id}'"
    return [
        sorted(store.run(f"SELECT {names} FROM {table} WHERE {account}"), key=str)
        for table, names in STATE.items()
    ]


def test_no_operation_shows_or_changes_what_is_another_accounts(
    gateway: Gateway, store: Store, victim: Victim
) -> None:
    # Without a limit that would hide an answer.
    caller = new_caller(store, rate_limit=1000)
    before = state_of(store, victim)
    unread = set()
    for operation in ACCOUNT_OPERATIONS:
        reply = _asked(gateway, operation, victim, caller.token)
        assert MARK not in str(reply.envelope), operation.path
        assert reply.code not in (200, 202), reply.envelope
        if reply.headers.get("x-tollway-reason") in ("PARAMETER_MISSING", "PARAMETER_INVALID"):
            unread.add(operation.name)
    assert unread == NEED_MORE
    assert state_of(store, victim) == before
    # Its own account finds the mark under the same ids.
    shown = [_asked(gateway, each, victim, victim.caller.token) for each in ACCOUNT_OPERATIONS]
    assert sum(MARK in str(each.envelope) for each in shown) >= 3


def _asked(gateway: Gateway, operation: Operation, victim: Victim, token: str) -> Reply:
    values = victim.values()
    names = operation.request_type.__struct_fields__ & values.keys()
    sent = {name: values[name] for name in names}
    if operation.encoding is Encoding.QUERY:
        return gateway.get(operation.path, token=token, query=sent)
    return gateway.post_json(operation.path, sent, token=token)

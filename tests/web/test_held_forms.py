"""A form whose sender loses the right to it before it is done: nothing is done."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.support.browsers import Browser
from tests.support.consent import Person, ask
from tests.support.gateway import Gateway
from tests.support.ledger import RUNTIME, Caller
from tests.support.members import new_member
from tests.support.postgresql import locked, waiting
from tests.support.remote import eventually
from tests.support.stores import Store
from tests.web.test_consent_journey import link_of
from tollway.consent.owners import sign_out_everywhere
from tollway.identity.people import Role, change_role, list_members, remove_person
from tollway.ledger.tokens import list_tokens

SEEN = "SELECT sum(seen_at_s) FROM session"


def held_back(
    store: Store,
    browser: Browser,
    path: str,
    fields: dict[str, str],
    meanwhile: Callable[[], object],
    files: dict[str, tuple[str, bytes]] | None = None,
) -> httpx.Response:
    """The answer to a form whose end comes after something else was done. Before that the
    gateway has read who sends it."""
    form = httpx.Request("POST", "http://x", data={**browser.hidden(), **fields}, files=files)
    body = form.read()
    store.run("UPDATE session SET seen_at_s = seen_at_s - 120")
    before = store.run(SEEN)

    def pieces() -> Iterator[bytes]:
        yield body[:-9]
        eventually(lambda: store.run(SEEN), lambda now: now != before)
        meanwhile()
        yield body[-9:]

    headers = {name: form.headers[name] for name in ("Content-Type", "Content-Length")}
    return browser.client.post(path, content=pieces(), headers=headers)


def _tokens(store: Store, caller: Caller) -> int:
    return len(store.do(lambda database: list_tokens(database, caller.account_id)))


def _member_id(store: Store, caller: Caller) -> str:
    (found,) = store.do(lambda database: list_members(database, caller.account_id))
    return found.id


def _given_role(store: Store, caller: Caller, role: Role) -> Callable[[], object]:
    """What gives the member another role; another owner stays."""
    member_id = _member_id(store, caller)
    new_member(store, caller.account_id)
    return lambda: store.do(
        lambda database: change_role(database, RUNTIME, caller.account_id, member_id, role)
    )


def test_a_member_who_is_removed_meanwhile_issues_no_token(
    store: Store, caller: Caller, member: Browser
) -> None:
    member_id, before = _member_id(store, caller), _tokens(store, caller)

    def remove() -> None:
        store.do(lambda database: remove_person(database, RUNTIME, member_id))

    member.open("/account/tokens")
    answer = held_back(store, member, "/account/tokens/issue", {"label": "x"}, remove)
    assert (answer.status_code, _tokens(store, caller)) == (403, before)


def test_a_member_who_becomes_a_reader_meanwhile_issues_no_token(
    store: Store, caller: Caller, member: Browser
) -> None:
    before, demote = _tokens(store, caller), _given_role(store, caller, Role.READER)
    member.open("/account/tokens")
    answer = held_back(store, member, "/account/tokens/issue", {"label": "x"}, demote)
    assert (answer.status_code, _tokens(store, caller)) == (403, before)


@pytest.mark.postgresql
@pytest.mark.parametrize("role", [None, Role.READER])
def test_a_member_who_is_removed_or_a_reader_when_the_token_is_stored_issues_none(
    store: Store, caller: Caller, member: Browser, role: Role | None
) -> None:
    """The form was checked before, and its commit waits for another."""
    member_id, before = _member_id(store, caller), _tokens(store, caller)
    new_member(store, caller.account_id)
    member.open("/account/tokens")
    with ThreadPoolExecutor(1) as thread:
        with locked(store.url, "account_day"):
            sent = thread.submit(member.send, "/account/tokens/issue", label="x")
            eventually(lambda: waiting(store.url), lambda number: number == 1)
            if role is None:
                store.do(lambda database: remove_person(database, RUNTIME, member_id))
            else:
                change = (RUNTIME, caller.account_id, member_id, role)
                store.do(lambda database: change_role(database, *change))
        answer = sent.result()
    assert (answer.status_code, _tokens(store, caller)) == (403, before)


@pytest.mark.postgresql
@pytest.mark.parametrize("act", ["invite", "link"])
def test_an_owner_who_is_removed_when_the_link_is_stored_makes_none(
    store: Store, caller: Caller, member: Browser, act: str
) -> None:
    """With it they would sign in again, as another member."""
    member_id = _member_id(store, caller)
    another = new_member(store, caller.account_id).person
    fields = {"member": another.id, "sure": "yes"}
    if act == "invite":
        fields = {"name": "Me again", "login": f"again {caller.account_id}", "role": "owner"}
    member.open("/account/members")
    links = "SELECT count(*) FROM sign_in_link"
    before = store.run(links)
    with ThreadPoolExecutor(1) as thread:
        with locked(store.url, "account_day"):
            sent = thread.submit(member.send, f"/account/members/{act}", **fields)
            eventually(lambda: waiting(store.url), lambda number: number == 1)
            store.do(lambda database: remove_person(database, RUNTIME, member_id))
        answer = sent.result()
    assert (answer.status_code, store.run(links)) == (403, before)


def test_an_owner_who_becomes_a_developer_meanwhile_invites_no_one(
    store: Store, caller: Caller, member: Browser
) -> None:
    demote = _given_role(store, caller, Role.DEVELOPER)
    member.open("/account/members")
    invited = {"name": "Another", "login": f"another of {caller.account_id}", "role": "owner"}
    answer = held_back(store, member, "/account/members/invite", invited, demote)
    members = store.do(lambda database: list_members(database, caller.account_id))
    assert (answer.status_code, len(members)) == (403, 2)


def test_an_owner_who_is_signed_out_meanwhile_approves_nothing(
    gateway: Gateway, store: Store, asker: Caller, person: Person, browser: Browser
) -> None:
    link = link_of(gateway, asker, person)
    browser.open(link)
    browser.sign_in(person.login)

    def sign_out() -> None:
        store.do(lambda database: sign_out_everywhere(database, RUNTIME, person.login))

    answer = held_back(store, browser, link, {"answer": "approve"}, sign_out)
    assert (answer.status_code, ask(gateway, asker, person.id).code) == (403, 302)


def test_an_operator_who_is_signed_out_during_an_upload_imports_nothing(
    store: Store, operator: Browser
) -> None:
    operator.open("/operator/data")
    answer = held_back(
        store,
        operator,
        "/operator/data/import",
        {"kind": "orders"},
        lambda: store.run("UPDATE session SET ended_at_s = seen_at_s WHERE kind = 'operator'"),
        {"file": ("a.csv", b"x")},
    )
    assert answer.status_code == 403


def test_a_form_that_comes_slowly_is_taken(store: Store, caller: Caller, member: Browser) -> None:
    member.open("/account/tokens")
    before = _tokens(store, caller)
    issued = held_back(store, member, "/account/tokens/issue", {"label": "x"}, lambda: None)
    assert (issued.status_code, _tokens(store, caller)) == (200, before + 1)

"""Members of an account who lost their link or password get a new one, get another role, and are
removed."""

import asyncio

import pytest

from tests.support.browsers import Browser, shown_secret
from tests.support.consent import PASSWORD
from tests.support.gateway import Gateway
from tests.support.ledger import RUNTIME, Caller, new_caller
from tests.support.members import entered, new_member
from tests.support.stores import Store
from tests.web.test_operator_commands import confirmed
from tests.web.test_second_factor import WRONG, Someone, is_in, send_code, send_password, set_up
from tollway.identity.people import (
    Person,
    Role,
    change_role,
    remove_person,
    set_person_password,
)
from tollway.ledger import LedgerError
from tollway.ledger.trail import newest_acts
from tollway.store.database import Database

ANOTHER = "another long password"


@pytest.fixture
def owner(store: Store, browser: Browser, caller: Caller) -> Browser:
    return entered(store, browser, caller)


def _forgetful(store: Store, account_id: str) -> Someone:
    """A member who has a password, and will forget it."""
    made = new_member(store, account_id, Role.DEVELOPER)
    store.do(lambda database: set_person_password(database, made.person, PASSWORD, 0))
    return Someone("/account", made.person.login, made.person.id)


def _acts_on(store: Store, login: str) -> list[str]:
    acts = store.do(lambda database: newest_acts(database, 10, of=f"member {login}"))
    return [each.act for each in acts]


def test_what_can_be_done_to_a_member_is_read_out_with_the_name(
    store: Store, owner: Browser, caller: Caller
) -> None:
    name = new_member(store, caller.account_id).person.name
    members = owner.open("/account/members").text
    for act in ("Change role", "New link", "Remove"):
        assert f'aria-label="{act} {name}">{act}</a>' in members


def test_a_member_who_forgot_the_password_chooses_another_behind_a_new_link(
    store: Store, owner: Browser, caller: Caller, gateway: Gateway
) -> None:
    who = _forgetful(store, caller.account_id)
    other = Browser(gateway)
    send_password(other, who)
    members = owner.open("/account/members").text
    # What can be done to others, and not to oneself.
    assert members.count(">New link<") == members.count(">you</td>") == 1
    link = shown_secret(confirmed(owner, "/account/members/link", member=who.id))
    assert not is_in(other, who)
    assert send_password(other, who).status_code == 403
    assert 'name="password"' in other.open(link).text
    assert other.send("/account/enter", password=ANOTHER).url.path == "/account"
    other.client.cookies.clear()
    other.open("/account")
    signed_in = other.send("/account/sign-in", login=who.login, password=ANOTHER)
    assert signed_in.url.path == "/account" and is_in(other, who)
    assert _acts_on(store, who.login)[0] == "member link"
    other.client.close()


def test_a_new_link_ends_the_invitation_that_was_lost(
    store: Store, owner: Browser, caller: Caller, gateway: Gateway
) -> None:
    made, other = new_member(store, caller.account_id), Browser(gateway)
    owner.open("/account/members")
    link = shown_secret(confirmed(owner, "/account/members/link", member=made.person.id))
    assert other.open(f"/account/enter?link={made.link}").status_code == 410
    assert other.open(link).status_code == 200
    other.client.close()


def test_a_new_link_keeps_the_second_factor_and_a_password_needs_its_code(
    store: Store, owner: Browser, caller: Caller, gateway: Gateway
) -> None:
    who, other = _forgetful(store, caller.account_id), Browser(gateway)
    send_password(other, who)
    device = set_up(other, who)
    owner.open("/account/members")
    link = shown_secret(confirmed(owner, "/account/members/link", member=who.id))
    other.client.cookies.clear()
    for code in ("", WRONG):
        other.open(link)
        refused = other.send("/account/enter", password=ANOTHER, code=code)
        assert refused.status_code == 403 and "This code is wrong" in refused.text
    chosen = other.send("/account/enter", password=ANOTHER, code=device.next_code())
    assert chosen.url.path == "/account" and is_in(other, who)
    other.client.cookies.clear()
    other.open("/account")
    asked = other.send("/account/sign-in", login=who.login, password=ANOTHER)
    assert "recovery codes" in asked.text
    assert send_code(other, who, device.recovery[0]).url.path == "/account"
    other.client.close()


def test_only_an_owner_makes_a_new_link_and_none_for_another_account_or_themselves(
    store: Store, owner: Browser, caller: Caller, gateway: Gateway
) -> None:
    outsider = new_member(store, new_caller(store).account_id).person
    own = store.run(
        f"SELECT id FROM person WHERE account_id = '{caller.account_id}' AND role = 'owner'"
    )
    for wanted in (outsider.id, "per_none", own[0][0]):
        owner.open("/account/members")
        refused = owner.send("/account/members/link", member=wanted, sure="yes")
        assert refused.status_code == 404
    developer = entered(store, Browser(gateway), caller, Role.DEVELOPER)
    assert "New link" not in developer.open("/account/members").text
    refused = developer.send("/account/members/link", member=outsider.id, sure="yes")
    assert refused.status_code == 403
    developer.client.close()


def test_new_links_of_members_count_as_invitations(
    store: Store, owner: Browser, caller: Caller
) -> None:
    member = new_member(store, caller.account_id).person
    owner.open("/account/members")
    assert shown_secret(confirmed(owner, "/account/members/link", member=member.id))
    store.run(f"UPDATE account_day SET number = 1000 WHERE account_id = '{caller.account_id}'")
    owner.open("/account/members")
    assert "try again tomorrow" in confirmed(owner, "/account/members/link", member=member.id)


def test_an_owner_changes_roles_so_many_times_a_day_and_operators_any_number(
    store: Store, owner: Browser, operator: Browser, caller: Caller
) -> None:
    """Each change is in the operators' trail for good."""
    member = new_member(store, caller.account_id, Role.READER).person
    owner.open(f"/account/members/role?member={member.id}")
    owner.send("/account/members/role", role="developer")
    store.run(f"UPDATE account_day SET number = 200 WHERE account_id = '{caller.account_id}'")
    owner.open(f"/account/members/role?member={member.id}")
    refused = owner.send("/account/members/role", role="reader")
    assert "daily limit of 200 role changes: try again tomorrow" in refused.text
    assert _role_of(store, member.id) == "developer"
    # A role that stays is no change.
    owner.open(f"/account/members/role?member={member.id}")
    assert "Done." in owner.send("/account/members/role", role="developer").text
    path = "/operator/account/member/role"
    operator.open(f"{path}?account={caller.account_id}&member={member.id}")
    operator.send(path, role="reader")
    assert _role_of(store, member.id) == "reader"


def test_an_operator_makes_a_new_link_for_a_member_and_removes_them(
    store: Store, operator: Browser, caller: Caller, gateway: Gateway
) -> None:
    who, account = _forgetful(store, caller.account_id), {"account": caller.account_id}
    other = Browser(gateway)
    page = operator.open(f"/operator/account/members?id={caller.account_id}").text
    for act in ("link", "remove"):
        assert f"/operator/account/member/{act}?account={caller.account_id}" in page
    path = "/operator/account/member"
    link = shown_secret(confirmed(operator, f"{path}/link", member=who.id, **account))
    assert 'name="password"' in other.open(link).text
    outsider = new_member(store, new_caller(store).account_id).person
    named = {"member": outsider.id, "sure": "yes", **account}
    assert operator.send(f"{path}/remove", **named).status_code == 404
    operator.open(f"/operator/account/members?id={caller.account_id}")
    gone = confirmed(operator, f"{path}/remove", member=who.id, **account)
    assert "The member was removed" in gone and who.login not in gone
    assert other.open(link).status_code == 410
    assert _acts_on(store, who.login)[:2] == ["member remove", "member link"]
    assert store.do(lambda database: newest_acts(database, 1))[0].by.startswith("operator ")
    other.client.close()


def _role_of(store: Store, person_id: str) -> str:
    return str(store.run(f"SELECT role FROM person WHERE id = '{person_id}'")[0][0])


def test_an_owner_gives_a_member_another_role_which_holds_at_once(
    store: Store, owner: Browser, caller: Caller, gateway: Gateway
) -> None:
    who, other = _forgetful(store, caller.account_id), Browser(gateway)
    send_password(other, who)
    assert 'action="/account/tokens/issue"' in other.open("/account/tokens").text
    form = f"/account/members/role?member={who.id}"
    assert f'href="{form}"' in owner.open("/account/members").text
    assert '<option value="developer" selected>' in owner.open(form).text
    changed = owner.send("/account/members/role", role="reader")
    assert changed.url.path == "/account/members" and "Done. The role holds" in changed.text
    assert is_in(other, who)
    assert 'action="/account/tokens/issue"' not in other.open("/account/tokens").text
    (act, *_) = store.do(lambda database: newest_acts(database, 1, of=f"member {who.login}"))
    assert act.act == "member role" and act.by.startswith("member ")
    assert '"developer"' in (act.before or "") and '"reader"' in (act.after or "")
    # The same role once more changes nothing, and is not recorded.
    owner.open(form)
    owner.send("/account/members/role", role="reader")
    assert _acts_on(store, who.login).count("member role") == 1
    other.client.close()


def test_only_an_owner_changes_roles_and_none_of_another_account_or_their_own(
    store: Store, owner: Browser, caller: Caller, gateway: Gateway
) -> None:
    outsider = new_member(store, new_caller(store).account_id).person
    own = store.run(
        f"SELECT id FROM person WHERE account_id = '{caller.account_id}' AND role = 'owner'"
    )[0][0]
    for wanted in (outsider.id, "per_none", own):
        assert owner.open(f"/account/members/role?member={wanted}").status_code == 404
        owner.open("/account/members")
        refused = owner.send("/account/members/role", member=wanted, role="reader")
        assert refused.status_code == 404
    assert _role_of(store, outsider.id) == _role_of(store, own) == "owner"
    member = new_member(store, caller.account_id, Role.READER).person
    for role in ("operator", "", "OWNER"):
        owner.open(f"/account/members/role?member={member.id}")
        refused = owner.send("/account/members/role", role=role)
        assert refused.status_code == 400 and "There is no such role" in refused.text
    developer = entered(store, Browser(gateway), caller, Role.DEVELOPER)
    assert "Change role" not in developer.open("/account/members").text
    refused = developer.send("/account/members/role", member=member.id, role="owner")
    assert refused.status_code == 403
    assert _role_of(store, member.id) == "reader"
    developer.client.close()


def test_an_operator_changes_roles_but_not_that_of_the_last_owner(
    store: Store, operator: Browser, caller: Caller
) -> None:
    last = new_member(store, caller.account_id).person
    member = new_member(store, caller.account_id, Role.READER).person
    page, path = (
        f"/operator/account/members?id={caller.account_id}",
        "/operator/account/member/role",
    )
    named = f"{path}?account={caller.account_id}&amp;member={last.id}"
    assert f'href="{named}"' in operator.open(page).text
    for language, text in (
        ("en", "The last owner stays one"),
        ("zh", "不能更改最后一名所有者的角色"),
    ):
        operator.client.headers["Accept-Language"] = language
        operator.open(f"{path}?account={caller.account_id}&member={last.id}")
        refused = operator.send(path, role="developer")
        assert refused.status_code == 409 and text in refused.text
        # What was chosen stays.
        assert '<option value="developer" selected>' in refused.text
    assert _role_of(store, last.id) == "owner"
    for who, role in ((member, "owner"), (last, "developer")):
        operator.open(f"{path}?account={caller.account_id}&member={who.id}")
        assert "said=role" in str(operator.send(path, role=role).url)
        assert _role_of(store, who.id) == role
        assert _acts_on(store, who.login)[0] == "member role"


def test_two_owners_who_take_the_role_from_each_other_leave_one(
    store: Store, caller: Caller
) -> None:
    owners = [new_member(store, caller.account_id).person.id for _ in range(2)]

    async def work(database: Database) -> list[BaseException | None]:
        changes = (
            change_role(database, RUNTIME, caller.account_id, each, Role.READER) for each in owners
        )
        return await asyncio.gather(*changes, return_exceptions=True)

    results = store.do(work)
    assert [type(each) for each in results if each is not None] == [LedgerError]
    assert sorted(_role_of(store, each) for each in owners) == ["owner", "reader"]


def test_two_owners_who_remove_each_other_leave_one(store: Store, caller: Caller) -> None:
    owners = [new_member(store, caller.account_id).person.id for _ in range(2)]

    async def work(database: Database) -> list[BaseException | Person]:
        removals = (remove_person(database, RUNTIME, each, keeps_owner=True) for each in owners)
        return await asyncio.gather(*removals, return_exceptions=True)

    results = store.do(work)
    assert sorted(type(each).__name__ for each in results) == ["LedgerError", "Person"]


def test_who_invites_reads_what_a_role_may_do(
    owner: Browser, operator: Browser, caller: Caller
) -> None:
    for language, part in (
        ("en", "an owner also invites and removes members and changes their roles"),
        ("zh", "所有者还可以邀请、移除成员并更改其角色"),
    ):
        for browser in (owner, operator):
            browser.client.headers["Accept-Language"] = language
        assert part in owner.open("/account/members").text
        assert part in operator.open(f"/operator/account/members?id={caller.account_id}").text

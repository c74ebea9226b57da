"""The way of an owner over HTTP: from the refused call to the approval, and back."""

import re
import time
from pathlib import Path

from tests.support.browsers import Browser
from tests.support.changes import assert_seen
from tests.support.consent import PATH, Person, allow, ask, new_asker, new_person
from tests.support.gateway import Gateway
from tests.support.ledger import RUNTIME, Caller
from tests.support.stores import Store
from tollway.consent.grants import GrantRequest, revoke_grant
from tollway.consent.links import ConsentLinks
from tollway.consent.owners import set_password
from tollway.store.keys import load_secret


def link_of(gateway: Gateway, asker: Caller, person: Person) -> str:
    reply = ask(gateway, asker, person.id)
    assert reply.code == 302
    url: str = reply.data["authorize_url"]
    return url


def test_refused_approved_succeeds_revoked_refused_again(
    gateway: Gateway, store: Store, asker: Caller, person: Person, browser: Browser
) -> None:
    link = link_of(gateway, asker, person)
    assert "Sign in" in browser.open(link).text
    asked = browser.sign_in(person.login.upper())
    assert asked.status_code == 200
    for shown in (asker.account_id, "promotion material", str(person.id), "Until", "Approve"):
        assert shown in asked.text
    assert ask(gateway, asker, person.id).code == 302

    approved = browser.send("/authorize", answer="approve")
    assert "You approved" in approved.text
    assert_seen(store, lambda: ask(gateway, asker, person.id).code, 0)
    reply = ask(gateway, asker, person.id)
    assert reply.code == 0

    seen = browser.open("/owner").text
    assert reply.headers["x-request-id"] in seen
    assert "Affiliate promotion material" in seen
    grant_id = browser.hidden()["grant"]
    assert reply.headers["x-request-id"] in browser.open(f"/owner/reads?grant={grant_id}").text

    browser.open("/owner")
    sure = browser.send("/owner/revoke")
    assert "Are you sure?" in sure.text and ask(gateway, asker, person.id).code == 0
    assert "may no longer look up promotion material" in sure.text
    sent_twice = browser.hidden()
    assert "Revoked" in browser.send("/owner/revoke").text
    assert "Revoked" in browser.client.post("/owner/revoke", data=sent_twice).text
    assert_seen(store, lambda: ask(gateway, asker, person.id).code, 302)
    assert reply.headers["x-request-id"] in browser.open("/owner").text


def test_a_repeated_read_is_shown_with_the_one_it_repeats(
    gateway: Gateway, store: Store, asker: Caller, person: Person, browser: Browser
) -> None:
    allow(store, asker, person)
    body = {"adzone_id": 77, "site_id": 66, "promotion_id": 37104, "platform_user_id": person.id}
    first, again = (
        gateway.post_json(PATH, body, token=asker.token, headers={"Idempotency-Key": "k"}).headers[
            "x-request-id"
        ]
        for _ in range(2)
    )
    browser.open("/owner")
    browser.sign_in(person.login)
    home = browser.open("/owner").text
    grant_id = browser.hidden()["grant"]
    for page in (home, browser.open(f"/owner/reads?grant={grant_id}").text):
        assert again in page
        assert f"repeats {first}" in page
        # Both got as many records.
        counts = re.findall(r'data-label="Records">([\d,]+)<', page)
        assert len(counts) == 2 and counts[0] == counts[1]


def test_an_approval_that_is_sent_again_changes_nothing(
    gateway: Gateway, store: Store, asker: Caller, person: Person, browser: Browser
) -> None:
    link = link_of(gateway, asker, person)
    browser.open(link)
    browser.sign_in(person.login)
    changes = []
    for _ in range(3):
        browser.open(link)
        assert "You approved" in browser.send("/authorize", answer="approve").text
        changes += store.run("SELECT directory FROM version")
    assert changes[0] == changes[2]


def test_an_owner_sees_when_a_grant_was_given_and_when_and_by_whom_it_was_extended(
    gateway: Gateway, store: Store, asker: Caller, person: Person, browser: Browser
) -> None:
    link = link_of(gateway, asker, person)
    browser.open(link)
    browser.sign_in(person.login)
    browser.send("/authorize", answer="approve")
    assert "Granted" in browser.open("/owner").text
    assert "Extended" not in browser.open("/owner").text
    # As if it was given 400 days ago, for 401.
    of_it = f"WHERE account_id = '{asker.account_id}'"
    then = "granted_at_s - 34560000", "granted_at_s + 86400"
    store.run(f"UPDATE consent SET granted_at_s = {then[0]}, expires_at_s = {then[1]} {of_it}")
    ((granted_s,),) = store.run(f"SELECT granted_at_s FROM consent {of_it}")
    allow(store, asker, person)
    shown = browser.open("/owner").text
    assert re.search(r"Granted .* by you\.\s+Extended .* by the operator\.\s+Expires", shown)
    browser.open(link)
    browser.send("/authorize", answer="approve")
    shown = browser.open("/owner").text
    assert re.search(r"Granted .* by you\.\s+Extended .* by you\.", shown)
    (row,) = store.run(f"SELECT granted_at_s, granted_by, extended_by FROM consent {of_it}")
    assert tuple(row) == (granted_s, "owner", "owner")


def test_an_owner_approves_and_revokes_so_often_in_a_day(
    gateway: Gateway, store: Store, asker: Caller, person: Person, browser: Browser
) -> None:
    link = link_of(gateway, asker, person)
    for _ in range(20):
        given = allow(store, asker, person)
        store.do(lambda database, of=given.id: revoke_grant(database, RUNTIME, of))  # type: ignore[misc]
    browser.open(link)
    browser.sign_in(person.login)
    refused = browser.send("/authorize", answer="approve")
    assert refused.status_code == 429 and "too often today" in refused.text
    assert ask(gateway, asker, person.id).code == 302
    # What it gave other accounts counts for itself.
    other = new_asker(store)
    browser.open(link_of(gateway, other, person))
    assert "You approved" in browser.send("/authorize", answer="approve").text


def test_declining_allows_nothing(
    gateway: Gateway, asker: Caller, person: Person, browser: Browser
) -> None:
    browser.open(link_of(gateway, asker, person))
    browser.sign_in(person.login)
    assert "You declined" in browser.send("/authorize", answer="decline").text
    assert ask(gateway, asker, person.id).code == 302


def test_holding_the_link_alone_does_nothing(
    gateway: Gateway, asker: Caller, person: Person, browser: Browser
) -> None:
    link = link_of(gateway, asker, person)
    page = browser.open(link).text
    assert asker.account_id not in page
    assert "Sign in" in browser.send(link, answer="approve").text
    assert ask(gateway, asker, person.id).code == 302


def test_another_owner_cannot_approve(
    gateway: Gateway, store: Store, asker: Caller, person: Person, browser: Browser
) -> None:
    other = new_person(store)
    browser.open(link_of(gateway, asker, person))
    link = browser.hidden()["link"]
    response = browser.sign_in(other.login)
    assert response.status_code == 403
    assert "for another owner" in response.text
    assert browser.send("/authorize", answer="approve", link=link).status_code == 403
    assert ask(gateway, asker, person.id).code == 302


def test_who_owns_two_shops_signs_out_of_one_and_is_asked_for_the_other(
    gateway: Gateway, store: Store, asker: Caller, person: Person, browser: Browser
) -> None:
    """The link is in a message that the owner would have to find again."""
    other = new_person(store)
    browser.open(link_of(gateway, asker, person))
    assert browser.sign_in(other.login).status_code == 403
    page = browser.send("/owner/sign-out")
    assert "asks for access to your data" in page.text
    assert asker.account_id in browser.sign_in(person.login).text
    browser.open("/owner")
    assert "You are signed out." in browser.send("/owner/sign-out").text
    browser.open("/owner")
    browser.sign_in(person.login)
    away = browser.send("/owner/sign-out", back="//elsewhere.example/authorize?link=1")
    assert away.url.path == "/owner" and "You are signed out." in away.text


def test_another_owners_grant_is_neither_seen_nor_revoked(
    gateway: Gateway, store: Store, asker: Caller, person: Person, browser: Browser
) -> None:
    given = allow(store, asker, person)
    browser.open("/owner")
    browser.sign_in(new_person(store).login)
    assert given.id not in browser.page
    assert browser.open(f"/owner/reads?grant={given.id}").status_code == 404
    assert browser.send("/owner/revoke", grant=given.id).status_code == 404
    assert ask(gateway, asker, person.id).code == 0


def test_what_can_be_done_to_a_grant_is_read_out_with_whose_it_is(
    store: Store, asker: Caller, person: Person, browser: Browser
) -> None:
    names: list[str] = []
    for each in (asker, new_asker(store)):
        allow(store, each, person)
        named = store.run(f"SELECT name FROM account WHERE id = '{each.account_id}'")
        names.append(str(named[0][0]))
    browser.open("/owner")
    page = browser.sign_in(person.login).text
    for name in names:
        assert f'aria-label="Revoke {name}, look up promotion material' in page


def test_a_changed_link_is_refused(
    gateway: Gateway, asker: Caller, person: Person, browser: Browser
) -> None:
    link = link_of(gateway, asker, person)
    content, _, mac = link.partition("link=")[2].partition(".")
    for wrong in ("", "x", ".", f"{content}.", f"{content}.{mac[:-2]}", f"{content[:-2]}.{mac}"):
        response = browser.open(f"/authorize?link={wrong}")
        assert response.status_code == 400
        assert "not valid" in response.text


def test_an_expired_link_and_a_link_of_the_sandbox_are_explained(
    gateway: Gateway, store: Store, browser: Browser, person: Person
) -> None:
    secret = load_secret(Path(f"{store.path}.secret"))
    links = ConsentLinks(secret, gateway.base_url, 60)
    grant_request = GrantRequest(new_asker(store).account_id, "user", str(person.id), "promotion")
    old = links.make(grant_request, time.time() - 61, is_sandbox=False)
    response = browser.open(old.url)
    assert (response.status_code, "has expired" in response.text) == (400, True)
    test = links.make(grant_request, time.time(), is_sandbox=True)
    response = browser.open(test.url)
    assert (response.status_code, "sandbox" in response.text) == (400, True)
    forged = ConsentLinks(bytes(32), gateway.base_url, 60).make(
        grant_request, time.time(), is_sandbox=False
    )
    assert "not valid" in browser.open(forged.url).text


def test_a_form_without_its_token_is_refused(
    gateway: Gateway, store: Store, asker: Caller, person: Person, browser: Browser
) -> None:
    assert browser.client.post("/owner/sign-in", data={"login": "a"}).status_code == 403
    browser.open(link_of(gateway, asker, person))
    assert browser.send("/owner/sign-in", login="a", form_token="0" * 64).status_code == 403
    browser.open(link_of(gateway, asker, person))
    browser.sign_in(person.login)
    fields = browser.hidden()
    elsewhere = Browser(gateway)
    elsewhere.open("/owner")
    elsewhere.client.close()
    for token in ("", "é", elsewhere.hidden()["form_token"]):
        data = {**fields, "form_token": token, "answer": "approve"}
        assert browser.client.post("/authorize", data=data).status_code == 403
    assert ask(gateway, asker, person.id).code == 302
    given = allow(store, asker, person)
    assert browser.client.post("/owner/revoke", data={"grant": given.id}).status_code == 403
    assert_seen(store, lambda: ask(gateway, asker, person.id).code, 0)
    assert browser.client.post("/owner/sign-out").status_code in (400, 403)


def test_hostile_names_are_shown_and_never_run(
    gateway: Gateway, store: Store, browser: Browser
) -> None:
    evil = "<script>alert('x')</script>\"'&{{7*7}}"
    person = new_person(store, name=evil)
    asker = new_asker(store, name=evil)
    browser.open(link_of(gateway, asker, person))
    page = browser.sign_in(person.login).text
    assert "&lt;script&gt;" in page
    assert "{{7*7}}" in page
    assert "<script>" not in browser.send("/authorize", answer="approve").text


def test_attempts_are_limited_also_for_logins_that_do_not_exist(
    store: Store, browser: Browser
) -> None:
    person = new_person(store)
    for login in (person.login, "an unknown login"):
        browser.open("/owner")
        response = [browser.sign_in(login, "wrong password") for _ in range(6)]
        assert [each.status_code for each in response] == [403] * 5 + [429]
        assert len({each.text for each in response[:5]}) == 1
    # The right password comes too late.
    assert browser.sign_in(person.login).status_code == 429


def test_the_cookie_is_kept_from_scripts_and_other_sites(
    gateway: Gateway, own_store: Store
) -> None:
    gateway.client.cookies.clear()
    cookie = gateway.client.get("/owner").headers["set-cookie"].lower()
    gateway.client.cookies.clear()
    assert "httponly" in cookie and "samesite=lax" in cookie and "max-age=43200" in cookie
    assert "secure" not in cookie
    behind_tls = Gateway(own_store, public_url="https://gateway.example/")
    cookie = behind_tls.client.get("/owner").headers["set-cookie"]
    assert cookie.startswith("__Host-") and "Secure" in cookie and "Path=/;" in f"{cookie};"
    assert "domain" not in cookie.lower()
    # By hand: over plain HTTP the client would not send it.
    sent = {"Cookie": cookie.partition(";")[0]}
    page = behind_tls.client.get("/owner", headers=sent).text
    found = re.search(r'name="form_token" value="([^"]+)"', page)
    assert found is not None
    chosen = {"form_token": found[1], "language": "zh", "theme": "dark"}
    stored = behind_tls.client.post("/view", data=chosen, headers=sent).headers
    assert len(stored.get_list("set-cookie")) == 2
    assert all("Secure" in each and "HttpOnly" in each for each in stored.get_list("set-cookie"))
    asker, person = new_asker(own_store), new_person(own_store)
    assert link_of(behind_tls, asker, person).startswith("https://gateway.example/authorize?link=")
    behind_tls.stop()
    assert Path(f"{own_store.path}.secret").stat().st_mode & 0o777 == 0o600


def test_signing_out_and_a_new_password_end_the_session(
    store: Store, person: Person, browser: Browser
) -> None:
    browser.open("/owner")
    assert "Who may use your data" in browser.sign_in(person.login).text
    assert "You are signed out" in browser.send("/owner/sign-out").text
    assert "Sign in" in browser.open("/owner").text
    assert "Who may use your data" in browser.sign_in(person.login).text
    store.do(lambda database: set_password(database, RUNTIME, person.login, "another password"))
    assert "Sign in" in browser.open("/owner").text


def test_a_read_that_costs_nothing_is_written_down_too(
    gateway: Gateway, store: Store, person: Person, browser: Browser
) -> None:
    asker = new_asker(store, price=0, credits_=0)
    allow(store, asker, person)
    reply = ask(gateway, asker, person.id)
    assert reply.code == 0
    browser.open("/owner")
    assert reply.headers["x-request-id"] in browser.sign_in(person.login).text


def test_a_form_that_is_too_large_is_refused(browser: Browser) -> None:
    browser.open("/owner")
    assert browser.send("/owner/sign-in", login="a" * 20_000).status_code == 413


def test_an_address_that_only_takes_forms_leads_home(browser: Browser) -> None:
    for path in ("/owner/sign-in", "/owner/sign-out", "/owner/revoke", "/owner/reads"):
        assert browser.open(path).url.path == "/owner"


def test_an_address_that_is_no_page_is_a_page_all_the_same(browser: Browser) -> None:
    missing = browser.open("/owner/nope")
    assert missing.status_code == 404
    assert missing.headers["content-type"].startswith("text/html")
    assert "There is no such page" in missing.text


def test_the_pages_follow_the_browsers_language(browser: Browser) -> None:
    browser.client.headers["Accept-Language"] = "zh-CN,zh;q=0.9,en;q=0.5"
    assert 'lang="zh-CN"' in browser.open("/owner").text and "登录" in browser.page
    browser.client.headers["Accept-Language"] = "en"
    assert "Sign in" in browser.open("/owner").text

"""The pages of an account's members: their own account, and never a row of another."""

import re
import time
from datetime import datetime
from types import SimpleNamespace
from typing import cast
from zoneinfo import ZoneInfo

import pytest

from tests.support.browsers import Browser, shown_secret
from tests.support.gateway import Gateway
from tests.support.ledger import Caller, new_caller
from tests.support.members import entered, new_member
from tests.support.stores import Store
from tollway.identity.people import Role
from tollway.ledger.runtime import Runtime
from tollway.ledger.tokens import list_tokens
from tollway.store.database import Database, StoreError
from tollway.web.area import Context
from tollway.web.caller.home import alert_act
from tollway.webhooks.polled_events import list_alerts


def test_a_member_issues_a_token_calls_and_finds_the_receipt(
    member: Browser, gateway: Gateway, question: dict[str, str]
) -> None:
    member.open("/account/tokens")
    token = shown_secret(member.send("/account/tokens/issue", kind="live", label="mine").text)
    reply = gateway.get(token=token, query=question)
    request_id = reply.headers["x-request-id"]
    assert request_id in member.open("/account/requests").text
    assert "100 → 99" in member.open(f"/account/request?id={request_id}").text
    # Of many calls in a second, some are not timed; the times of the others come a second later.
    until = time.monotonic() + 20
    again_at = time.monotonic() + 3
    while "answered in" not in member.page and time.monotonic() < until:
        if time.monotonic() > again_at:
            request_id = gateway.get(token=token, query=question).headers["x-request-id"]
            again_at += 3
        member.open(f"/account/request?id={request_id}")
    assert re.search(r"<b>charge</b>.*?class=\"taken\">[\d.,]+ m?s<", member.page, re.DOTALL)
    assert request_id in member.open("/account/ledger").text
    ledger = member.client.get("/account/ledger.csv?unit=calls:product_analysis").text
    log = member.client.get("/account/requests.csv").text
    assert ledger.startswith("\ufeffentry,at,kind") and log.startswith("\ufeffrequest_id,at")
    assert request_id in ledger and request_id in log


def test_a_member_reads_the_statement_of_a_month(
    member: Browser, gateway: Gateway, caller: Caller, question: dict[str, str]
) -> None:
    assert gateway.get(token=caller.token, query=question).code == 0
    assert 'href="/account/statement"' in member.open("/account/ledger").text
    shown = " ".join(re.sub(r"<[^>]*>", " ", member.open("/account/statement").text).split())
    month = f"{datetime.now(ZoneInfo('Asia/Shanghai')):%Y-%m}"
    assert f"· {month}" in shown and "calls: Product analysis 0 100 0 0 1 0 99" in shown
    assert "Operation Calls Charged Product analysis 1 1 call" in shown
    assert "Nothing was charged." in member.open("/account/statement?month=2001-02").text
    assert member.open("/account/statement?month=2001-13").status_code == 400


@pytest.mark.parametrize(
    ("filters", "problem"),
    [("since=yesterday", "This is no time"), ("amount=many", "This is no whole number")],
)
def test_a_file_with_a_filter_that_cannot_be_read_is_refused_as_its_page_says(
    member: Browser, filters: str, problem: str
) -> None:
    assert problem in member.open(f"/account/requests?{filters}").text
    refused = member.client.get(f"/account/requests.csv?{filters}")
    assert refused.status_code == 400 and problem in refused.text
    assert "content-disposition" not in refused.headers


def test_calls_in_the_sandbox_have_a_receipt_but_are_not_in_the_log_and_pages_say_so(
    member: Browser, gateway: Gateway, question: dict[str, str]
) -> None:
    member.open("/account/tokens")
    issued = member.send("/account/tokens/issue", kind="test", label="try").text
    assert "A call in the sandbox is not in the request log" in issued
    assert "its receipt is in the request log" not in issued
    reply = gateway.get(token=shown_secret(issued), query=question)
    request_id = reply.headers["x-request-id"]
    log = member.open("/account/requests").text
    assert request_id not in log and "Calls in the sandbox are not listed here." in log
    until = time.monotonic() + 20
    while (found := member.open(f"/account/search?q={request_id}")).status_code == 404:
        assert time.monotonic() < until
    assert request_id in found.text
    live = member.open("/account/tokens") and member.send("/account/tokens/issue", kind="live")
    assert "its receipt is in the request log" in live.text


def test_a_call_is_on_the_first_page_at_once(
    member: Browser, gateway: Gateway, caller: Caller, question: dict[str, str]
) -> None:
    assert "No call was charged in this time." in member.open("/account").text
    assert gateway.get(token=caller.token, query=question).code == 0
    page = member.open("/account").text
    assert "Product analysis 1" in page and "No call was charged in this time." not in page


def test_a_member_makes_so_many_tokens_and_invitations_a_day(
    member: Browser, store: Store, caller: Caller
) -> None:
    def make() -> list[str]:
        member.open("/account/tokens")
        token = member.send("/account/tokens/issue", kind="live", label="mine").text
        member.open("/account/members")
        asked = {"name": "Li", "login": f"li{time.time_ns()}", "role": "reader"}
        return [token, member.send("/account/members/invite", **asked).text]

    assert all(map(shown_secret, make()))
    store.run(f"UPDATE account_day SET number = 1000 WHERE account_id = '{caller.account_id}'")
    assert all("try again tomorrow" in each for each in make())


def test_a_member_issues_a_limited_token(
    member: Browser, gateway: Gateway, question: dict[str, str]
) -> None:
    member.open("/account/tokens")
    shown = member.send(
        "/account/tokens/issue", kind="live", only_product_analysis="yes", calls_per_day="1"
    ).text
    assert "Product analysis; 1 call a day" in shown
    # What an act shows belongs to the page of its form.
    assert 'href="/account/tokens" aria-current="true"' in shown
    token = shown_secret(shown)
    assert [gateway.get(token=token, query=question).code for _ in range(2)] == [0, 204]
    wrong = member.send(
        "/account/tokens/issue", kind="live", addresses="nowhere", only_account="yes"
    )
    assert "203.0.113.0/24" in wrong.text and "nowhere" in wrong.text
    assert re.findall(r'name="(only_\w+)" value="yes" checked', wrong.text) == ["only_account"]


def test_a_token_is_rotated_and_the_old_one_is_accepted_for_a_while(
    member: Browser, gateway: Gateway, caller: Caller, question: dict[str, str]
) -> None:
    member.open(f"/account/tokens/rotate?token={caller.token_id}")
    assert member.send("/account/tokens/rotate", hours="5").status_code == 400
    member.open(f"/account/tokens/rotate?token={caller.token_id}")
    new = shown_secret(member.send("/account/tokens/rotate", hours="24").text)
    assert [gateway.get(token=each, query=question).code for each in (new, caller.token)] == [0, 0]
    assert "in 24 h" in member.open("/account/tokens").text


def test_a_rotation_that_is_sent_again_makes_no_token_that_ends_with_the_old_one(
    member: Browser, caller: Caller, store: Store
) -> None:
    path = "/account/tokens/rotate"
    member.open(f"{path}?token={caller.token_id}")
    sent = {**member.hidden(), "hours": "24"}
    assert shown_secret(member.client.post(path, data=sent).text)
    again = member.client.post(path, data=sent)
    assert again.status_code == 409 and "This token was rotated meanwhile" in again.text
    tokens = store.do(lambda database: list_tokens(database, caller.account_id))
    assert len(tokens) == 2
    assert [e.id == caller.token_id for e in tokens] == [e.expires_at_s is not None for e in tokens]
    # Rotating the old one once more is possible, and says when the new one ends.
    assert "and ends with this one" in member.open(f"{path}?token={caller.token_id}").text
    assert shown_secret(member.send(path, hours="24").text)


def test_a_token_that_has_ended_is_not_rotated(
    member: Browser, caller: Caller, store: Store
) -> None:
    path = f"/account/tokens/rotate?token={caller.token_id}"
    member.open(path)
    store.run(f"UPDATE token SET expires_at_s = 1 WHERE id = '{caller.token_id}'")
    refused = member.send("/account/tokens/rotate", hours="24")
    assert refused.status_code == 409 and "This token has ended" in refused.text
    assert member.open(path).status_code == 409


def test_no_page_shows_or_changes_a_row_of_another_account(
    member: Browser, gateway: Gateway, store: Store, question: dict[str, str]
) -> None:
    other = new_caller(store)
    reply = gateway.get(token=other.token, query=question)
    request_id = reply.headers["x-request-id"]
    assert member.open(f"/account/request?id={request_id}").status_code == 404
    for path in (
        "/account",
        f"/account/requests?account={other.account_id}",
        f"/account/ledger?id={other.account_id}&account={other.account_id}",
        f"/account/statement?id={other.account_id}&account={other.account_id}",
        f"/account/tokens?account={other.account_id}",
        "/account/shops",
        "/account/members",
        f"/account/analysis?account={other.account_id}",
        f"/account/try?account={other.account_id}",
        "/account/requests.csv",
        f"/account/ledger.csv?account={other.account_id}&unit=calls:product_analysis",
    ):
        page = member.client.get(path).text
        assert request_id not in page and other.token_id not in page
    member.open("/account/tokens")
    for fields in ({"token": other.token_id}, {"token": other.token_id, "sure": "yes"}):
        assert member.send("/account/tokens/revoke", **fields).status_code == 404
        member.open("/account/tokens")
    outsider = new_member(store, other.account_id)
    removed = member.send("/account/members/remove", member=outsider.person.id, sure="yes")
    assert removed.status_code == 404
    assert gateway.get(token=other.token, query=question).code == 0


def test_the_areas_of_operators_and_owners_do_not_take_a_members_session(member: Browser) -> None:
    for path in ("/operator", "/operator/accounts", "/owner"):
        assert 'type="password"' in member.open(path).text


def test_a_reader_changes_nothing_and_a_developer_invites_no_one(
    store: Store, browser: Browser, caller: Caller
) -> None:
    reader = entered(store, browser, caller, Role.READER)
    page = reader.open("/account/tokens").text
    assert "Issue token" not in page
    assert reader.send("/account/tokens/issue", kind="live").status_code == 403
    reader.open("/account")
    reader.send("/account/sign-out")
    developer = entered(store, browser, caller, Role.DEVELOPER)
    developer.open("/account/tokens")
    assert "not shown again" in developer.send("/account/tokens/issue", kind="test").text
    developer.open("/account/members")
    fields = {"name": "x", "login": "xxxx", "role": "owner"}
    assert developer.send("/account/members/invite", **fields).status_code == 403


def test_a_member_who_was_removed_is_signed_out(
    store: Store, member: Browser, caller: Caller, gateway: Gateway
) -> None:
    other = Browser(gateway)
    made = new_member(store, caller.account_id, Role.DEVELOPER)
    other.open(f"/account/enter?link={made.link}")
    other.send("/account/enter")
    member.open("/account/members")
    assert "Are you sure" in member.send("/account/members/remove", member=made.person.id).text
    member.send("/account/members/remove")
    assert 'type="password"' in other.open("/account").text
    other.client.close()


def test_a_member_sets_the_line_below_which_a_balance_is_reported(
    member: Browser, caller: Caller, store: Store
) -> None:
    member.open("/account")
    assert "left, below your alert" not in member.page
    unit = "calls:product_analysis"
    assert member.send("/account/alert", unit="calls:none", below="5").status_code == 400
    member.open("/account")
    assert "Calls: Product analysis: 100 left, below your alert of 101." in (
        member.send("/account/alert", unit=unit, below="101").text
    )
    assert (
        "left, below your alert" not in member.send("/account/alert", unit=unit, below="100").text
    )
    assert "Set now: calls: Product analysis below 100." in member.page
    assert "Set now" not in member.send("/account/alert", unit=unit, below="0").text
    reader = entered(store, member, caller, Role.READER)
    assert 'action="/account/alert"' not in reader.open("/account").text


def test_a_line_that_cannot_be_recorded_is_not_set(caller: Caller, store: Store) -> None:
    class NoClock(Runtime):
        def at_ms(self) -> int:
            raise StoreError("The trail is gone.")

    async def work(database: Database) -> list[tuple[str, int]]:
        context = SimpleNamespace(
            form={"unit": "credits"},
            say=lambda text, **_: text,
            whole_number=lambda *_: 7,
            person=SimpleNamespace(account_id=caller.account_id),
            database=database,
            runtime=NoClock(by="member li"),
            day_start_s=0,
        )
        with pytest.raises(StoreError):
            await alert_act(cast("Context", context))
        return await list_alerts(database, caller.account_id)

    assert store.do(work) == []


@pytest.mark.parametrize("path", ["/account/ledger", "/account/requests"])
def test_the_file_of_a_list_is_offered_before_its_rows(member: Browser, path: str) -> None:
    page = member.open(path).text
    begin = page.index('class="filters')
    assert f'href="{path}.csv' in page[begin : page.index("</form>", begin)]

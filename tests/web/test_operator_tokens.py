"""Tokens on the pages of an operator: issued with a call to copy, listed, revoked."""

import html
import re
from datetime import datetime
from types import SimpleNamespace
from typing import cast
from zoneinfo import ZoneInfo

import pytest

from tests.support.browsers import Browser, shown_secret
from tests.support.consent import PASSWORD
from tests.support.gateway import Gateway
from tests.support.ledger import RUNTIME, Caller, new_caller
from tests.support.orders import OWNER
from tests.support.stores import Store
from tollway.consent.owners import Owner, add_owner
from tollway.ledger.token_limits import TokenLimits
from tollway.ledger.tokens import issue_token, revoke_token
from tollway.operations.account_api.examples import ALL_EXAMPLES
from tollway.operations.catalogue import OPERATIONS
from tollway.operations.examples import EXAMPLES
from tollway.operations.product_analysis.operation import PRODUCT_ANALYSIS
from tollway.settings import Settings
from tollway.store.database import Database
from tollway.web import token_parts
from tollway.web.area import PAGE_ROWS, Context
from tollway.web.token_parts import payable_operations
from tollway.web.wording import PLAIN_VIEW


def test_revoking_a_token_asks_once_and_acts_on_the_next_call(
    operator: Browser, gateway: Gateway, caller: Caller, question: dict[str, str]
) -> None:
    query = f"account={caller.account_id}&token={caller.token_id}&sure=yes"
    assert "Are you sure" in operator.open(f"/operator/account/token/revoke?{query}").text
    assert gateway.get(token=caller.token, query=question).code == 0
    operator.send(f"/operator/account/token/revoke?{query}")
    # On a shared database too: the process that revoked it answers this call.
    assert gateway.get(token=caller.token, query=question).code == 401


def test_a_new_token_is_shown_with_a_call_to_copy_and_what_the_account_still_needs(
    operator: Browser, store: Store
) -> None:
    bare = new_caller(store, granted=False)
    operator.open(f"/operator/account?id={bare.account_id}")
    of = {"account": bare.account_id}
    page = operator.send("/operator/account/token", **of).text
    assert "A first call with it" not in page and "of this token yet" in page
    operator.send("/operator/account/permission", **of, operation="coupon_claims", state="may")
    page = operator.send("/operator/account/token", **of, only_orders="yes").text
    assert "of this token yet" in page
    operator.send("/operator/account/permission", **of, operation="*", state="may")
    page = operator.send("/operator/account/token", **of, only_orders="yes").text
    assert "A first call with it" not in page and "can be paid yet" in page
    paid = {"unit": "credits", "amount": "5", "note": "first", "sure": "yes"}
    operator.send("/operator/account/top-up", **of, **paid)
    page = html.unescape(operator.send("/operator/account/token", **of, only_orders="yes").text)
    assert f'-H "Authorization: Bearer {shown_secret(page)}"' in page
    assert f'<a href="/operator/requests?account={bare.account_id}">Requests</a>' in page
    assert "/papi/tool/erps/paging-orders" in page and "can be paid yet" not in page
    page = operator.send("/operator/account/token", **of, kind="test", only_account="yes").text
    assert "A first call with it" not in page and "of this token yet" not in page


def test_many_tokens_are_listed_page_by_page_and_those_in_force_first(
    operator: Browser, store: Store
) -> None:
    caller = new_caller(store)

    async def work(database: Database) -> list[str]:
        await revoke_token(database, RUNTIME, caller.token)
        issued = [
            (await issue_token(database, RUNTIME, caller.account_id)).token.id
            for _ in range(PAGE_ROWS + 6)
        ]
        await revoke_token(database, RUNTIME, issued[0])
        return issued

    _, *in_force, first_expired, last_expired = store.do(work)
    expired = f"('{first_expired}', '{last_expired}')"
    store.run(f"UPDATE token SET expires_at_s = issued_at_s WHERE id IN {expired}")
    first = operator.open(f"/operator/account/tokens?id={caller.account_id}").text
    listed = re.findall(r"token=(tok_\w+)", first)
    assert len(set(listed)) == PAGE_ROWS
    assert ">revoked</span>" not in first and ">expired</span>" not in first
    older = re.search(r'href="([^"]+)" rel="next"', first)
    assert older is not None
    # The next page begins behind it although it is further back now.
    store.do(lambda database: revoke_token(database, RUNTIME, listed[-1]))
    second = operator.open(html.unescape(older[1])).text
    assert {*listed, *re.findall(r"token=(tok_\w+)", second)} == set(in_force)
    assert re.findall(">(expired|revoked)</span>", second) == ["expired"] * 2 + ["revoked"] * 3
    assert 'rel="next"' not in second
    unknown = operator.open(f"/operator/account/tokens?id={caller.account_id}&after=tok_none").text
    assert len(set(re.findall(r"token=(tok_\w+)", unknown))) == PAGE_ROWS


def test_the_call_that_a_new_token_offers_is_one_that_the_balance_covers(
    operator: Browser, store: Store
) -> None:
    bare = new_caller(store, granted=False)
    operator.open(f"/operator/account?id={bare.account_id}")
    of = {"account": bare.account_id}

    def has_offer(price: int) -> bool:
        own = {"operation": "orders", "state": "may", "price": str(price)}
        sent = operator.send("/operator/account/permission", **of, **own)
        if "Are you sure" in sent.text:
            operator.send("/operator/account/permission")
        page = operator.send("/operator/account/token", **of, only_orders="yes").text
        return "A first call with it" in page

    assert has_offer(0) and not has_offer(3)
    paid = {"unit": "credits", "amount": "3", "note": "first", "sure": "yes"}
    operator.send("/operator/account/top-up", **of, **paid)
    assert has_offer(3) and not has_offer(4)


def _offered(store: Store, kind: str = "live") -> str:
    """What is shown with a new token of an account that can pay everything."""
    paying = new_caller(store, operations=OPERATIONS, credits_=100)
    context = SimpleNamespace(
        say=PLAIN_VIEW.say,
        web=SimpleNamespace(now=lambda: datetime.now(ZoneInfo("Asia/Shanghai"))),
        services=SimpleNamespace(settings=Settings()),
        person=SimpleNamespace(account_id=""),
    )

    async def shown(database: Database) -> str:
        context.database = database
        issued = await issue_token(database, RUNTIME, paying.account_id, kind=kind)
        # So the page does not say to an operator that it cannot be paid.
        assert await payable_operations(cast(Context, context), issued.token)
        return str(await token_parts.new_token(cast(Context, context), issued))

    return store.do(shown)


def test_the_call_that_a_new_token_offers_names_nothing_that_is_not_there(
    own_store: Store,
) -> None:
    said = "Put a value of your own in place of PRODUCT_ID."
    assert "product_id=PRODUCT_ID&" in (offered := _offered(own_store)) and said in offered
    # Each account has demo data in its sandbox, and the demo world has it outside too.
    product_id = EXAMPLES[PRODUCT_ANALYSIS.name].answer.itemId  # type: ignore[attr-defined]
    assert f"product_id={product_id}&" in (offered := _offered(own_store, "test"))
    assert said not in offered
    known = Owner("shop", OWNER, "One", "QH7K2M", "one", 0)
    own_store.do(lambda database: add_owner(database, RUNTIME, known, PASSWORD))
    assert f"product_id={product_id}&" in (offered := _offered(own_store)) and said not in offered


def test_a_call_is_offered_of_the_first_operation_that_has_an_example(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "goods-analysis" in _offered(store)
    examples = {name: each for name, each in ALL_EXAMPLES.items() if name != "product_analysis"}
    monkeypatch.setattr(token_parts, "ALL_EXAMPLES", examples)
    assert "partner_couponList" in _offered(store)
    monkeypatch.setattr(token_parts, "ALL_EXAMPLES", {})
    assert "A first call with it" not in _offered(store)


@pytest.mark.parametrize("days", ["0", "-1", "36501", "9999999"])
def test_a_token_is_valid_for_a_time_that_a_calendar_has(
    operator: Browser, caller: Caller, days: str
) -> None:
    path = f"/operator/account/tokens?id={caller.account_id}"
    operator.open(path)
    refused = operator.send("/operator/account/token", account=caller.account_id, days=days)
    assert refused.status_code == 409 and "1 to 36,500 days" in refused.text
    assert len(re.findall(">active</span>", operator.open(path).text)) == 1


def test_a_token_that_is_valid_beyond_all_calendars_is_listed(
    operator: Browser, store: Store, caller: Caller
) -> None:
    store.run(f"UPDATE token SET expires_at_s = 864000000000 WHERE id = '{caller.token_id}'")
    page = operator.open(f"/operator/account/tokens?id={caller.account_id}")
    assert page.status_code == 200 and "9999-12-30" in page.text


def test_a_token_that_expires_within_a_week_is_marked_and_its_limits_are_named(
    operator: Browser, store: Store, caller: Caller
) -> None:
    limits = TokenLimits(["orders"], None)
    for days in (6, 8):
        lasts = {"label": f"{days} days", "lifetime_s": days * 86_400, "limits": limits}
        store.do(lambda db, of=lasts: issue_token(db, RUNTIME, caller.account_id, **of))  # type: ignore[misc]
    page = operator.open(f"/operator/account/tokens?id={caller.account_id}").text
    assert page.count('class="state soon"') == 1 and page.count(">Paged order query</td>") == 2


def test_a_cap_of_a_day_is_not_negative(operator: Browser, caller: Caller) -> None:
    operator.open(f"/operator/account/tokens?id={caller.account_id}")
    of = {"account": caller.account_id}
    refused = operator.send("/operator/account/token", **of, calls_per_day="-1")
    assert refused.status_code == 409 and "A cap of a day" in refused.text

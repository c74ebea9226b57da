"""The shops that authorized an account, page by page, and the links by which it asks others."""

import re
from urllib.parse import urlsplit

from tests.support.browsers import Browser, shown_secret
from tests.support.consent import PASSWORD, allow, ask, new_person
from tests.support.gateway import Gateway
from tests.support.ledger import RUNTIME, Caller, new_caller
from tests.support.members import entered
from tests.support.remote import eventually
from tests.support.stores import Store
from tollway.consent.grants import GrantRequest, give_grant, revoke_grant
from tollway.consent.owners import Owner, add_owner
from tollway.identity.people import Role
from tollway.operations.orders.operation import ORDERS
from tollway.web.area import PAGE_ROWS


def _entered(store: Store, browser: Browser, asker: Caller, role: Role = Role.OWNER) -> Browser:
    return entered(store, browser, Caller(asker.account_id, asker.token, ""), role)


def test_a_link_from_the_page_is_approved_and_the_shop_is_listed(
    store: Store, browser: Browser, asker: Caller, gateway: Gateway
) -> None:
    member, person = _entered(store, browser, asker), new_person(store)
    member.open("/account/shops")
    assert "Make a link below and send it to a shop" in member.page
    page = member.send("/account/shops/ask", need="user:promotion", owner=str(person.id)).text
    address = urlsplit(shown_secret(page))
    assert ask(gateway, asker, person.id).code == 302
    owner = Browser(gateway)
    owner.open(f"{address.path}?{address.query}")
    owner.sign_in(person.login)
    assert "approved" in owner.send("/authorize", answer="approve").text
    owner.client.close()
    assert ask(gateway, asker, person.id).code == 0
    assert f"user {person.id}" in member.open("/account/shops").text


def test_a_shop_is_named_while_it_allows_something_and_a_user_never(
    store: Store, browser: Browser, gateway: Gateway
) -> None:
    shop = Owner("shop", "77120001", "蓝港 <b>", None, "login-77120001", 0)
    store.do(lambda database: add_owner(database, RUNTIME, shop, PASSWORD))
    caller = new_caller(store, operations=[ORDERS], credits_=10)
    member, person = _entered(store, browser, caller), new_person(store, "林小满")
    called = gateway.post_form(ORDERS.path, {"owner_id": shop.id}, token=caller.token)
    receipt = f"/account/request?id={called.headers['x-request-id']}"
    page = eventually(lambda: member.open(receipt).text, lambda page: shop.id in page)
    assert called.code == 302 and "蓝港" not in page
    allow(store, caller, person)
    wanted = GrantRequest(caller.account_id, "shop", shop.id, "orders")
    given = store.do(
        lambda database: give_grant(
            database, RUNTIME, wanted, lifetime_s=3600, granted_by="operator"
        )
    )
    named = f"shop {shop.id} · 蓝港 &lt;b&gt;"
    assert named in member.open("/account/shops").text and "林小满" not in member.page
    assert named in member.open(receipt).text
    store.do(lambda database: revoke_grant(database, RUNTIME, given.id))
    for path in ("/account/shops", receipt):
        assert shop.id in member.open(path).text and "蓝港" not in member.page


def test_an_owner_that_is_not_known_is_refused_with_what_was_typed(
    store: Store, browser: Browser, asker: Caller
) -> None:
    member = _entered(store, browser, asker)
    member.open("/account/shops")
    refused = member.send("/account/shops/ask", need="user:promotion", owner="no-such-owner")
    assert refused.status_code == 404 and "is known here" in refused.text
    assert 'value="no-such-owner"' in refused.text and "authorize?link" not in refused.text
    assert member.send("/account/shops/ask", need="shop:none", owner="1").status_code == 400


def test_a_reader_makes_no_link(store: Store, browser: Browser, asker: Caller) -> None:
    reader, person = _entered(store, browser, asker, Role.READER), new_person(store)
    assert "/account/shops/ask" not in reader.open("/account/shops").text
    sent = reader.send("/account/shops/ask", need="user:promotion", owner=str(person.id))
    assert sent.status_code == 403


def test_shops_are_listed_page_by_page_and_found_by_their_id(
    store: Store, browser: Browser, asker: Caller
) -> None:
    member, first = _entered(store, browser, asker), new_person(store)
    allow(store, asker, first)
    account = f"account_id = '{asker.account_id}'"
    # As many as a page has and one more, granted in the same second.
    copied = "scope, granted_by, granted_at_s, expires_at_s, revoked_at_s"
    for number in range(PAGE_ROWS):
        store.run(
            "INSERT INTO consent (owner_kind, owner_id, id, account_id, " + copied + ") "
            f"SELECT owner_kind, '{first.id}-{number:02}', id || '-{number:02}', account_id, "
            f"{copied} FROM consent WHERE {account} AND owner_id = '{first.id}'"
        )
    shown = re.findall(rf"user ({first.id}[-\d]*)<", member.open("/account/shops").text)
    assert len(shown) == PAGE_ROWS
    older = re.search(r'href="([^"]+)" rel="next"', member.page)
    assert older is not None
    rest = re.findall(
        rf"user ({first.id}[-\d]*)<", member.open(older[1].replace("&amp;", "&")).text
    )
    assert len(rest) == 1 and len({*shown, *rest}) == PAGE_ROWS + 1
    found = member.open(f"/account/shops?q={first.id}-07").text
    assert re.findall(rf"user ({first.id}[-\d]*)<", found) == [f"{first.id}-07"]
    assert member.open("/account/shops?after=x%3Ay").status_code == 200

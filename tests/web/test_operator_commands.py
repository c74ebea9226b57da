"""What a command does to an account, an operation, a carrier or a source, a page can do too."""

import time

from tests.cli.conftest import charge_calls
from tests.support.browsers import Browser, shown_secret
from tests.support.commands import all_commands
from tests.support.ledger import RUNTIME, Caller
from tests.support.stores import Store
from tests.support.waybills import new_carrier
from tollway.ledger.accounts import close_account
from tollway.web.operator.pages import PAGES

_ACCOUNT, _CARRIER, _SHOP = "/operator/account", "/operator/carrier", "/operator/shop"
_PAGE_OF = {
    "operator invite": "/operator/operators/invite",
    "operator link": "/operator/operators/link",
    "operator list": "/operator/operators",
    "operator remove": "/operator/operators/remove",
    "account open": "/operator/accounts/open",
    "account list": "/operator/accounts",
    "account show": _ACCOUNT,
    "account suspend": f"{_ACCOUNT}/suspend",
    "account resume": f"{_ACCOUNT}/resume",
    "account close": f"{_ACCOUNT}/close",
    "token issue": f"{_ACCOUNT}/token",
    "token list": f"{_ACCOUNT}/tokens",
    "token revoke": f"{_ACCOUNT}/token/revoke",
    "client add": f"{_ACCOUNT}/clients/add",
    "client list": f"{_ACCOUNT}/clients",
    "client revoke": f"{_ACCOUNT}/clients/revoke",
    "credit add": f"{_ACCOUNT}/top-up",
    "permission add": f"{_ACCOUNT}/permission",
    "permission revoke": f"{_ACCOUNT}/permission",
    "shop add": f"{_SHOP}/add",
    "shop list": "/operator/shops",
    "shop password": f"{_SHOP}/password",
    "shop sign-out": f"{_SHOP}/sign-out",
    "shop erase-receivers": f"{_SHOP}/erase",
    "consent list": "/operator/consents",
    "consent grant": f"{_SHOP}/consent",
    "consent revoke": "/operator/consents/revoke",
    "operation list": "/operator/prices",
    "operation open": "/operator/prices/state",
    "operation close": "/operator/prices/state",
    "price list": "/operator/prices",
    "price set": "/operator/prices/price",
    "ledger show": f"{_ACCOUNT}/ledger",
    "ledger export": f"{_ACCOUNT}/ledger.csv",
    "ledger statement": f"{_ACCOUNT}/statement",
    "receipt": "/operator/request",
    "import product-figures": "/operator/data/import",
    "import coupon-claims": "/operator/data/import",
    "import promotion-material": "/operator/data/import",
    "import orders": "/operator/data/import",
    "carrier add": f"{_CARRIER}/add",
    "carrier list": "/operator/carriers",
    "carrier routes": f"{_CARRIER}/routes",
    "carrier connect": f"{_CARRIER}/connect",
    "carrier subscriptions": f"{_CARRIER}/subscriptions",
    "carrier disconnect": f"{_CARRIER}/disconnect",
    "pool add": "/operator/carriers/numbers",
    "pool list": "/operator/carriers",
    "waybill list": "/operator/waybills",
    "waybill show": "/operator/waybill",
    "waybill label": "/operator/waybill/label",
    "waybill cancel": "/operator/waybill/cancel",
    "hold list": "/operator/waybills",
    "reconcile": "/operator/waybill/decide",
    "source add": "/operator/data/source/add",
    "source set": "/operator/data/source/set",
    "source rotate": "/operator/data/rotate",
    "source list": "/operator/data",
    "intake rejected list": "/operator/data",
    "intake rejected replay": "/operator/data/replay",
    "intake rejected drop": "/operator/data/drop",
    "backup": "/operator/backup/download",
    "trail show": "/operator/trail",
    "audit": "/operator/audit/run",
    "settings": "/operator/settings",
    "second-factor list": "/operator/second-factors",
    "second-factor reset": "/operator/second-factors/reset",
}
# About the machine, the database as a whole, what the gateway does by itself, or for the time
# between a restore and its start.
_TERMINAL_ONLY = {
    *("serve", "demo", "mcp", "migrate", "restore", "move", "pool remove"),
    *("keys accept", "keys rotate", "retention apply", "records remake"),
}


def test_every_command_has_a_page_or_needs_a_terminal() -> None:
    assert all_commands().keys() == {*_PAGE_OF, *_TERMINAL_ONLY}
    assert set(_PAGE_OF.values()) <= {each.path for each in PAGES}


def confirmed(operator: Browser, path: str, **fields: str) -> str:
    """An act that asks once; what follows when it was confirmed."""
    asked = operator.send(path, **fields).text
    assert "Are you sure?" in asked or "Please confirm" in asked
    return operator.send(path).text


def test_a_carrier_is_added_changed_connected_and_disconnected(operator: Browser) -> None:
    code = f"C{time.time_ns()}"
    operator.open("/operator/carriers")
    where = {"area": "only", "provinces": ""}
    wrong = operator.send("/operator/carrier/add", code=code, name="One", format="X[0-9]+", **where)
    assert wrong.status_code == 400
    operator.open("/operator/carriers")
    added = operator.send(
        "/operator/carrier/add",
        code=code,
        name="One",
        format="X[0-9]{9}",
        area="only",
        provinces="广东，北京",
    )
    assert added.url.path == "/operator/carrier" and "only to 广东, 北京" in added.text
    link = {
        "url": "https://carrier.example/link",
        "protocol": "cainiao-link",
        "provider": "me",
        "template": "https://carrier.example/template",
        "secret": "sesame-123",
        "deadline_ms": "5000",
        "settle_after_s": "60",
    }
    assert operator.send("/operator/carrier/connect", **link | {"url": "x"}).status_code == 409
    operator.open(f"/operator/carrier?carrier={code}")
    for host in ("127.0.0.1:9", "[::ffff:10.0.0.1]", "2130706433", "localhost"):
        inside = link | {"url": f"http://{host}/link", "plain": "yes"}
        refused = operator.send("/operator/carrier/connect", **inside)
        assert refused.status_code == 409 and "internal" in refused.text, host
        operator.open(f"/operator/carrier?carrier={code}")
    connected = operator.send("/operator/carrier/connect", **link).text
    assert "https://carrier.example/link" in connected and "sesame-123" not in connected
    assert "Ask the carrier" in connected
    gone = confirmed(operator, "/operator/carrier/disconnect", carrier=code)
    assert "Ask the carrier" not in gone
    rows = "province,city,district,route_code\n广东省,,,755A\nnowhere,,,1\n"
    stored = operator.client.post(
        "/operator/carrier/routes",
        data=operator.hidden() | {"carrier": code},
        files={"file": ("routes.csv", rows.encode())},
    )
    assert "Rows stored: 1, rejected: 1." in stored.text and "755A" in stored.text
    trail = operator.open(f"/operator/trail?of=carrier {code}").text
    assert "area: only to 广东, 北京" in trail
    for act in ("carrier add", "carrier connect", "carrier disconnect"):
        assert act in trail


def test_a_source_speaks_for_others_once_it_was_set(operator: Browser) -> None:
    name = f"erp{time.time_ns()}"
    operator.open("/operator/data")
    assert shown_secret(operator.send("/operator/data/source/add", name=name, shops="1 2").text)
    assert 'value="1 2"' in operator.open(f"/operator/data/source?source={name}").text
    shown = operator.send("/operator/data/source/set", source=name, shops="3", channels="*").text
    assert 'value="3"' in operator.open(f"/operator/data/source?source={name}").text
    assert name in shown and operator.open("/operator/data/source?source=no").status_code == 404


def test_a_new_secret_that_is_confirmed_twice_is_made_once(operator: Browser) -> None:
    name, path = f"erp{time.time_ns()}", "/operator/data/rotate"
    operator.open("/operator/data")
    assert shown_secret(operator.send("/operator/data/source/add", name=name, shops="1").text)
    operator.open(f"{path}?source={name}")
    sent = operator.hidden()
    assert shown_secret(operator.client.post(path, data=sent).text)
    # One more would end the secret that the source still uses.
    again = operator.client.post(path, data=sent)
    assert again.status_code == 409 and "was changed meanwhile" in again.text
    trail = operator.open(f"/operator/trail?of=source {name}").text
    assert trail.count('title="source rotate"') == 1


def test_a_shop_is_added_found_without_consents_and_given_one(
    operator: Browser, caller: Caller
) -> None:
    shop = str(time.time_ns())
    operator.open("/operator/shops")
    fields = {"kind": "shop", "id": shop, "name": f"Tea_{shop}", "login": f"tea{shop}"}
    link = shown_secret(operator.send("/operator/shop/add", **fields).text)
    for wanted in (shop, f"tEA_{shop}", f"TEA{shop}"):
        page = operator.open(f"/operator/shops?q={wanted}").text
        assert f"Tea_{shop}</a>" in page and page.count("<tr>") == 2
    assert operator.open(f"/operator/search?q={shop}").url.path == "/operator/shop"
    assert "No shop or user matches" in operator.open(f"/operator/shops?q=Tea%25{shop}").text
    operator.open(f"/operator/shop?kind=shop&shop={shop}")
    fields = {"kind": "shop", "shop": shop, "account": caller.account_id, "days": "3"}
    scope = "orders"
    given = confirmed(operator, "/operator/shop/consent", scope=scope, **fields)
    assert "allowed" in given and caller.account_id in given
    out = confirmed(operator, "/operator/shop/sign-out", kind="shop", shop=shop)
    assert "signed out everywhere" in out
    page = operator.open(link).text
    assert "Choose a new password" in page and f"tea{shop}" in page
    operator.open(f"/operator/shop?kind=shop&shop={shop}")
    again = confirmed(operator, "/operator/shop/password", kind="shop", shop=shop)
    assert "/owner/password" in shown_secret(again)


def test_a_client_is_added_and_revoked(operator: Browser, caller: Caller) -> None:
    path = "/operator/account/clients"
    operator.open(f"{path}?id={caller.account_id}")
    added = operator.send(f"{path}/add", label="<b>erp", kind="live").text
    secret = shown_secret(added)
    assert "&lt;b&gt;erp" in added and "active" in added
    assert secret not in operator.open(f"{path}?id={caller.account_id}").text
    client = (
        operator.page.partition("/clients/revoke?")[2].partition("client=")[2].partition("&amp;")[0]
    )
    revoked = confirmed(operator, f"{path}/revoke", account=caller.account_id, client=client)
    assert "revoked" in revoked and "active" not in revoked


def test_the_clients_of_a_closed_account_are_closed(
    operator: Browser, caller: Caller, store: Store
) -> None:
    path = f"/operator/account/clients?id={caller.account_id}"
    operator.open(path)
    assert "active" in operator.send("/operator/account/clients/add", label="erp", kind="live").text
    store.do(lambda database: close_account(database, RUNTIME, caller.account_id))
    page = operator.open(path).text
    assert ">closed<" in page and "active" not in page
    assert "Revoke" not in page and "Add a client" not in page


def test_an_operator_is_invited_gets_a_link_and_is_removed(operator: Browser) -> None:
    login = f"li{time.time_ns()}"
    operator.open("/operator/operators")
    link = shown_secret(operator.send("/operator/operators/invite", name="Li", login=login).text)
    assert "/operator/enter?link=" in link
    row = operator.page.partition(f">{login}<")[2]
    person = row.partition("person=")[2].partition("&amp;")[0]
    other = shown_secret(confirmed(operator, "/operator/operators/link", person=person))
    assert other != link
    assert login not in confirmed(operator, "/operator/operators/remove", person=person)
    assert operator.open(other).status_code == 410


def test_the_ledger_of_an_account_is_a_file(operator: Browser, caller: Caller) -> None:
    unit = "calls:product_analysis"
    shown = operator.open(f"/operator/account/ledger?id={caller.account_id}&unit={unit}").text
    assert "/operator/account/ledger.csv?id=" in shown
    file = operator.client.get(
        f"/operator/account/ledger.csv?id={caller.account_id}&unit={unit}"
    ).text
    assert file.startswith("\ufeffentry,at,kind") and "top_up" in file


def test_the_statement_of_a_month_is_a_page(
    operator: Browser, caller: Caller, store: Store
) -> None:
    ledger = operator.open(f"/operator/account/ledger?id={caller.account_id}").text
    assert f"/operator/account/statement?id={caller.account_id}" in ledger
    path = f"/operator/account/statement?id={caller.account_id}"
    assert "Nothing was charged." in operator.open(path).text
    charge_calls(store, caller.account_id, 3)
    shown = operator.open(f"{path}&month=1970-01").text
    assert "Product analysis" in shown and "3 calls" in shown
    store.run(
        "INSERT INTO archived_balance VALUES "
        f"('{caller.account_id}', 'calls:product_analysis', 1, 0, 2678400000, 0, 0, 0, 0, 0, 0)"
    )
    deleted = operator.open(f"{path}&month=1970-01").text
    assert "were deleted: there is no statement." in deleted and "3 calls" not in deleted
    refused = operator.open(f"{path}&month=January")
    assert refused.status_code == 400 and "That is no month" in refused.text


def test_a_known_carrier_is_changed_by_the_same_form(operator: Browser, store: Store) -> None:
    code = new_carrier(store, 1)
    operator.open(f"/operator/carrier?carrier={code}")
    fields = {"code": code, "name": "Renamed", "format": "YT[0-9]{13}", "area": "all"}
    changed = operator.send("/operator/carrier/add", **fields).text
    assert "Renamed" in changed and "everywhere" in changed

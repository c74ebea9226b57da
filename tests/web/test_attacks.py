"""What attackers try on pages and beside them: other hosts, other origins, cookies, redirects."""

import time
from urllib.parse import quote

import pytest

from tests.support.browsers import Browser, operator_link
from tests.support.consent import PASSWORD, new_asker, new_person
from tests.support.gateway import Gateway
from tests.support.ledger import RUNTIME, Caller, new_caller
from tests.support.members import entered
from tests.support.stores import Store
from tollway.identity.people import Role, set_person_password
from tollway.identity.sign_in_links import invite
from tollway.ledger.entries import top_up
from tollway.ledger.tokens import list_tokens

EVIL = "evil.example"
PATHS = ("/", "/docs", "/openapi.json", "/owner", "/operator", "/account/v1/balance", "/receipts/1")


@pytest.mark.parametrize("path", PATHS)
def test_a_foreign_host_is_in_no_answer(gateway: Gateway, path: str) -> None:
    for name in ("Host", "X-Forwarded-Host", "X-Original-URL"):
        response = gateway.client.get(path, headers={name: EVIL})
        assert EVIL not in response.text + str(response.headers)


def test_the_link_for_an_owner_names_the_gateways_own_address(
    gateway: Gateway, store: Store
) -> None:
    asker, person = new_asker(store), new_person(store)
    sent = {"adzone_id": 1, "site_id": 1, "promotion_id": 37104, "platform_user_id": person.id}
    reply = gateway.post_json(
        "/papi/tool/affiliate/promotion", sent, token=asker.token, headers={"Host": EVIL}
    )
    assert reply.code == 302
    assert reply.data["authorize_url"].startswith(gateway.base_url)


@pytest.mark.parametrize("path", PATHS)
def test_no_other_site_may_read_answers(gateway: Gateway, caller: Caller, path: str) -> None:
    for method in ("GET", "OPTIONS"):
        response = gateway.client.request(
            method,
            path,
            headers={
                "Origin": f"https://{EVIL}",
                "Access-Control-Request-Method": "GET",
                "Authorization": f"Bearer {caller.token}",
            },
        )
        assert not [name for name in response.headers if name.startswith("access-control")]


PROBES = ("/healthz", "/readyz", "/metrics")
OPEN_PATHS = ("/templates/waybill/1", "/demo/coupon?c=1&pid=mm_1_2_3", "/demo/item?id=none")


@pytest.mark.parametrize(
    "path", [path for path in (*PATHS, *PROBES, *OPEN_PATHS) if path != "/openapi.json"]
)
def test_no_cache_keeps_an_answer(gateway: Gateway, caller: Caller, path: str) -> None:
    for headers in ({}, {"Authorization": f"Bearer {caller.token}"}):
        response = gateway.client.get(path, headers=headers)
        assert response.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/healthz"), ("POST", "/push/orders"), ("PUT", "/push/orders")]
)
def test_no_cache_keeps_a_refusal(gateway: Gateway, method: str, path: str) -> None:
    response = gateway.client.request(method, path)
    assert response.headers.get_list("cache-control") == ["no-store"]


@pytest.mark.parametrize(
    "path", ["/openapi.json", "/pages.css", "/pages.js", "/demo/pictures/620145000100.png"]
)
def test_a_cache_may_keep_what_is_the_same_for_all(gateway: Gateway, path: str) -> None:
    response = gateway.client.get(path)
    assert response.status_code == 200
    (policy,) = response.headers.get_list("cache-control")
    assert "max-age=" in policy


@pytest.mark.parametrize("name", ["X-HTTP-Method-Override", "X-Method-Override", "X-HTTP-Method"])
def test_a_header_does_not_change_the_method(
    gateway: Gateway, store: Store, caller: Caller, name: str
) -> None:
    made = gateway.get("/account/v1/tokens/make", token=caller.token, headers={name: "POST"})
    assert (made.code, made.headers["x-tollway-reason"]) == (404, "METHOD_WRONG")
    assert len(store.do(lambda database: list_tokens(database, caller.account_id))) == 1


def test_a_caller_cannot_set_what_no_parameter_sets(
    gateway: Gateway, store: Store, caller: Caller
) -> None:
    other = new_caller(store)
    for name, value, code in (
        ("account_id", other.account_id, 0),
        ("kind", "operator", 100),
        ("token_id", "1", 0),
    ):
        sent = {"label": "mine", name: value}
        reply = gateway.post_json("/account/v1/tokens/make", sent, token=caller.token)
        assert reply.code == code
        if code == 0:
            made = reply.data["token"]
            assert (made["kind"], made["account_id"]) == ("live", caller.account_id)
            assert made["id"] != value
    assert len(store.do(lambda database: list_tokens(database, other.account_id))) == 1


def test_paths_and_names_of_outsiders_make_no_metrics(gateway: Gateway) -> None:
    canary = "canary7f3a"
    for path in (f"/{canary}", f"/papi/tool/{canary}", f"/operator/{canary}", f"/?{canary}=1"):
        gateway.client.request("POST", path, headers={"X-Request-Id": canary, canary: "1"})
        gateway.client.request(canary.upper(), path)
    assert canary not in gateway.client.get("/metrics").text.lower()


@pytest.mark.parametrize(
    "injected", ["\r\nSet-Cookie: a=b", "%0d%0aSet-Cookie:%20a=b", "\u560d\u560aa: b"]
)
def test_no_text_of_a_attacker_begins_a_header(
    gateway: Gateway, caller: Caller, browser: Browser, injected: str
) -> None:
    answers = [
        gateway.client.get("/view", params={"back": f"/{injected}", "language": injected}),
        gateway.client.post("/view", data={"back": f"/{injected}", "language": injected}),
        gateway.client.get(
            f"/account/v1/receipt?request_id={quote(injected)}",
            headers={"Authorization": f"Bearer {caller.token}"},
        ),
        gateway.client.get("/operator", params={"said": injected, "link": f"/operator{injected}"}),
        browser.client.post("/operator/sign-in", data={"link": f"/operator{injected}"}),
    ]
    assert answers[2].headers["x-tollway-reason"] == "RECEIPT_UNKNOWN"
    for answer in answers:
        assert "a" not in answer.cookies and "a" not in answer.headers
        assert not any("\n" in value for value in answer.headers.values())


def test_a_session_is_no_token_and_a_token_no_session(
    store: Store, browser: Browser, caller: Caller
) -> None:
    browser.open(f"/operator/enter?link={operator_link(store)}")
    assert "Overview" in browser.send("/operator/enter").text
    assert browser.client.get("/account/v1/tokens").json()["code"] == 401
    browser.client.cookies.clear()
    headers = {"Authorization": f"Bearer {caller.token}"}
    for path in ("/account", "/operator", "/owner"):
        assert 'type="password"' in browser.client.get(path, headers=headers).text


@pytest.mark.parametrize("wanted", ["websocket", "h2c", "TLS/1.0"])
def test_a_connection_stays_plain_http(gateway: Gateway, wanted: str) -> None:
    response = gateway.client.get(
        "/openapi.json",
        headers={
            "Upgrade": wanted,
            "Connection": "Upgrade, HTTP2-Settings",
            "HTTP2-Settings": "AAMAAABkAARAAAAAAAIAAAAA",
            "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
            "Sec-WebSocket-Version": "13",
        },
    )
    assert response.status_code == 200 and "upgrade" not in response.headers


def test_a_cookie_that_an_attacker_chose_is_not_the_one_that_is_signed_in(
    store: Store, gateway: Gateway, browser: Browser
) -> None:
    person = new_person(store)
    browser.open("/owner")
    chosen = dict(browser.client.cookies)
    assert "Who may use your data" in browser.sign_in(person.login).text
    assert chosen["tollway_owner"] not in browser.client.cookies.values()
    attacker = Browser(gateway)
    attacker.client.cookies.update(chosen)
    assert 'type="password"' in attacker.open("/owner").text
    attacker.client.close()


@pytest.mark.parametrize(
    "back", [f"//{EVIL}", f"/\\{EVIL}", f"https://{EVIL}", "javascript:alert(1)", "/\r\nX: y"]
)
def test_after_signing_in_a_person_stays_here(store: Store, browser: Browser, back: str) -> None:
    login = f"stays{time.time_ns()}"
    made = store.do(
        lambda database: invite(database, RUNTIME, role=Role.OPERATOR, name="Li", login=login)
    )
    store.do(lambda database: set_person_password(database, made.person, PASSWORD, 0))
    browser.open("/operator")
    fields = {**browser.hidden(), "link": back, "login": login, "password": PASSWORD}
    response = browser.client.post("/operator/sign-in", data=fields, follow_redirects=False)
    assert (response.status_code, response.headers["location"]) == (303, "/operator")


def test_an_address_that_is_too_long_to_be_returned_to_is_in_no_row(
    store: Store, browser: Browser, caller: Caller
) -> None:
    """Fifty rows would make a page of it that takes as long as ten pages."""
    page = entered(store, browser, caller).open(f"/account/tokens?from={'/' * 3000}").text
    assert "/account/tokens/revoke?token=" in page and "%2F" * 3000 not in page
    assert 'came_from=%2Faccount%2Ftokens"' in page


def test_a_spreadsheet_takes_no_text_for_a_formula(
    store: Store, browser: Browser, caller: Caller
) -> None:
    notes = [f"{sign}HYPERLINK(1)" for sign in "=+-@＝＋－＠"]
    # To a spreadsheet, a row ends there unless the cell is quoted.
    two_lines = "paid\r=HYPERLINK(1)"
    for note in (*notes, two_lines):
        store.do(
            lambda database, note=note: top_up(
                database, RUNTIME, caller.account_id, "credits", 5, note
            )
        )
    login = f"sheet{time.time_ns()}"
    made = store.do(
        lambda database: invite(
            database,
            RUNTIME,
            role=Role.OWNER,
            name="Li",
            login=login,
            account_wanted=caller.account_id,
        )
    )
    browser.open(f"/account/enter?link={made.link}")
    browser.send("/account/enter")
    sheet = browser.client.get("/account/ledger.csv?unit=credits").text
    for note in notes:
        assert f"'{note}" in sheet and f",{note}" not in sheet
    assert f'"{two_lines}"' in sheet


def test_a_nul_character_is_no_error_of_the_gateway(gateway: Gateway, browser: Browser) -> None:
    for home in ("/owner", "/account", "/operator"):
        browser.open(home)
        refused = browser.send(f"{home}/sign-in", login="a\0b", password=PASSWORD)
        assert refused.status_code == 400 and "This form cannot be read" in refused.text
        assert browser.open(f"{home}?begin=%00").status_code == 404

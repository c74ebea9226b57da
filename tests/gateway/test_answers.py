"""Every reason why no token is given: its status, its shape, and that nothing else is shown."""

import asyncio
import socket
from base64 import b64encode
from collections.abc import Callable
from time import monotonic

import httpx
import pytest

from tests.support.clients import OwnClient, ask, ask_multipart, basic, new_client, obtain, revoke
from tests.support.gateway import Gateway
from tests.support.ledger import RUNTIME
from tests.support.postgresql import Server
from tests.support.raw import request, talk
from tests.support.remote import eventually
from tests.support.stores import Store
from tollway.gateway.oauth import GRANT_TYPE, TOKEN_PATH, TokenRefusal
from tollway.ledger.accounts import close_account
from tollway.ledger.clients import recognise
from tollway.ledger.token_format import SECRET, mint

GRANT = {"grant_type": GRANT_TYPE}
FORM = "application/x-www-form-urlencoded"
NOT_SHOWN = frozenset('"\\')
# Less than a gateway waits by default.
IN_TIME_S = 9


@pytest.fixture
def client(store: Store) -> OwnClient:
    return new_client(store)


def assert_refused(response: httpx.Response, reason: TokenRefusal) -> None:
    """The error of this reason, in the shape of OAuth."""
    fault = reason.value
    assert response.status_code == fault.status, response.text
    assert response.json() == {"error": fault.error, "error_description": fault.sentence}
    assert response.headers["content-type"] == "application/json"
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["pragma"] == "no-cache"
    challenge = response.headers.get("www-authenticate")
    assert challenge == ('Basic realm="tollway"' if fault.status == 401 else None)


def test_the_path_of_the_original_service_gives_tokens_too(
    gateway: Gateway, client: OwnClient
) -> None:
    response = gateway.client.post("/api/proxy/oauth/token", data={**GRANT, **client.form})
    assert response.status_code == 200 and response.json()["access_token"]
    refused = gateway.client.post("/api/proxy/oauth/token", data=GRANT)
    assert_refused(refused, TokenRefusal.CLIENT_INVALID)


@pytest.mark.parametrize("reason", TokenRefusal, ids=lambda reason: reason.name)
def test_every_sentence_has_only_what_oauth_allows_in_one(reason: TokenRefusal) -> None:
    sentence = reason.value.sentence
    assert sentence.isascii() and sentence.isprintable() and not NOT_SHOWN & set(sentence)


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("", b"grant_type=client_credentials"),
        ("application/json", b'{"grant_type": "client_credentials"}'),
        ("text/plain", b"grant_type=client_credentials"),
        ("multipart/form-data", b"--cut--"),
        ("multipart/form-data; boundary=cut", b"grant_type=client_credentials"),
        (FORM, b"grant_type=client_credentials&client_id=a&client_id=b"),
        (FORM, b"grant_type=%zz"),
        (FORM, b"grant_type=\xff"),
        (FORM, b"a=1&" * 101),
    ],
)
def test_400_a_body_that_is_no_form(gateway: Gateway, content_type: str, body: bytes) -> None:
    headers = {"Content-Type": content_type} if content_type else {}
    response = gateway.client.post(TOKEN_PATH, content=body, headers=headers)
    assert_refused(response, TokenRefusal.FORM_UNREADABLE)


@pytest.mark.parametrize("send", [ask, ask_multipart])
@pytest.mark.parametrize("grant", [{}, {"grant_type": ""}, {"Grant_Type": GRANT_TYPE}])
def test_400_grant_type_missing(
    gateway: Gateway,
    client: OwnClient,
    send: Callable[..., httpx.Response],
    grant: dict[str, str],
) -> None:
    form = {"client_id": client.id, "client_secret": client.secret, **grant}
    assert_refused(send(gateway, form), TokenRefusal.GRANT_TYPE_MISSING)


@pytest.mark.parametrize("grant", ["password", "refresh_token", "Client_Credentials", "\0"])
def test_400_grant_type_unknown(gateway: Gateway, client: OwnClient, grant: str) -> None:
    response = ask(gateway, {**client.form, "grant_type": grant})
    assert_refused(response, TokenRefusal.GRANT_TYPE_UNKNOWN)


def test_400_scope_unknown(gateway: Gateway, client: OwnClient) -> None:
    assert_refused(ask(gateway, {**client.form, "scope": "orders"}), TokenRefusal.SCOPE_UNKNOWN)


def test_400_the_credentials_are_sent_in_both_ways(gateway: Gateway, client: OwnClient) -> None:
    headers = basic(client.id, client.secret)
    assert_refused(ask(gateway, client.form, headers=headers), TokenRefusal.CREDENTIALS_TWICE)
    other = {**GRANT, "client_id": "cli_000000000000"}
    assert_refused(ask(gateway, other, headers=headers), TokenRefusal.CREDENTIALS_TWICE)
    # Named once more without the secret, it is one way still.
    same = {**GRANT, "client_id": client.id, "client_secret": ""}
    assert ask(gateway, same, headers=headers).status_code == 200


def test_401_is_the_same_for_every_client_that_is_none(
    gateway: Gateway, store: Store, client: OwnClient
) -> None:
    other, revoked, closed = (new_client(store) for _ in range(3))
    revoke(store, revoked)
    store.do(lambda database: close_account(database, RUNTIME, closed.caller.account_id))
    unknown = mint(SECRET, lambda alphabet: alphabet[7])
    pairs = [
        ("", ""),
        ("", client.secret),
        (client.id, ""),
        (client.id, client.secret[:-1]),
        (client.id, client.secret + "0"),
        (client.id, f" {client.secret}"),
        (client.id, client.caller.token),
        (client.id, unknown),
        (client.id, other.secret),
        (client.id.upper(), client.secret),
        (f"{client.id}\0", client.secret),
        (f"{client.id}\n", client.secret),
        ("cli_000000000000", client.secret),
        ("\0", "\0"),
        ("客户", "密钥"),
        (client.secret, client.id),
        (revoked.id, revoked.secret),
        (closed.id, closed.secret),
    ]
    for client_id, secret in pairs:
        form = {**GRANT, "client_id": client_id, "client_secret": secret}
        assert_refused(ask(gateway, form), TokenRefusal.CLIENT_INVALID)
        assert_refused(ask_multipart(gateway, form), TokenRefusal.CLIENT_INVALID)
        headers = basic(client_id, secret)
        assert_refused(ask(gateway, GRANT, headers=headers), TokenRefusal.CLIENT_INVALID)


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Basic",
        "Basic not base64",
        "Basic " + b64encode(b"\xff:\xff").decode(),
        "Basic " + b64encode(b"no colon").decode(),
        "Bearer tw_live_x",
        "Digest username=x",
    ],
)
def test_401_a_header_that_names_no_client(gateway: Gateway, header: str) -> None:
    response = ask(gateway, GRANT, headers={"Authorization": header})
    assert_refused(response, TokenRefusal.CLIENT_INVALID)


def test_401_two_headers(gateway: Gateway, client: OwnClient) -> None:
    sent = [*basic(client.id, client.secret).items()] * 2
    response = gateway.client.post(TOKEN_PATH, data=GRANT, headers=sent)
    assert_refused(response, TokenRefusal.CLIENT_INVALID)


def test_basic_may_be_urlencoded_and_its_scheme_is_case_insensitive(
    gateway: Gateway, client: OwnClient
) -> None:
    coded = "".join(f"%{ord(character):02X}" for character in client.secret)
    header = basic(client.id, coded)["Authorization"].replace("Basic", "bAsIc")
    assert ask(gateway, GRANT, headers={"Authorization": header}).status_code == 200


def test_what_is_in_the_address_counts_for_nothing(gateway: Gateway, client: OwnClient) -> None:
    response = gateway.client.post(TOKEN_PATH, params=client.form, data=GRANT)
    assert_refused(response, TokenRefusal.CLIENT_INVALID)


def test_what_cannot_be_a_secret_never_reaches_the_database(client: OwnClient) -> None:
    class NoDatabase:
        async def fetch_one(self, *_: object, **__: object) -> None:
            raise AssertionError("the database was asked")

    nowhere: object = NoDatabase()
    for client_id, secret in (
        (client.id, client.secret[:-1]),
        (client.id, client.caller.token),
        ("cli_\0", client.secret),
    ):
        assert asyncio.run(recognise(nowhere, client_id, secret)) is None  # type: ignore[arg-type]
    with pytest.raises(AssertionError, match="was asked"):
        asyncio.run(recognise(nowhere, client.id, client.secret))  # type: ignore[arg-type]


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS", "PROPFIND"])
def test_405_method_wrong(gateway: Gateway, client: OwnClient, method: str) -> None:
    response = gateway.client.request(method, TOKEN_PATH, data=client.form)
    assert_refused(response, TokenRefusal.METHOD_WRONG)
    assert response.headers["allow"] == "POST"
    head = gateway.client.head(TOKEN_PATH)
    assert (head.status_code, head.content) == (405, b"")


def test_408_a_body_that_does_not_arrive(own_store: Store) -> None:
    gateway = Gateway(own_store, body_timeout_s=1)
    head = request(
        TOKEN_PATH, "Host: x", f"Content-Type: {FORM}", "Content-Length: 9", method="POST"
    )
    talked = talk(gateway.port, head + b"grant", expected=1)
    fault = TokenRefusal.BODY_TIMED_OUT.value
    assert [reply.status for reply in talked.replies] == [fault.status]
    assert talked.replies[0].envelope["error"] == fault.error
    # A client that hangs up half-way reads no answer; the gateway goes on.
    with socket.create_connection(("127.0.0.1", gateway.port)) as connection:
        connection.sendall(head + b"grant")
    obtain(gateway, new_client(own_store))
    assert gateway.stop() == 0


@pytest.mark.parametrize("is_announced", [True, False])
def test_413_body_too_large(gateway: Gateway, is_announced: bool) -> None:
    body = b"a=" + b"x" * 4096
    content = body if is_announced else iter([body[:9], body[9:]])
    response = gateway.client.post(TOKEN_PATH, content=content, headers={"Content-Type": FORM})
    assert_refused(response, TokenRefusal.BODY_TOO_LARGE)


def test_500_an_unexpected_error_is_not_shown(own_store: Store) -> None:
    client = new_client(own_store)
    gateway = Gateway(own_store)
    own_store.run("DROP TABLE client")
    assert_refused(ask(gateway, client.form), TokenRefusal.FAILED)
    assert client.secret not in gateway.log()
    assert gateway.stop() == 0


def test_503_while_another_writer_holds_the_database(own_store: Store) -> None:
    client = new_client(own_store)
    gateway = Gateway(own_store, call_timeout_s=1)
    with own_store.held():
        began_s = monotonic()
        assert_refused(ask(gateway, client.form), TokenRefusal.STORE_AWAY)
        assert monotonic() - began_s < IN_TIME_S
    # On a busy machine a second may be too short for a request that nothing holds up.
    eventually(lambda: ask(gateway, client.form).status_code, lambda status: status == 200)
    assert gateway.stop() == 0


@pytest.mark.postgresql
def test_503_while_there_is_no_database(own_store: Store) -> None:
    server = Server()
    try:
        store = Store(own_store.path, server.url)
        client = new_client(store)
        gateway = Gateway(store)
        obtain(gateway, client)
        server.stop()
        began_s = monotonic()
        assert_refused(ask(gateway, client.form), TokenRefusal.STORE_AWAY)
        assert monotonic() - began_s < IN_TIME_S
        server.start()
        eventually(lambda: ask(gateway, client.form).status_code, lambda status: status == 200)
        assert gateway.stop() == 0
    finally:
        server.remove()

"""Whatever is sent to /oauth/token, it is answered in OAuth's shape, never with a token, and never
as if the gateway were at fault."""

from base64 import b64encode
from urllib.parse import urlencode

from hypothesis import given
from hypothesis import strategies as st

from tests.support.clients import new_client, obtain
from tests.support.gateway import Gateway
from tests.support.raw import request, talk
from tests.support.stores import Store
from tollway.gateway.oauth import GRANT_TYPE, TOKEN_PATH, TokenRefusal
from tollway.ledger.token_format import SECRET, mint

ERRORS = {(each.value.status, each.value.error) for each in TokenRefusal if each.value.status < 500}
FORM = "application/x-www-form-urlencoded"
FORGED = mint(SECRET, lambda alphabet: alphabet[3])
NAMES = st.sampled_from(["grant_type", "client_id", "client_secret", "scope", "\0", ""])
VALUES = (
    st.sampled_from([GRANT_TYPE, "cli_000000000000", FORGED, "", "\0", "%", "\U0001f511"])
    | st.text(max_size=20).filter(lambda text: text.isprintable())
    | st.binary(max_size=20)
)
TYPES = st.sampled_from([FORM, "multipart/form-data; boundary=cut", "multipart/form-data", "x", ""])
AUTHORIZATIONS = st.none() | (
    st.binary(min_size=1, max_size=30).map(lambda pair: f"Basic {b64encode(pair).decode()}")
    | st.sampled_from(["Basic x", "Basic =", "Basic", "Bearer x", "basic  Og==", "x" * 5000])
)


def _ask(gateway: Gateway, content_type: str, body: bytes, authorization: str | None) -> None:
    headers = {"Content-Type": content_type}
    if authorization is not None:
        headers["Authorization"] = authorization
    response = gateway.client.post(TOKEN_PATH, content=body, headers=headers)
    answer = response.json()
    assert set(answer) == {"error", "error_description"}
    assert (response.status_code, answer["error"]) in ERRORS
    assert response.headers["cache-control"] == "no-store"


@given(st.lists(st.tuples(NAMES, VALUES), max_size=8), TYPES, AUTHORIZATIONS)
def test_any_form(
    gateway: Gateway,
    pairs: list[tuple[str, str | bytes]],
    content_type: str,
    authorization: str | None,
) -> None:
    _ask(gateway, content_type, urlencode(pairs).encode(), authorization)


@given(
    st.lists(
        st.sampled_from(
            [
                b"--cut\r\n",
                b"--cut--",
                b"\r\n\r\n",
                b'Content-Disposition: form-data; name="grant_type"\r\n\r\nclient_credentials\r\n',
                b'Content-Disposition: form-data; name="client_id"; filename="x"\r\n\r\nx\r\n',
                b'Content-Disposition: form-data; name="client_secret"\r\n\r\n\xff\r\n',
            ]
        )
        | st.binary(max_size=9),
        max_size=9,
    ),
    TYPES,
    AUTHORIZATIONS,
)
def test_any_body(
    gateway: Gateway, pieces: list[bytes], content_type: str, authorization: str | None
) -> None:
    _ask(gateway, content_type, b"".join(pieces), authorization)


def test_a_body_that_is_too_long_does_not_become_the_next_request(
    gateway: Gateway, store: Store
) -> None:
    client = new_client(store)
    hidden = request(TOKEN_PATH, "Host: x", method="GET")
    for method, length in (("POST", 20_000), ("PUT", len(hidden))):
        head = request(
            TOKEN_PATH,
            "Host: x",
            f"Content-Type: {FORM}",
            f"Content-Length: {length}",
            method=method,
        )
        talked = talk(gateway.port, head + b"x" * (length - len(hidden)) + hidden)
        assert [reply.status for reply in talked.replies] == [413 if method == "POST" else 405]
        assert talked.is_closed
    obtain(gateway, client)


def test_the_path_is_exact(gateway: Gateway, store: Store) -> None:
    form = new_client(store).form
    for path in (f"{TOKEN_PATH}/", "//oauth/token", "/oauth", "/OAuth/token", "/oauth/%74oken/"):
        envelope = gateway.client.post(path, data=form).json()
        assert envelope["code"] in (401, 404), path

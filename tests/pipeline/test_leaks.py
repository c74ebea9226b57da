"""Tokens, clients' secrets and what callers ask never end up in logs, in the database's bytes or in
metrics."""

from collections.abc import Iterator

import pytest

from tests.support.clients import OwnClient, ask, ask_multipart, basic, new_client, obtain
from tests.support.gateway import Gateway
from tests.support.ledger import Caller, new_caller
from tests.support.raw import request, talk
from tests.support.remote import eventually
from tests.support.stores import Store
from tollway.gateway.oauth import TOKEN_PATH
from tollway.ledger.token_format import SECRET, mint

CANARY = "canary7f3a9"


@pytest.fixture(scope="module")
def callers(its_store: Store) -> list[Caller]:
    return [new_caller(its_store, kind=kind) for kind in ("live", "test")]


@pytest.fixture(scope="module")
def client(its_store: Store) -> OwnClient:
    return new_client(its_store)


@pytest.fixture(scope="module")
def secrets(callers: list[Caller], client: OwnClient) -> list[str]:
    """What must be found nowhere; what clients obtain is added."""
    return [*(caller.token for caller in callers), client.secret]


@pytest.fixture(scope="module")
def talkative(
    its_store: Store,
    callers: list[Caller],
    client: OwnClient,
    secrets: list[str],
    question: dict[str, str],
) -> Iterator[Gateway]:
    """A gateway that logs all it can, after calls of every kind that carry a canary."""
    started = Gateway(its_store, log_calls="all", log_level="debug")
    unknown = mint("live", lambda alphabet: alphabet[7])
    for token in (*(caller.token for caller in callers), unknown, f"tw_live_{CANARY}"):
        for query in (
            question,
            {**question, "product_id": CANARY},
            {**question, "query_date": CANARY},
            {**question, CANARY: CANARY},
            f"{CANARY}=1&{CANARY}=2",
            f"product_id={CANARY}%ff",
        ):
            headers = {"X-Secret": CANARY, "Cookie": CANARY, "User-Agent": CANARY}
            started.get(token=token, query=query, headers=headers)
            started.get(f"/{CANARY}", token=token, query=query)
            started.get(token=token, query=query, method="POST")
        # What is broken off half-way, and what is no HTTP.
        bearer = f"Authorization: Bearer {token}"
        talk(started.port, request(f"/?{CANARY}", bearer, "X: \0", CANARY))
        talk(started.port, request(f"/?{CANARY}", bearer, "Content-Length: -1"))
    secrets.extend(_ask_for_tokens(started, client))
    started.get(token=secrets[-1], query=question)
    yield started
    assert started.stop() == 0


def _ask_for_tokens(gateway: Gateway, client: OwnClient) -> list[str]:
    """Asks in every way, with canaries where the request has any place for them."""
    forged = mint(SECRET, lambda alphabet: alphabet[9])
    for secret in (client.secret, forged, f"tw_secret_{CANARY}"):
        wrong = {**client.form, "client_secret": secret, CANARY: CANARY}
        for form in (
            {**wrong, "scope": CANARY},
            {**wrong, "grant_type": CANARY},
            {**wrong, "client_id": CANARY},
            {**wrong, "client_id": secret},
        ):
            ask(gateway, form, params=form)
            ask_multipart(gateway, form, headers=basic(CANARY, secret))
            ask(gateway, {"grant_type": CANARY}, headers=basic(secret, CANARY))
            gateway.client.put(TOKEN_PATH, params=form, data=form)
        head = request(f"{TOKEN_PATH}?{secret}", "Content-Length: 99", method="POST")
        talk(gateway.port, head + secret.encode(), patience_s=0.1)
    tokens = [obtain(gateway, client) for _ in range(10)]
    assert ask(gateway, client.form).status_code == 429
    return [forged, *tokens]


def assert_clean(content: bytes, secrets: list[str], what: str) -> None:
    assert CANARY.encode() not in content, what
    for secret in secrets:
        assert secret.encode() not in content, what
        # Neither the secret alone nor the larger part of it; an operator sees how it starts.
        start = 14 if secret.startswith("tw_secret_") else 12
        assert secret[start:28].encode() not in content, what


def test_the_check_would_find_a_leak(
    secrets: list[str], callers: list[Caller], client: OwnClient
) -> None:
    for leak in (callers[0].token, callers[1].token[8:], client.secret[10:], CANARY):
        with pytest.raises(AssertionError):
            assert_clean(f"... {leak} ...".encode(), secrets, "a leak")


def test_metrics_are_clean(talkative: Gateway, secrets: list[str], callers: list[Caller]) -> None:
    content = talkative.client.get("/metrics").content
    assert b"tollway_calls_total" in content
    for answer in (b"issued", b"invalid_client", b"too_many_requests"):
        assert b'tollway_tokens_asked_total{answer="%s"}' % answer in content
    assert_clean(content, secrets, "metrics")
    for caller in callers:
        assert caller.account_id.encode() not in content


def test_the_bytes_of_the_database_are_clean(
    talkative: Gateway, its_store: Store, secrets: list[str], client: OwnClient
) -> None:
    assert talkative.process.poll() is None
    content = its_store.content()
    for start in (secrets[0][:12], client.secret[:14]):
        assert start.encode() in content, "how a token or secret starts may be kept"
    assert_clean(content, secrets, "the database")


def test_logs_are_clean_and_still_tell_each_call(
    talkative: Gateway, secrets: list[str], callers: list[Caller], question: dict[str, str]
) -> None:
    reply = talkative.get(token=callers[0].token, query=question)
    # The records of a moment are reported together; a request for metrics reports them at once.
    talkative.client.get("/metrics")
    # A thread writes them.
    log = eventually(talkative.log, lambda text: reply.headers["x-request-id"] in text)
    assert callers[0].account_id in log
    for reason in ("SUCCESS", "CREDENTIAL_INVALID", "PARAMETER_INVALID", "PATH_UNKNOWN"):
        assert f'"reason":"{reason}"' in log
    assert_clean(log.encode(), secrets, "log")
    assert question["product_id"] not in log


def test_what_is_beside_the_database_is_clean(
    talkative: Gateway, its_store: Store, secrets: list[str]
) -> None:
    assert talkative.process.poll() is None
    for path in its_store.path.parent.iterdir():
        assert_clean(path.read_bytes(), secrets, path.name)

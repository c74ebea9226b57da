"""Tokens and what callers ask never end up in logs, in the database's bytes or in metrics."""

from collections.abc import Iterator
from datetime import date

import pytest

from tests.support.books import Caller, new_caller
from tests.support.gateway import Gateway
from tests.support.raw import request, talk
from tests.support.stores import Store
from tollway.demo.filling import fill_figures
from tollway.ledger.token_format import mint

CANARY = "canary7f3a9"


@pytest.fixture(scope="module")
def its_store(tmp_path_factory: pytest.TempPathFactory, today: date, engine: str) -> Store:
    made = Store(tmp_path_factory.mktemp("leaks") / "tollway.db")
    made.do(lambda database: fill_figures(database, products=1, days=1, last=today))
    return made


@pytest.fixture(scope="module")
def callers(its_store: Store) -> list[Caller]:
    return [new_caller(its_store, kind=kind) for kind in ("live", "test")]


@pytest.fixture(scope="module")
def talkative(
    its_store: Store, callers: list[Caller], question: dict[str, str]
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
    yield started
    assert started.stop() == 0


def assert_clean(content: bytes, callers: list[Caller], what: str) -> None:
    assert CANARY.encode() not in content, what
    for caller in callers:
        assert caller.token.encode() not in content, what
        # Neither the secret alone nor the larger part of it; an operator sees how it starts.
        assert caller.token[12:28].encode() not in content, what


def test_the_check_would_find_a_leak(callers: list[Caller]) -> None:
    for leak in (callers[0].token, callers[1].token[8:], CANARY):
        with pytest.raises(AssertionError):
            assert_clean(f"... {leak} ...".encode(), callers, "a leak")


def test_metrics_are_clean(talkative: Gateway, callers: list[Caller]) -> None:
    content = talkative.client.get("/metrics").content
    assert b"tollway_calls_total" in content
    assert_clean(content, callers, "metrics")
    for caller in callers:
        assert caller.account_id.encode() not in content


def test_the_bytes_of_the_database_are_clean(
    talkative: Gateway, its_store: Store, callers: list[Caller]
) -> None:
    assert talkative.process.poll() is None
    content = its_store.content()
    assert callers[0].token[:12].encode() in content, "how a token starts may be kept"
    assert_clean(content, callers, "the database")


def test_logs_are_clean_and_still_tell_each_call(
    talkative: Gateway, callers: list[Caller], question: dict[str, str]
) -> None:
    reply = talkative.get(token=callers[0].token, query=question)
    # The records of a moment are told together; asking for metrics tells them at once.
    talkative.client.get("/metrics")
    log = talkative.log()
    assert reply.headers["x-request-id"] in log
    assert callers[0].account_id in log
    for reason in ("SUCCESS", "CREDENTIAL_INVALID", "PARAMETER_INVALID", "PATH_UNKNOWN"):
        assert f'"reason":"{reason}"' in log
    assert_clean(log.encode(), callers, "log")
    assert question["product_id"] not in log


def test_what_is_beside_the_database_is_clean(
    talkative: Gateway, its_store: Store, callers: list[Caller]
) -> None:
    assert talkative.process.poll() is None
    for path in its_store.path.parent.iterdir():
        assert_clean(path.read_bytes(), callers, path.name)

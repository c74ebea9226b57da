"""Every request has an id, and what failed has a log line with it; ids of clients are carried."""

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support.clients import ask, new_client
from tests.support.gateway import ANALYSIS, Gateway
from tests.support.ledger import RUNTIME, new_caller
from tests.support.metrics import metrics, sample
from tests.support.orders import order, sealer_of
from tests.support.pushes import EVERYONE, SOURCE, push
from tests.support.remote import eventually
from tests.support.stores import Store
from tollway.contract.receipt import RECEIPTS_PATH
from tollway.intake.sources import add_source

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture(scope="module")
def pushed(tmp_path_factory: pytest.TempPathFactory, engine: str) -> Store:
    return Store(tmp_path_factory.mktemp("pushed") / "tollway.db")


@pytest.fixture(scope="module")
def secret(pushed: Store) -> str:
    return pushed.do(
        lambda database: add_source(database, sealer_of(pushed), SOURCE, EVERYONE, RUNTIME)
    ).secret


@pytest.fixture(scope="module")
def served(pushed: Store, secret: str) -> Iterator[Gateway]:
    with Gateway(pushed, push_max_bytes=100_000) as gateway:
        yield gateway


def _line(gateway: Gateway, request_id: str, event: str) -> dict[str, Any]:
    """The one line of an event that a request left in the log."""

    def look() -> list[dict[str, Any]]:
        lines = [json.loads(each) for each in gateway.log().splitlines()]
        return [
            each for each in lines if (each["event"], each.get("request_id")) == (event, request_id)
        ]

    (found,) = eventually(look, bool)
    return found


def _one(order_sn: str) -> bytes:
    return json.dumps(order(order_sn)).encode()


@pytest.mark.parametrize(
    ("outcome", "status", "body", "changes"),
    [
        ("unsigned", 401, _one("ORDER00000001"), {"signature": "v1,wrong"}),
        ("unsigned", 401, _one("ORDER00000001"), {"source": "unknown"}),
        ("malformed", 400, b"not JSON", {}),
        ("too_large", 413, b" " * 100_001, {}),
    ],
)
def test_a_push_that_is_rejected_has_an_id_a_line_and_a_count(
    served: Gateway,
    secret: str,
    outcome: str,
    status: int,
    body: bytes,
    changes: dict[str, Any],
) -> None:
    before = metrics(served)
    answer = push(served, secret, body, **changes)
    assert answer.status_code == status
    line = _line(served, answer.headers["x-request-id"], "tollway.push")
    assert (line["kind"], line["outcome"], line["status"]) == ("orders", outcome, status)
    # A source is logged only if the signature is its own: without one, any name could be sent.
    assert line["source"] == (SOURCE if outcome == "malformed" else None)
    labels = {"kind": "orders", "outcome": outcome}
    grown = sample(metrics(served), "tollway_pushes_total", **labels)
    assert grown - sample(before, "tollway_pushes_total", **labels) == 1


@pytest.mark.parametrize("path", ["/push/order", "//push/orders"])
def test_a_push_to_an_unknown_path_has_an_id_a_line_and_a_count(served: Gateway, path: str) -> None:
    before = metrics(served)
    answer = served.client.post(served.base_url + path, content=b"[]")
    assert answer.status_code == 404
    line = _line(served, answer.headers["x-request-id"], "tollway.push")
    assert (line["kind"], line["outcome"], line["status"]) == ("unknown", "unknown_path", 404)
    labels = {"kind": "unknown", "outcome": "unknown_path"}
    grown = sample(metrics(served), "tollway_pushes_total", **labels)
    assert grown - sample(before, "tollway_pushes_total", **labels) == 1


def test_a_push_with_a_wrong_record_is_logged_and_counted_and_a_good_one_only_counted(
    served: Gateway, secret: str
) -> None:
    before = metrics(served)
    good = push(served, secret, _one("ORDER00000002"))
    mixed = push(served, secret, json.dumps([order("ORDER00000003"), {"order_sn": 1}]).encode())
    assert (good.status_code, mixed.status_code) == (200, 200)
    line = _line(served, mixed.headers["x-request-id"], "tollway.push")
    assert (line["outcome"], line["stored"], line["rejected"]) == ("stored", 1, 1)
    assert good.headers["x-request-id"] not in served.log()
    after = metrics(served)

    def grown(name: str, **labels: str) -> float:
        return sample(after, name, **labels) - sample(before, name, **labels)

    assert grown("tollway_pushes_total", kind="orders", outcome="stored") == 2
    assert grown("tollway_pushed_records_total", kind="orders", result="stored") == 2
    assert grown("tollway_pushed_records_total", kind="orders", result="rejected") == 1


def test_a_request_for_a_token_that_fails_has_an_id_a_line_and_a_count(
    served: Gateway, pushed: Store
) -> None:
    before, client = metrics(served), new_client(pushed)
    given = ask(served, client.form)
    assert given.status_code == 200 and given.headers["x-request-id"]
    wrong = ask(served, {**client.form, "client_secret": "tw_secret_guessed"})
    line = _line(served, wrong.headers["x-request-id"], "tollway.token")
    assert (line["answer"], line["client"]) == ("invalid_client", client.id)
    grown = sample(metrics(served), "tollway_tokens_asked_total", answer="invalid_client")
    assert grown - sample(before, "tollway_tokens_asked_total", answer="invalid_client") == 1
    # What is no client's id may be its secret, sent in the wrong field.
    swapped = {**client.form, "client_id": client.secret}
    line = _line(served, ask(served, swapped).headers["x-request-id"], "tollway.token")
    assert (line["answer"], line["client"]) == ("invalid_client", None)
    assert client.secret not in served.log()
    assert given.headers["x-request-id"] not in served.log()


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/owner", "/openapi.json"])
def test_every_other_answer_has_an_id_too(served: Gateway, path: str) -> None:
    ids = {served.client.get(path).headers["x-request-id"] for _ in range(3)}
    assert len(ids) == 3


def test_every_line_names_its_node_and_worker_and_has_one_form_of_time(served: Gateway) -> None:
    # Lines of calls are made apart from all others.
    _line(served, served.get().headers["x-request-id"], "tollway.call")
    _line(served, served.client.post("/push/orders").headers["x-request-id"], "tollway.push")
    for text in served.log().splitlines():
        line = json.loads(text)
        assert line["node"].endswith(f":{served.port}")
        assert line["worker"] in (0, 1)
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["at"]), text


def test_ids_of_the_client_are_logged_and_its_own_is_echoed(served: Gateway) -> None:
    sent = {"X-Request-Id": "order-7d5c_1", "traceparent": TRACE}
    reply = served.get(headers=sent)
    assert reply.headers["x-client-request-id"] == "order-7d5c_1"
    assert reply.headers["x-request-id"] != "order-7d5c_1"
    line = _line(served, reply.headers["x-request-id"], "tollway.call")
    assert (line["client_request_id"], line["traceparent"]) == ("order-7d5c_1", TRACE)


@pytest.mark.parametrize("event", ["tollway.push", "tollway.token"])
def test_ids_of_the_client_are_logged_of_other_requests_too(served: Gateway, event: str) -> None:
    path = {"tollway.push": "/push/orders", "tollway.token": "/oauth/token"}[event]
    sent = {"X-Request-Id": "order-7d5c_2", "traceparent": TRACE}
    answer = served.client.post(path, headers=sent)
    assert answer.headers["x-client-request-id"] == "order-7d5c_2"
    line = _line(served, answer.headers["x-request-id"], event)
    assert (line["client_request_id"], line["traceparent"]) == ("order-7d5c_2", TRACE)


@pytest.mark.parametrize(
    "sent",
    [
        {"X-Request-Id": "short"},
        {"X-Request-Id": "x" * 65},
        {"X-Request-Id": 'quoted","code":0,"x":"'},
        {"X-Request-Id": "with space and more"},
        {"X-Request-Id": "café-café".encode("latin-1")},
        {"traceparent": "00-" + "0" * 32 + "-b7ad6b7169203331-01"},
        {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-" + "0" * 16 + "-01"},
        {"traceparent": TRACE.upper()},
        {"traceparent": "ff" + TRACE[2:]},
        {"traceparent": TRACE + "-more"},
        {"traceparent": 'a","code":0,"x":"'},
    ],
)
def test_ids_that_are_not_well_formed_are_ignored(served: Gateway, sent: dict[str, Any]) -> None:
    reply = served.get(headers=sent)
    assert "x-client-request-id" not in reply.headers
    line = _line(served, reply.headers["x-request-id"], "tollway.call")
    assert "client_request_id" not in line and "traceparent" not in line


def test_two_ids_of_one_request_are_ignored(served: Gateway) -> None:
    sent = [("X-Request-Id", "order-0001"), ("X-Request-Id", "order-0002")]
    answer = httpx.get(f"{served.base_url}{ANALYSIS}", headers=sent)
    assert "x-client-request-id" not in answer.headers


def test_a_success_carries_the_id_of_its_client_when_it_is_logged(
    own_store: Store, question: dict[str, str]
) -> None:
    caller = new_caller(own_store)
    gateway = Gateway(own_store, log_calls="all")
    sent = {"X-Request-Id": "order-7d5c_3"}
    reply = gateway.get(token=caller.token, query=question, headers=sent)
    assert reply.code == 0 and reply.headers["x-client-request-id"] == "order-7d5c_3"
    line = _line(gateway, reply.headers["x-request-id"], "tollway.call")
    assert (line["client_request_id"], line["charged"]) == ("order-7d5c_3", 1)
    assert gateway.stop() == 0


def test_the_receipt_of_a_refused_call_has_the_id_of_its_client(
    own_store: Store, question: dict[str, str]
) -> None:
    caller = new_caller(own_store)
    gateway = Gateway(own_store)
    for query, kept in (({}, "order-7d5c_4"), (question, None)):
        sent = {"X-Request-Id": "order-7d5c_4"}
        reply = gateway.get(token=caller.token, query=query, headers=sent)
        path = f"{RECEIPTS_PATH}{reply.headers['x-request-id']}"
        receipt = eventually(
            lambda path=path: gateway.get(path, token=caller.token), lambda it: it.code == 0
        )
        assert receipt.data["client_request_id"] == kept, "a charged call has only our id"
    assert gateway.stop() == 0

"""Limited tokens: operations, addresses, and credits and calls a day, exact also under races."""

import asyncio
from collections import Counter
from datetime import date
from pathlib import Path

import pytest

from tests.support.all_operations import all_operations_caller, ask, good_request
from tests.support.fake_carrier import ISSUE, FakeCarrier
from tests.support.gateway import Gateway
from tests.support.ledger import calls_left, credits_left, new_caller
from tests.support.load import fire
from tests.support.ports import free_port
from tests.support.remote import connected_carrier, eventually
from tests.support.stores import Store
from tests.support.waybills import request
from tollway.audit.report import audit
from tollway.ledger import LedgerError
from tollway.ledger.runtime import Runtime
from tollway.ledger.token_limits import TokenLimits, read_limits
from tollway.ledger.tokens import issue_token
from tollway.operations.catalogue import BY_NAME, OPERATIONS
from tollway.operations.waybills.operation import WAYBILLS

ORDERS, CLAIMS, ANALYSIS = (BY_NAME[n] for n in ("orders", "coupon_claims", "product_analysis"))


def audited(store: Store) -> int:
    return len(store.do(lambda database: audit(database, Runtime().at_ms())).breaches)


def test_a_token_for_some_operations_is_refused_by_the_others(
    served: Gateway, world: Store, today: date
) -> None:
    limits = TokenLimits(operations=["coupon_claims", "orders"])
    for kind in ("live", "test"):
        caller = all_operations_caller(world, limits=limits, kind=kind)
        for operation in OPERATIONS:
            reply = ask(served, operation, caller.token, good_request(operation, today))
            if operation in (CLAIMS, ORDERS):
                assert reply.code in (0, 103) if kind == "test" else reply.code == 0
                continue
            assert (reply.code, reply.headers["x-tollway-reason"]) == (204, "TOKEN_NOT_FOR_THIS")
            assert "coupon_claims, orders" in reply.msg
        reply = served.get("/account/v1/balance", token=caller.token)
        assert reply.code == 204
    assert credits_left(world, all_operations_caller(world, limits=limits)) == 1000


@pytest.mark.parametrize(
    ("networks", "is_allowed"),
    [
        (["127.0.0.0/8"], True),
        (["203.0.113.7/32", "127.0.0.1/32"], True),
        (["203.0.113.0/24"], False),
        (["::/0"], False),
    ],
)
def test_a_token_is_refused_from_other_addresses(
    served: Gateway, world: Store, networks: list[str], is_allowed: bool, today: date
) -> None:
    caller = all_operations_caller(world, limits=TokenLimits(networks=networks))
    # No proxy is trusted, so what a client claims does not count.
    claimed = {"X-Forwarded-For": "203.0.113.9"}
    for headers in ({}, claimed):
        reply = ask(served, ORDERS, caller.token, good_request(ORDERS, today), headers)
        if is_allowed:
            assert reply.code == 0
        else:
            assert (reply.code, reply.headers["x-tollway-reason"]) == (204, "TOKEN_NOT_FROM_HERE")
            assert "127.0.0.1" in reply.msg
    assert (served.get("/account/v1/balance", token=caller.token).code == 0) is is_allowed


def test_behind_a_trusted_proxy_the_clients_own_address_counts(
    own_store: Store, question: dict[str, str]
) -> None:
    caller = new_caller(own_store, limits=TokenLimits(networks=["203.0.113.0/24"]))
    gateway = Gateway(own_store, trusted_proxies="127.0.0.1")
    for sent, code in (("203.0.113.9", 0), ("198.51.100.1, 203.0.113.9", 0), ("198.51.100.1", 204)):
        reply = gateway.get(token=caller.token, query=question, headers={"X-Forwarded-For": sent})
        assert reply.code == code
    assert gateway.get(token=caller.token, query=question).code == 204
    # An address with a port is none: it does not become the proxy's own.
    inside = new_caller(own_store, limits=TokenLimits(networks=["127.0.0.0/8"]))
    with_port = {"X-Forwarded-For": "203.0.113.9:4711"}
    assert gateway.get(token=inside.token, query=question, headers=with_port).code == 204
    assert gateway.get(token=inside.token, query=question).code == 0
    assert gateway.stop() == 0


def test_where_ipv4_comes_by_a_socket_of_ipv6_both_spellings_are_one_address(
    own_store: Store, question: dict[str, str]
) -> None:
    mapped, plain, others = (
        new_caller(own_store, limits=TokenLimits(networks=[each]))
        for each in ("::ffff:127.0.0.1", "127.0.0.0/8", "203.0.113.9")
    )
    port = free_port()
    settings = {"host": "::", "public_url": f"http://127.0.0.1:{port}"}
    gateway = Gateway(own_store, port=port, trusted_proxies="::ffff:127.0.0.0/104", **settings)
    for caller, code in ((mapped, 0), (plain, 0), (others, 204)):
        reply = gateway.get(token=caller.token, query=question)
        assert reply.code == code
    assert "address 127.0.0.1:" in reply.msg
    forwarded = {"X-Forwarded-For": "::ffff:203.0.113.9"}
    assert gateway.get(token=others.token, query=question, headers=forwarded).code == 0
    reply = gateway.get(token=plain.token, query=question, headers=forwarded)
    assert "address 203.0.113.9:" in reply.msg
    assert gateway.stop() == 0


def test_a_cap_of_calls_is_exact_over_all_nodes(
    own_store: Store, nodes: list[Gateway], question: dict[str, str]
) -> None:
    limits = TokenLimits(calls_per_day=60)
    capped = new_caller(own_store, calls=500, rate_limit=100_000, limits=limits)

    async def all_nodes() -> Counter[int]:
        fired = (fire(node, capped.token, question, clients=16, calls_each=5) for node in nodes)
        return sum(await asyncio.gather(*fired), Counter())

    codes = asyncio.run(all_nodes())
    # On a machine short of processors a call may be refused as busy; it is not counted.
    assert codes[0] == 60
    assert codes[204] + codes[202] == 80 * len(nodes) - 60
    assert calls_left(own_store, capped) == 440
    reply = nodes[0].get(token=capped.token, query=question)
    assert (reply.code, reply.headers["x-tollway-reason"]) == (204, "TOKEN_DAY_USED_UP")
    assert "60 calls a day: 0 left" in reply.msg
    # The cap is of one day: a row of yesterday counts nothing.
    own_store.run("UPDATE token_day SET day_at_ms = day_at_ms - 86400000")
    assert nodes[0].get(token=capped.token, query=question).code == 0
    assert own_store.run("SELECT calls FROM token_day") == [(1,)]
    assert audited(own_store) == 0
    own_store.run("UPDATE token_day SET calls = 61")
    assert audited(own_store) == 1


def test_a_cap_of_credits_counts_what_is_charged_and_nothing_else(
    served: Gateway, world: Store, today: date
) -> None:
    caller = all_operations_caller(world, limits=TokenLimits(credits_per_day=3))
    orders = good_request(ORDERS, today)
    assert ask(served, ORDERS, caller.token, {"owner_id": "no shop"}).code == 103
    key = {"Idempotency-Key": "one"}
    assert ask(served, ORDERS, caller.token, orders, key).code == 0
    assert ask(served, ORDERS, caller.token, orders, key).code == 0
    # Calls of the allowance are no credits.
    assert ask(served, ANALYSIS, caller.token, good_request(ANALYSIS, today)).code == 0
    for _ in range(2):
        assert ask(served, ORDERS, caller.token, orders).code == 0
    for headers in ({}, {"Idempotency-Key": "two"}):
        reply = ask(served, ORDERS, caller.token, orders, headers)
        assert reply.headers["x-tollway-reason"] == "TOKEN_DAY_USED_UP"
        assert "3 credits a day: 0 left, this call takes 1" in reply.msg
    # A waybill costs more than is left, and is not issued; one that is repeated is free.
    waybill = ask(served, WAYBILLS, caller.token, good_request(WAYBILLS, today))
    assert waybill.headers["x-tollway-reason"] == "TOKEN_DAY_USED_UP"
    assert ask(served, ORDERS, caller.token, orders, key).code == 0
    assert credits_left(world, caller) == 997


def test_what_a_carrier_refuses_is_given_back_to_the_cap(
    own_store: Store, tmp_path: Path, today: date
) -> None:
    carrier = FakeCarrier(tmp_path)
    wp_code = connected_carrier(own_store, carrier, deadline_ms=5000, settle_after_s=60)
    caller = all_operations_caller(own_store, limits=TokenLimits(credits_per_day=10))
    gateway = Gateway(own_store)
    try:
        carrier.misbehave("refuse")
        refused = ask(gateway, WAYBILLS, caller.token, request(wp_code))
        assert (refused.code, refused.data["code"]) == (0, 0)
        assert own_store.run("SELECT credits, calls FROM token_day") == [(0, 0)]
        carrier.misbehave("none")
        assert ask(gateway, WAYBILLS, caller.token, request(wp_code)).data["code"] == 1
        assert own_store.run("SELECT credits, calls FROM token_day") == [(10, 1)]
        reply = ask(gateway, WAYBILLS, caller.token, request(wp_code))
        assert reply.headers["x-tollway-reason"] == "TOKEN_DAY_USED_UP"
        assert carrier.received(ISSUE) == 2
    finally:
        carrier.stop()
        assert gateway.stop() == 0
    assert audited(own_store) == 0


def test_a_limited_token_makes_no_other(served: Gateway, world: Store) -> None:
    limits = TokenLimits(operations=["account"], calls_per_day=5)
    caller = all_operations_caller(world, limits=limits)
    assert served.get("/account/v1/balance", token=caller.token).code == 0
    for path, sent in (
        ("make", {"label": "wider"}),
        ("rotate", {"token_id": caller.token_id}),
    ):
        reply = served.post_json(f"/account/v1/tokens/{path}", sent, token=caller.token)
        assert (reply.code, reply.headers["x-tollway-reason"]) == (204, "TOKEN_CANNOT_MAKE")


def test_a_token_for_the_account_reaches_no_waybill_webhook_alert_or_other_token(
    served: Gateway, world: Store
) -> None:
    caller = all_operations_caller(world, limits=TokenLimits(operations=["account"]))
    other = world.do(lambda db: issue_token(db, Runtime(), caller.account_id)).token.id

    def post(path: str, sent: object, token: str = caller.token) -> tuple[int, str]:
        reply = served.post_json(f"/account/v1/{path}", sent, token=token)
        return reply.code, reply.headers.get("x-tollway-reason", "")

    waybill = {"object_id": "none"}
    for path in ("waybills", "waybills/label"):
        reply = served.get(f"/account/v1/{path}", token=caller.token, query=waybill)
        assert reply.headers["x-tollway-reason"] == "TOKEN_NOT_FOR_THIS"
    for path, sent in (("cancel", waybill), ("labels", {"object_ids": ["none"]})):
        assert post(f"waybills/{path}", sent) == (204, "TOKEN_NOT_FOR_THIS")
    for path, sent in (
        ("webhooks/make", {"url": "https://hooks.example/"}),
        ("webhooks/rotate", {"webhook_id": "none"}),
        ("webhooks/end", {"webhook_id": "none"}),
        ("webhooks/test", {}),
        ("webhooks/redeliver", {"webhook_id": "none", "event_id": "none"}),
        ("alerts/set", {"unit": "credits", "below": 5}),
        ("tokens/revoke", {"token_id": other}),
    ):
        assert post(path, sent) == (204, "TOKEN_CANNOT_MAKE"), path
    both = all_operations_caller(world, limits=TokenLimits(operations=["account", "waybills"]))
    assert post("waybills/cancel", waybill, both.token) == (404, "WAYBILL_UNKNOWN")
    assert post("tokens/revoke", {"token_id": caller.token_id})[0] == 0


def test_the_account_api_makes_limited_tokens_and_rotating_keeps_the_limits(
    served: Gateway, world: Store, today: date
) -> None:
    caller = all_operations_caller(world)
    sent = {
        "label": "till",
        "operations": "orders, account",
        "addresses": "127.0.0.1, 10.0.0.0/8",
        "credits_per_day": 1,
        "calls_per_day": 7,
    }
    made = served.post_json("/account/v1/tokens/make", sent, token=caller.token).data
    limits = {
        "operations": ["account", "orders"],
        "networks": ["127.0.0.1/32", "10.0.0.0/8"],
        "credits_per_day": 1,
        "calls_per_day": 7,
    }
    assert made["token"]["limits"] == limits
    orders = good_request(ORDERS, today)
    assert ask(served, ORDERS, made["text"], orders).code == 0
    rotated = {"token_id": made["token"]["id"]}
    new = served.post_json("/account/v1/tokens/rotate", rotated, token=caller.token).data
    assert new["token"]["limits"] == limits
    # It begins with what the old one has spent.
    reply = ask(served, ORDERS, new["text"], orders)
    assert reply.headers["x-tollway-reason"] == "TOKEN_DAY_USED_UP"
    assert "its cap of 1 credit a day: 0 left" in reply.msg
    for wrong in (
        {"operations": "orders,nothing"},
        {"addresses": "here"},
        {"addresses": ","},
        {"calls_per_day": -1},
        {"kind": "test", "calls_per_day": 1},
    ):
        reply = served.post_json(
            "/account/v1/tokens/make", {"label": "x"} | wrong, token=caller.token
        )
        assert reply.code == 100


def test_an_old_and_a_new_token_have_the_rest_of_the_day_once(
    served: Gateway, world: Store, today: date
) -> None:
    caller = all_operations_caller(world)
    sent = {"label": "till", "operations": "orders", "calls_per_day": 3}
    made = served.post_json("/account/v1/tokens/make", sent, token=caller.token).data
    orders = good_request(ORDERS, today)
    texts = [made["text"]]
    assert ask(served, ORDERS, made["text"], orders).code == 0
    for _ in range(2):  # Also one that replaces what has replaced it.
        rotated = {"token_id": made["token"]["id"]}
        made = served.post_json("/account/v1/tokens/rotate", rotated, token=caller.token).data
        texts.append(made["text"])
    codes = [ask(served, ORDERS, text, orders).code for text in (*texts, *reversed(texts))]
    assert sorted(codes) == [0, 0, 204, 204, 204, 204]


def test_a_token_of_some_operations_sees_their_receipts_alone(
    served: Gateway, world: Store, today: date
) -> None:
    caller = all_operations_caller(world)
    sent = {"label": "till", "operations": "orders, account"}
    limited = served.post_json("/account/v1/tokens/make", sent, token=caller.token).data["text"]
    seen = {}
    for operation in (ORDERS, ANALYSIS):
        reply = ask(served, operation, caller.token, good_request(operation, today))
        assert reply.code == 0
        request_id = reply.headers["x-request-id"]
        for token in (caller.token, limited):
            found = served.get(f"/receipts/{request_id}", token=token)
            query = {"request_id": request_id}
            same = served.get("/account/v1/receipt", token=token, query=query)
            assert found.code == same.code
            seen[operation.name, token == limited] = found.code
    assert set(seen.values()) == {0, 404}
    assert seen[ANALYSIS.name, True] == 404


def test_limits_that_mean_nothing_are_refused() -> None:
    for operations, addresses in ((["everything"], []), ([], ["300.1.2.3"]), ([], ["::1"] * 51)):
        with pytest.raises(LedgerError):
            read_limits(operations, addresses, None, None, known=list(BY_NAME))


def test_a_capped_token_without_its_count_is_not_served_for_nothing(
    served: Gateway, world: Store, today: date
) -> None:
    caller = all_operations_caller(world, limits=TokenLimits(credits_per_day=100))
    left = credits_left(world, caller)
    world.run(f"DELETE FROM token_day WHERE token_id = '{caller.token_id}'")
    reply = ask(served, ORDERS, caller.token, good_request(ORDERS, today))
    assert (reply.code, reply.headers["x-tollway-reason"]) == (200, "INTERNAL")
    assert credits_left(world, caller) == left
    # The log is written beside the answers.
    said = f"token {caller.token_id} has a cap and no count"
    eventually(served.log, lambda log: said in log)
    world.run(
        "INSERT INTO token_day (token_id, day_at_ms, credits, calls) "
        f"VALUES ('{caller.token_id}', 0, 0, 0)"
    )
    assert ask(served, ORDERS, caller.token, good_request(ORDERS, today)).code == 0
    assert credits_left(world, caller) < left

"""Four gateways on one database, or four workers on one file: what an account has is spent once,
and its limit is one limit."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from itertools import pairwise

import pytest

from tests.support.figures import store_with_figures
from tests.support.functions import change_function, held_clock, without_limit
from tests.support.gateway import Gateway, assert_no_hidden_error
from tests.support.ledger import Caller, calls_left, new_caller
from tests.support.load import LoadResult, assert_ledger_adds_up, fire, flood
from tests.support.rates import at_once
from tests.support.stores import Store

NODES, CLIENTS, CREDIT = 4, 32, 400
CLIENTS_OF_A_FLOOD = 3
LIMIT, FLOOD_S = 10, 2.2
# Of a client between two calls: all of them still make many times as many as are allowed.
PAUSE_S = 0.01


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, today: date, engine: str) -> Store:
    return store_with_figures(tmp_path_factory.mktemp("nodes") / "tollway.db", today)


@pytest.fixture(scope="module")
def nodes(shared: Store) -> Iterator[list[Gateway]]:
    """Four of them; a file has one, with as many workers."""
    made = [_node(shared) for _ in range(NODES)] if shared.is_shared else [_node(shared, NODES)]
    yield made if shared.is_shared else made * NODES
    assert {node.stop() for node in made} == {0}


def _node(shared: Store, workers: int = 1) -> Gateway:
    # On a slow machine, or with its code traced, no call shall time out.
    return Gateway(shared, workers=workers, call_timeout_s=120)


def test_a_credit_of_400_calls_is_400_successes(
    shared: Store, nodes: list[Gateway], question: dict[str, str]
) -> None:
    caller = new_caller(shared, calls=CREDIT, rate_limit=100_000)
    each = (CREDIT + 100) // (len(nodes) * CLIENTS) + 1

    async def work() -> Counter[int]:
        heard = [fire(node, caller.token, question, CLIENTS, each) for node in nodes]
        return sum(await asyncio.gather(*heard), Counter[int]())

    codes = asyncio.run(work())
    assert codes == {0: CREDIT, 204: len(nodes) * CLIENTS * each - CREDIT}
    assert calls_left(shared, caller) == 0
    assert_ledger_adds_up(shared, [])


def flooded(
    nodes: list[Gateway],
    caller: Caller,
    query: dict[str, str],
    is_enough: Callable[[LoadResult], bool],
) -> LoadResult:
    clients = CLIENTS_OF_A_FLOOD
    return asyncio.run(flood(nodes, caller.token, query, clients, is_enough, PAUSE_S))


def was_refused(load: LoadResult) -> bool:
    """The limit was reached, and there was time to exceed it."""
    return load.codes[202] > 0 and load.lasted_s > 0.9


def is_over_limit(load: LoadResult) -> bool:
    """So many were admitted that some second must have had more than the limit."""
    admitted = load.codes.total() - load.codes[202]
    return admitted > LIMIT * (int(load.lasted_s) + 1)


def times_ms(store: Store, caller: Caller) -> list[int]:
    """When the account's calls were charged, by the database's clock."""
    rows = store.run(
        f"SELECT at_ms FROM entry WHERE account_id = '{caller.account_id}' "
        "AND kind = 'charge' ORDER BY number"
    )
    return [at_ms for (at_ms,) in rows]


def check_limit(times: list[int]) -> None:
    assert all(earlier <= later for earlier, later in pairwise(times))
    for first, over in zip(times, times[LIMIT:], strict=False):
        assert over - first >= 1000, "a second with more than the limit"


def test_in_a_flood_no_second_has_more_than_its_limit(
    shared: Store, nodes: list[Gateway], question: dict[str, str]
) -> None:
    caller = new_caller(shared, calls=10_000)
    load = flooded(nodes, caller, question, lambda load: load.lasted_s > FLOOD_S)
    times = times_ms(shared, caller)
    assert set(load.codes) == {0, 202}
    assert load.codes[0] == len(times) > LIMIT
    check_limit(times)
    assert_ledger_adds_up(shared, load.acknowledged)


@pytest.mark.postgresql
def test_nodes_that_count_for_themselves_alone_would_be_seen(
    shared: Store, nodes: list[Gateway], question: dict[str, str]
) -> None:
    caller = new_caller(shared, calls=10_000)
    with without_limit(shared):
        assert flooded(nodes, caller, question, is_over_limit).was_enough
    with pytest.raises(AssertionError, match="more than the limit"):
        check_limit(times_ms(shared, caller))


def test_free_calls_are_counted_too(
    shared: Store, nodes: list[Gateway], question: dict[str, str]
) -> None:
    caller = new_caller(shared, calls=1, price=0)
    load = flooded(nodes, caller, question, was_refused)
    assert load.was_enough and set(load.codes) == {0, 202}
    assert load.codes[0] >= LIMIT and not is_over_limit(load)
    assert times_ms(shared, caller) == []


def test_calls_that_fail_are_counted_too(shared: Store, nodes: list[Gateway]) -> None:
    caller = new_caller(shared)
    load = flooded(nodes, caller, {"product_id": ""}, was_refused)
    assert load.was_enough and set(load.codes) == {100, 202}
    assert load.codes[100] >= LIMIT and not is_over_limit(load)
    assert times_ms(shared, caller) == []


@pytest.mark.postgresql
def test_failing_calls_that_are_not_counted_would_be_seen(
    shared: Store, nodes: list[Gateway]
) -> None:
    with without_limit(shared):
        load = flooded(nodes, new_caller(shared), {"product_id": ""}, is_over_limit)
    assert load.was_enough and set(load.codes) <= {100, 202}


def test_of_30_failing_calls_with_keys_at_once_exactly_10_are_answered(
    shared: Store, nodes: list[Gateway]
) -> None:
    # Refused by the handler, when the key is known already.
    query = {"product_id": "unknown", "query_date": "2026-01-01"}

    def ask(caller: Caller) -> Counter[int]:
        def one(number: int) -> int:
            key = {"Idempotency-Key": f"key {number}"}
            return nodes[number % len(nodes)].get(token=caller.token, query=query, headers=key).code

        with ThreadPoolExecutor(30) as pool:
            return Counter(pool.map(one, range(30)))

    if shared.is_shared:
        with held_clock(shared):
            codes = ask(new_caller(shared))
    else:
        # The clock of its workers cannot be held.
        _, codes = at_once(lambda: new_caller(shared), ask)
    assert codes == {100: LIMIT, 202: 20}
    for node in nodes:
        assert_no_hidden_error(node.log_path)


@pytest.mark.postgresql
def test_repetitions_are_counted_too(
    shared: Store, nodes: list[Gateway], question: dict[str, str]
) -> None:
    caller = new_caller(shared, calls=1, rate_limit=1)
    first, second, *_ = nodes
    key = {"Idempotency-Key": "the same"}

    def ask(node: Gateway) -> int:
        return node.get(token=caller.token, query=question, headers=key).code

    assert ask(first) == 0
    for _ in range(20):
        began_s = time.monotonic()
        while ask(first):
            began_s = time.monotonic()
        # The second node has admitted nothing in this second, but the first one has.
        code = ask(second)
        if time.monotonic() - began_s < 0.8:
            assert code == 202
            return
    raise AssertionError("this machine is too busy for the test")


@pytest.mark.postgresql
def test_a_call_over_the_limit_because_of_another_node_answers_202(
    shared: Store, nodes: list[Gateway], question: dict[str, str]
) -> None:
    first, second, *_ = nodes
    assert second.get(token=new_caller(shared).token, query=question).code == 0
    # One in a second: so the second node is asked well before there is place again.
    caller, (admitted, reply) = at_once(
        lambda: new_caller(shared, rate_limit=1),
        lambda caller: [node.get(token=caller.token, query=question) for node in (first, second)],
    )
    assert admitted.code == 0
    assert (reply.code, reply.headers["retry-after"]) == (202, "1")
    assert reply.headers["ratelimit"] == '"product_analysis";r=0;t=1'
    assert calls_left(shared, caller) == 99


@pytest.mark.postgresql
@pytest.mark.parametrize(
    ("state", "level", "has_trace"),
    [("53100", "warning", False), ("22012", "error", True)],
    ids=["the database cannot", "a fault of the gateway"],
)
def test_a_refused_call_that_cannot_be_counted_is_answered_all_the_same(
    own_store: Store, state: str, level: str, has_trace: bool
) -> None:
    caller, node = new_caller(own_store), Gateway(own_store)
    raised = f"RAISE EXCEPTION 'a fault of the test' USING ERRCODE = '{state}'"
    place = "w := of_window[i];"
    change_function(own_store, "tollway_charge", (place, f"{place} {raised};"))
    reply = node.get(token=caller.token, query={})
    assert (reply.code, reply.headers["x-tollway-reason"]) == (100, "PARAMETER_MISSING")
    change_function(own_store, "tollway_charge", (f"{place} {raised};", place))
    assert calls_left(own_store, caller) == 100
    lines = [line for line in node.log().splitlines() if "was not counted for all nodes" in line]
    (logged,) = map(json.loads, lines)
    assert (logged["level"], "trace" in logged) == (level, has_trace)
    if has_trace:
        with pytest.raises(AssertionError, match="was not counted for all nodes"):
            node.stop()
    else:
        assert node.stop() == 0

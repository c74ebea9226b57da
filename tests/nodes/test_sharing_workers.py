"""Two workers of one gateway: what one of them has charged or changed, the other knows."""

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from datetime import date

import httpx
import pytest

from tests.support.figures import store_with_figures
from tests.support.gateway import ANALYSIS, Gateway
from tests.support.ledger import Caller, calls_left, new_caller
from tests.support.load import LoadResult, assert_ledger_adds_up, flood
from tests.support.stores import Store
from tollway.ledger.entries import top_up
from tollway.ledger.runtime import Runtime
from tollway.ledger.tokens import revoke_token

# So many connections that no worker is left without one.
CONNECTIONS = 24
CALLS = "calls:product_analysis"
KILLS = 2
CALLS_BEFORE, CALLS_AFTER = 100, 300


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, today: date, engine: str) -> Store:
    return store_with_figures(tmp_path_factory.mktemp("workers") / "tollway.db", today)


@pytest.fixture(scope="module")
def gateway(shared: Store) -> Iterator[Gateway]:
    with Gateway(shared, workers=2) as started:
        yield started


@pytest.fixture
def clients(gateway: Gateway) -> Iterator[list[httpx.Client]]:
    """Each with a connection of its own, to one of the workers."""
    with ExitStack() as opened:
        yield [
            opened.enter_context(httpx.Client(base_url=gateway.base_url, timeout=30))
            for _ in range(CONNECTIONS)
        ]


def ask(client: httpx.Client, caller: Caller, query: dict[str, str], key: str = "") -> int:
    headers = {"Authorization": f"Bearer {caller.token}"}
    if key:
        headers["Idempotency-Key"] = key
    return int(client.get(ANALYSIS, params=query, headers=headers).json()["code"])


def test_a_change_is_seen_by_the_next_call_of_either(
    shared: Store, clients: list[httpx.Client], question: dict[str, str]
) -> None:
    caller = new_caller(shared, calls=CONNECTIONS, rate_limit=100_000)
    assert [ask(each, caller, question) for each in clients] == [0] * CONNECTIONS
    assert {ask(each, caller, question) for each in clients} == {204}
    shared.do(lambda database: top_up(database, Runtime(), caller.account_id, CALLS, 1000))
    if shared.is_shared:
        # A notice of a change takes a moment; on one machine there is none to wait for.
        while {ask(each, caller, question) for each in clients} != {0}:
            pass
    assert {ask(each, caller, question) for each in clients} == {0}
    shared.do(lambda database: revoke_token(database, Runtime(), caller.token_id))
    if shared.is_shared:
        while {ask(each, caller, question) for each in clients} != {401}:
            pass
    assert {ask(each, caller, question) for each in clients} == {401}


def test_one_key_on_both_at_once_is_charged_once(
    shared: Store, clients: list[httpx.Client], question: dict[str, str]
) -> None:
    caller = new_caller(shared, calls=100, rate_limit=100_000)
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        codes = list(pool.map(lambda each: ask(each, caller, question, "the same"), clients))
    assert set(codes) == {0}
    assert calls_left(shared, caller) == 99


def test_a_worker_that_is_killed_loses_nothing_and_holds_up_no_other(
    shared: Store, gateway: Gateway, question: dict[str, str]
) -> None:
    caller = new_caller(shared, calls=100_000, rate_limit=1_000_000)
    acknowledged: list[str] = []
    for _ in range(KILLS):
        load = asyncio.run(_call_beside_a_kill(gateway, caller, question))
        assert load.was_enough and set(load.codes) == {0}
        acknowledged += load.acknowledged
    assert_ledger_adds_up(shared, acknowledged)
    assert calls_left(shared, caller) <= 100_000 - len(acknowledged)


async def _call_beside_a_kill(
    gateway: Gateway, caller: Caller, question: dict[str, str]
) -> LoadResult:
    """Kills a worker while both charge, and sees that the other one goes on."""
    dies, _ = await asyncio.to_thread(_both_workers, gateway)
    killed_after: list[int] = []

    def is_enough(load: LoadResult) -> bool:
        if not killed_after and load.codes.total() >= CALLS_BEFORE:
            os.kill(dies, signal.SIGKILL)
            killed_after.append(load.codes.total())
        return bool(killed_after) and load.codes.total() >= killed_after[0] + CALLS_AFTER

    return await flood([gateway], caller.token, question, CONNECTIONS, is_enough)


def _both_workers(gateway: Gateway) -> list[int]:
    """Once they have been started again."""
    while True:
        workers = gateway.workers()
        with suppress(httpx.TransportError):
            metrics = httpx.get(f"{gateway.base_url}/metrics", timeout=30).text
            if len(workers) == 2 and 'worker="1"' in metrics and 'worker="2"' in metrics:
                return workers
        time.sleep(0.05)

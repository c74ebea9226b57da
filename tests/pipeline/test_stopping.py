"""A gateway that is stopped, or killed, while it is called: what was acknowledged is in the ledger.

Small counts, in every run of the tests; zero failures in 3 kills say little of one in a thousand.
"""

import asyncio
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import httpx
import pytest

from tests.support.gateway import Gateway
from tests.support.ledger import Caller, calls_left, new_caller
from tests.support.load import (
    assert_a_lost_entry_is_noticed,
    assert_ledger_adds_up,
    call_until_cut_off,
)
from tests.support.remote import eventually
from tests.support.stores import Store

CALLS = 100_000
DEADLINE_S = 20


@pytest.fixture
def caller(own_store: Store) -> Caller:
    return new_caller(own_store, calls=CALLS, rate_limit=1_000_000)


def under_way(gateway: Gateway) -> int:
    metrics = gateway.client.get("/metrics").text
    (line,) = [line for line in metrics.splitlines() if line.startswith("tollway_calls_under_way ")]
    return int(float(line.split()[1]))


def test_calls_under_way_when_it_is_stopped_are_answered_and_paid(
    own_store: Store, caller: Caller, question: dict[str, str]
) -> None:
    # On a busy machine the first might otherwise time out before the last has come.
    gateway = Gateway(own_store, call_timeout_s=60)
    with ThreadPoolExecutor(8) as pool, ExitStack() as hold:
        hold.enter_context(own_store.held())
        calls = [pool.submit(gateway.get, token=caller.token, query=question) for _ in range(8)]
        deadline_s = time.monotonic() + DEADLINE_S
        while under_way(gateway) < 8:
            assert time.monotonic() < deadline_s
        gateway.process.send_signal(signal.SIGTERM)
        # Long enough for the signal to be seen; the calls cannot end before the lock does.
        with pytest.raises(TimeoutError):
            calls[0].result(timeout=0.3)
        hold.close()
        replies = [call.result(timeout=DEADLINE_S) for call in calls]
    assert [reply.code for reply in replies] == [0] * 8
    assert gateway.process.wait(timeout=DEADLINE_S) == 0
    gateway.stop()
    assert_ledger_adds_up(own_store, [reply.headers["x-request-id"] for reply in replies])
    assert calls_left(own_store, caller) == CALLS - 8


def test_stopped_under_load_it_owes_no_caller_an_answer(
    own_store: Store, caller: Caller, question: dict[str, str]
) -> None:
    gateway = Gateway(own_store)

    def stop() -> None:
        gateway.process.send_signal(signal.SIGTERM)

    load = asyncio.run(
        call_until_cut_off(gateway, caller.token, question, clients=16, after=200, then=stop)
    )
    assert gateway.process.wait(timeout=DEADLINE_S) == 0
    gateway.stop()
    assert set(load.codes) == {0} and len(load.acknowledged) >= 200
    assert_ledger_adds_up(own_store, load.acknowledged)
    assert calls_left(own_store, caller) == CALLS - len(load.acknowledged)
    assert_a_lost_entry_is_noticed(own_store, load.acknowledged)


def test_killed_under_load_it_has_every_acknowledged_call_in_its_ledger(
    own_store: Store, caller: Caller, question: dict[str, str]
) -> None:
    acknowledged: list[str] = []
    for after in (50, 333):
        gateway = Gateway(own_store)
        load = asyncio.run(
            call_until_cut_off(
                gateway,
                caller.token,
                question,
                clients=16,
                after=after,
                then=gateway.kill,
            )
        )
        gateway.stop()
        acknowledged += load.acknowledged
    assert len(acknowledged) >= 383
    assert_ledger_adds_up(own_store, acknowledged)
    # One call of each client may have been paid and not been answered any more, each time.
    assert 0 <= CALLS - calls_left(own_store, caller) - len(acknowledged) <= 32
    again = Gateway(own_store)
    assert again.get(token=caller.token, query=question).code == 0
    assert again.stop() == 0


def test_a_worker_that_is_killed_is_replaced_and_nothing_acknowledged_is_lost(
    own_store: Store, caller: Caller, question: dict[str, str]
) -> None:
    gateway = Gateway(own_store)

    def kill_worker() -> None:
        os.kill(gateway.workers()[0], signal.SIGKILL)

    load = asyncio.run(
        call_until_cut_off(gateway, caller.token, question, clients=8, after=99, then=kill_worker)
    )
    _wait_until_ready(gateway)
    assert gateway.get(token=caller.token, query=question).code == 0
    assert gateway.stop() == 0
    assert_ledger_adds_up(own_store, load.acknowledged)
    assert 1 <= CALLS - calls_left(own_store, caller) - len(load.acknowledged) <= 1 + 8


def _wait_until_ready(gateway: Gateway) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while True:
        try:
            if gateway.client.get("/readyz").status_code == 200:
                return
        except httpx.TransportError:
            assert time.monotonic() < deadline_s


@pytest.mark.sqlite  # It takes seconds, and there both workers have one file for a moment.
def test_a_hangup_replaces_the_worker_and_the_gateway_goes_on(own_store: Store) -> None:
    gateway = Gateway(own_store)
    (old,) = gateway.workers()
    gateway.process.send_signal(signal.SIGHUP)
    eventually(gateway.workers, lambda workers: old not in workers)
    with httpx.Client(base_url=str(gateway.client.base_url)) as client:
        assert client.get("/readyz").status_code == 200
    assert gateway.stop() == 0

"""A carrier that hangs delays its own waybills until their deadline, and no other call.

How little the others notice, in figures: `bench/hung_carrier.py`.
"""

import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from datetime import date
from pathlib import Path

import pytest

from tests.support.all_operations import all_operations_caller, ask, good_request, small_world
from tests.support.fake_carrier import ISSUE, FakeCarrier
from tests.support.gateway import Gateway, Reply
from tests.support.remote import connected_carrier, eventually
from tests.support.stores import Store
from tests.support.waybills import request
from tollway.operations.catalogue import OPERATIONS
from tollway.operations.waybills.operation import WAYBILLS

DEADLINE_S = 5.0
# Without a deadline it would be the client that gives up, after 30 s.
ANSWERED_WITHIN_S = 20
AT_ONCE = 20
# Between the other calls, so that they are made all the time and leave the processor free.
PAUSE_S = 0.2
OTHERS = [operation for operation in OPERATIONS if operation is not WAYBILLS]


@pytest.fixture
def carrier(tmp_path: Path) -> Iterator[FakeCarrier]:
    started = FakeCarrier(tmp_path)
    yield started
    started.stop()


def test_waybills_answer_101_at_the_deadline_and_the_others_go_on(
    own_store: Store, carrier: FakeCarrier, today: date
) -> None:
    small_world(own_store, today)
    caller = all_operations_caller(
        own_store, rate_limit=100_000, calls=1_000_000, credits_=1_000_000
    )
    link = {"deadline_ms": int(DEADLINE_S * 1000), "settle_after_s": 60}
    wp_code = connected_carrier(own_store, carrier, **link)
    gateway = Gateway(own_store, reconcile_interval_s=1)
    carrier.misbehave("stall_before_commit")

    def waybill() -> tuple[Reply, float]:
        began_s = time.monotonic()
        reply = ask(gateway, WAYBILLS, caller.token, request(wp_code))
        return reply, time.monotonic() - began_s

    with ThreadPoolExecutor(AT_ONCE) as pool:
        waiting = [pool.submit(waybill) for _ in range(AT_ONCE)]
        # Not until all have come: on a busy machine the first might be given up by then.
        eventually(lambda: carrier.received(ISSUE), bool)
        answered = 0
        while not wait(waiting, PAUSE_S, FIRST_COMPLETED).done:
            for operation in OTHERS:
                sent = good_request(operation, today)
                assert ask(gateway, operation, caller.token, sent).code == 0
                answered += 1
        found = [each.result() for each in waiting]
    assert answered >= len(OTHERS)
    assert {reply.code for reply, _ in found} == {101}
    assert all("credits are held" in reply.msg for reply, _ in found)
    assert all(DEADLINE_S <= took_s < ANSWERED_WITHIN_S for _, took_s in found)
    # From now on no call has to wait for it, because nothing is sent to it.
    reply, _ = waybill()
    assert (reply.code, "cannot be reached" in reply.msg) == (101, True)
    assert carrier.received(ISSUE) == AT_ONCE
    assert gateway.stop() == 0

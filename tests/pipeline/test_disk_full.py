"""A disk that is full: nothing is acknowledged without its entry, and all is well when it is not.

The disk of SQLite is made full for the worker alone, by a limit on the size of the files it writes.
PostgreSQL says that it is full.
"""

import resource
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from tests.support.functions import change_function
from tests.support.gateway import Gateway
from tests.support.ledger import calls_left, new_caller
from tests.support.load import assert_ledger_adds_up
from tests.support.metrics import metrics, sample
from tests.support.remote import eventually
from tests.support.stores import Store

# More than the log has by then, and less than the write-ahead log.
LIMIT_BYTES = 64 * 1024
_LISTENING = """
SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND query LIKE '%AS tollway_listens'"""


@contextmanager
def disk_full(gateway: Gateway) -> Iterator[None]:
    (worker,) = gateway.workers()
    before = resource.prlimit(worker, resource.RLIMIT_FSIZE)
    resource.prlimit(worker, resource.RLIMIT_FSIZE, (LIMIT_BYTES, before[1]))
    try:
        yield
    finally:
        resource.prlimit(worker, resource.RLIMIT_FSIZE, before)


@pytest.mark.sqlite
def test_it_answers_202_charges_nothing_and_recovers_by_itself(
    own_store: Store, question: dict[str, str]
) -> None:
    caller = new_caller(own_store, calls=1000, rate_limit=100_000)
    gateway = Gateway(own_store)

    def call(_: int) -> tuple[int, str]:
        reply = gateway.get(token=caller.token, query=question)
        return reply.code, reply.headers["x-request-id"]

    wal = own_store.path.with_name(f"{own_store.path.name}-wal")
    paid = []
    while wal.stat().st_size <= LIMIT_BYTES:
        paid.append(call(0))
    with ThreadPoolExecutor(8) as pool:
        with disk_full(gateway):
            refused = list(pool.map(call, range(24)))
            assert gateway.client.get("/healthz").status_code == 200
            assert gateway.get(query=question).code == 401
            assert gateway.get(token=caller.token).code == 100
        after = list(pool.map(call, range(24)))
    assert Counter(code for code, _ in refused) == {202: 24}
    assert {code for code, _ in (*paid, *after)} == {0}
    assert gateway.stop() == 0
    acknowledged = [request_id for _, request_id in (*paid, *after)]
    assert_ledger_adds_up(own_store, acknowledged)
    assert calls_left(own_store, caller) == 1000 - len(acknowledged)
    eventually(gateway.log, lambda text: "the database is unavailable" in text)


@pytest.mark.postgresql
@pytest.mark.parametrize("state", ["53100", "53200", "58030"], ids=["disk", "memory", "error"])
def test_what_the_server_could_not_store_is_certain_and_its_connections_are_kept(
    own_store: Store, question: dict[str, str], state: str
) -> None:
    caller, gateway = new_caller(own_store, calls=10), Gateway(own_store)
    assert gateway.get(token=caller.token, query=question).code == 0
    listening = eventually(lambda: own_store.run(_LISTENING), bool)
    place = "w := of_window[i];"
    failing = f"{place} RAISE EXCEPTION 'no space left' USING ERRCODE = '{state}';"
    change_function(own_store, "tollway_charge", (place, failing))
    refused = [gateway.get(token=caller.token, query=question) for _ in range(3)]
    change_function(own_store, "tollway_charge", (failing, place))
    reasons = [(reply.code, reply.headers["x-tollway-reason"]) for reply in refused]
    assert reasons == [(202, "STORE_UNAVAILABLE")] * 3
    assert gateway.get(token=caller.token, query=question).code == 0
    # All are made again when one is lost.
    assert own_store.run(_LISTENING) == listening
    assert gateway.stop() == 0
    assert calls_left(own_store, caller) == 8


@pytest.mark.postgresql
def test_a_gateway_whose_server_has_no_space_for_charges_is_not_ready(
    own_store: Store, question: dict[str, str]
) -> None:
    caller, gateway = new_caller(own_store, calls=10), Gateway(own_store)
    assert gateway.get(token=caller.token, query=question).code == 0
    assert _ready(gateway) == (200, None)
    place = "w := of_window[i];"
    failing = f"{place} RAISE EXCEPTION 'no space left' USING ERRCODE = '53100';"
    change_function(own_store, "tollway_charge", (place, failing))
    assert gateway.get(token=caller.token, query=question).code == 202
    # What asks whether it is ready needs no space, and is written all the same.
    assert _ready(gateway) == (503, "database_unavailable")
    assert sample(metrics(gateway), "tollway_unready", reason="database_unavailable") == 1
    change_function(own_store, "tollway_charge", (failing, place))
    assert gateway.get(token=caller.token, query=question).code == 0
    eventually(lambda: _ready(gateway), lambda answered: answered == (200, None))
    assert gateway.stop() == 0


@pytest.mark.postgresql
def test_a_server_that_lacks_memory_for_one_call_does_not_keep_the_others_away(
    own_store: Store, question: dict[str, str]
) -> None:
    caller, gateway = new_caller(own_store, calls=10), Gateway(own_store)
    place = "w := of_window[i];"
    failing = f"{place} RAISE EXCEPTION 'out of memory' USING ERRCODE = '53200';"
    change_function(own_store, "tollway_charge", (place, failing))
    assert gateway.get(token=caller.token, query=question).code == 202
    assert _ready(gateway) == (200, None)
    assert gateway.stop() == 0


def _ready(gateway: Gateway) -> tuple[int, str | None]:
    answer = gateway.client.get("/readyz")
    return answer.status_code, answer.json().get("reason")

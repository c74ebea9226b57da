"""`/readyz` says why a gateway is not ready, and so does a metric."""

import asyncio
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit, urlunsplit

import httpx
import pytest

from tests.support.gateway import ANALYSIS, Gateway
from tests.support.ledger import new_caller
from tests.support.metrics import metrics, sample
from tests.support.postgresql import locked, new_database, run_on
from tests.support.remote import eventually
from tests.support.stores import Store
from tollway.gateway.probes import Readiness, probes
from tollway.store.database import Database


def _answer(gateway: Gateway) -> tuple[int, str | None]:
    answer = gateway.client.get("/readyz")
    return answer.status_code, answer.json().get("reason")


def _reasons(gateway: Gateway) -> list[str]:
    reasons = ("draining", "database_unavailable", "database_busy", "no_connections")
    found = metrics(gateway)
    return [each for each in reasons if sample(found, "tollway_unready", reason=each)]


def test_a_gateway_that_drains_says_so(own_store: Store) -> None:
    gateway = Gateway(own_store, drain_s=300)
    assert (_answer(gateway), _reasons(gateway)) == ((200, None), [])
    gateway.process.send_signal(signal.SIGTERM)
    eventually(lambda: _answer(gateway), lambda answered: answered == (503, "draining"))
    assert _reasons(gateway) == ["draining"]
    assert "elsewhere" in gateway.client.get("/readyz").json()["message"]
    # A second signal ends the drain.
    assert gateway.stop() == 0


def test_a_database_that_takes_no_write_in_time_is_named(own_store: Store) -> None:
    gateway = Gateway(own_store, call_timeout_s=1)
    with own_store.held():
        assert _answer(gateway) == (503, "database_busy")
        assert _reasons(gateway) == ["database_busy"]
    eventually(lambda: _answer(gateway), lambda answered: answered == (200, None))
    assert _reasons(gateway) == []
    assert gateway.stop() == 0


@pytest.mark.postgresql
def test_a_server_without_a_free_connection_is_named(tmp_path: Path) -> None:
    url = new_database()
    role = f"limited_{urlsplit(url).path[1:]}"
    run_on(url, f"CREATE ROLE {role} LOGIN")
    run_on(url, f"GRANT {urlsplit(url).username} TO {role}")
    parts = urlsplit(url)
    limited = urlunsplit(parts._replace(netloc=f"{role}@{parts.netloc.rpartition('@')[2]}"))
    gateway = Gateway(Store(tmp_path / "tollway.db", limited))

    # As many as it has, and one: calls wait for each other's, and none is refused.
    caller = new_caller(Store(tmp_path / "tollway.db", url), rate_limit=100_000)
    run_on(url, f"ALTER ROLE {role} CONNECTION LIMIT 3")
    query = {"product_id": "unknown", "query_date": "2026-01-01"}
    sent = {"Authorization": f"Bearer {caller.token}"}
    with httpx.Client(base_url=gateway.base_url, timeout=30) as client, ThreadPoolExecutor(32) as p:
        replies = p.map(
            lambda _: client.get(ANALYSIS, params=query, headers=sent).json()["code"], range(128)
        )
        assert set(replies) == {100}
    refused = "tollway_database_connections_refused_total"
    assert sample(metrics(gateway), refused, database="primary") > 0
    assert "short" in gateway.client.get("/readyz").json()["warning"]

    run_on(url, f"ALTER ROLE {role} CONNECTION LIMIT 0")
    run_on(url, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{role}'")
    eventually(lambda: _answer(gateway), lambda answered: answered == (503, "no_connections"))
    assert _reasons(gateway) == ["no_connections"]
    found = metrics(gateway)
    assert sample(found, "tollway_database_connections_refused_total", database="primary") > 0

    run_on(url, f"ALTER ROLE {role} CONNECTION LIMIT -1")
    eventually(lambda: _answer(gateway), lambda answered: answered == (200, None))
    assert gateway.stop() == 0


@pytest.mark.postgresql
def test_calls_that_wait_for_a_connection_are_seen_and_named(
    own_store: Store, question: dict[str, str]
) -> None:
    caller = new_caller(own_store)
    gateway = Gateway(own_store, database_connections=1)
    eventually(lambda: _connections(gateway), lambda answered: answered == (0, 1, 0))
    with (
        ThreadPoolExecutor() as pool,
        locked(own_store.url, "product", mode="ACCESS EXCLUSIVE"),
    ):
        url, sent = f"{gateway.base_url}{ANALYSIS}", {"Authorization": f"Bearer {caller.token}"}
        pool.submit(httpx.get, url, params=question, headers=sent, timeout=30)
        # What asks whether it is ready waits for the one connection, which that call has.
        eventually(lambda: _answer(gateway), lambda answered: answered == (503, "no_connections"))
        waits = pool.submit(_answer, gateway)
        eventually(lambda: _connections(gateway)[2], lambda waiting: waiting > 0)
        waits.result()
    eventually(lambda: _answer(gateway), lambda answered: answered == (200, None))
    assert gateway.stop() == 0


def _connections(gateway: Gateway) -> tuple[float, float, float]:
    """How many are in use, are idle, are waited for."""
    found = metrics(gateway)
    in_use, idle = (
        sample(found, "tollway_database_connections", database="primary", state=state)
        for state in ("in_use", "idle")
    )
    waiting = sample(found, "tollway_database_connections_waiting", database="primary")
    return in_use, idle, waiting


def test_a_gateway_that_is_short_of_connections_is_ready_and_warns() -> None:
    class Written:
        async def write(self, _: object) -> None: ...

    async def ask() -> dict[str, str]:
        readiness = Readiness(
            cast(Database, Written()), is_draining=lambda: False, is_crowded=lambda: True
        )
        transport = httpx.ASGITransport(probes(_none, readiness)["/readyz"])
        async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
            answer = await client.get("/readyz")
        assert answer.status_code == 200
        return answer.json()

    answered = asyncio.run(ask())
    assert answered["status"] == "ready" and "wait" in answered["warning"]


async def _none() -> bytes:
    return b""


def test_other_methods_are_no_probe(gateway: Gateway) -> None:
    assert httpx.post(f"{gateway.base_url}/readyz").status_code == 405

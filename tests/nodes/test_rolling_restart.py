"""Two nodes behind a load balancer are restarted one after the other, under load."""

import asyncio
import json
from collections import Counter
from urllib.parse import urlencode

import httpx
import pytest

from tests.nodes.balancer import Balancer
from tests.support.gateway import ANALYSIS, Gateway
from tests.support.ledger import Caller, calls_left, new_caller
from tests.support.stores import Store

pytestmark = pytest.mark.postgresql

CALLS = 1_000_000
CLIENTS = 8
# Of many clients some are always calling, and most of the processor is left to others.
PAUSE_S = 0.05


async def call_until(over: asyncio.Event, port: int, request: bytes) -> Counter[object]:
    """Calls on one connection; counts codes, and HTTP statuses of what is no envelope."""
    codes: Counter[object] = Counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while not over.is_set():
        writer.write(request)
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = int(head.lower().partition("content-length: ")[2].partition("\r")[0])
        body = await reader.readexactly(length)
        codes[json.loads(body)["code"] if body else head.split()[1]] += 1
        await asyncio.sleep(PAUSE_S)
    writer.close()
    return codes


async def restarted_in_turn(
    nodes: list[Gateway], request: bytes, *, probe_every_s: float
) -> Counter[object]:
    """The codes that the callers got meanwhile."""
    over = asyncio.Event()
    ports = [node.port for node in nodes]
    async with Balancer(ports, probe_every_s=probe_every_s) as balancer:
        callers = [
            asyncio.create_task(call_until(over, balancer.port, request)) for _ in range(CLIENTS)
        ]
        for index, node in enumerate(nodes):
            assert await asyncio.to_thread(node.stop) == 0
            await balancer.until(len(nodes) - 1)
            # No draining any more: when it is stopped, no client calls.
            nodes[index] = await asyncio.to_thread(
                lambda node=node: Gateway(node.store, port=node.port, drain_s=0)  # type: ignore[misc]
            )
            await balancer.until(len(nodes))
        over.set()
        return sum(await asyncio.gather(*callers), Counter())


def request_of(caller: Caller, question: dict[str, str]) -> bytes:
    return (
        f"GET {ANALYSIS}?{urlencode(question)} HTTP/1.1\r\n"
        f"Host: 127.0.0.1\r\nAuthorization: Bearer {caller.token}\r\n\r\n"
    ).encode()


def run(
    store: Store, question: dict[str, str], *, probe_every_s: float, drain_s: int
) -> Counter[object]:
    caller = new_caller(store, calls=CALLS, rate_limit=1_000_000)
    nodes = [Gateway(store, drain_s=drain_s) for _ in range(2)]
    codes = asyncio.run(
        restarted_in_turn(nodes, request_of(caller, question), probe_every_s=probe_every_s)
    )
    assert [node.stop() for node in nodes] == [0, 0]
    assert codes[0] == CALLS - calls_left(store, caller)
    return codes


def test_no_call_fails(own_store: Store, question: dict[str, str]) -> None:
    codes = run(own_store, question, probe_every_s=0.1, drain_s=3)
    assert set(codes) == {0}, codes


def test_without_draining_calls_would_fail(own_store: Store, question: dict[str, str]) -> None:
    codes = run(own_store, question, probe_every_s=0.5, drain_s=0)
    assert codes["502"] > 0, "the control shows nothing"


def test_while_it_drains_it_answers_but_is_not_ready(
    own_store: Store, question: dict[str, str]
) -> None:
    caller = new_caller(own_store)
    gateway = Gateway(own_store, drain_s=60)
    first = gateway.get(token=caller.token, query=question)
    assert "connection" not in first.headers
    gateway.process.terminate()
    while httpx.get(f"{gateway.base_url}/readyz", timeout=30).status_code == 200:
        pass
    answered = gateway.get(token=caller.token, query=question)
    assert (answered.code, answered.headers["connection"]) == (0, "close")
    assert httpx.get(f"{gateway.base_url}/healthz", timeout=30).status_code == 200
    # A second signal says that there is no more time.
    assert gateway.stop() == 0

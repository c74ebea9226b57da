"""Peers answer as the gateway does, each where its tools are installed."""

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from bench import servers
from bench.contestants import Peer, Started
from bench.load import NUMBER, full, paced
from bench.peers import fastapi_peer, nginx
from bench.peers.answers import Answer, Asker, Data, read_answers
from bench.peers.bare import bare_request, start_bare
from bench.scenarios import SCENARIOS, Scenario
from bench.world import Size, World, make_world
from tests.support.gateway import Gateway
from tests.support.stores import Store

pytestmark = pytest.mark.sqlite
SMALL = Size(
    orders_a_year=3000,
    order_days=10,
    products=2,
    figure_days=32,
    claims_a_day=40,
    numbers=200,
)
BY_NAME = {each.name: each for each in SCENARIOS}
# Of a waybill's own: the address of the gateway, its id, when it was made and its signature.
OWN_PARTS = re.compile(r"http://[^/]*|wb_\w{23}|HS256:\d:\w+|YT9\d{12}|:\d{10}(?=})")


class Measured(NamedTuple):
    """The gateway, its data, and one answer of it to each kind of request."""

    world: World
    data: Data
    answers: dict[str, Answer]


def first_request(scenario: Scenario, world: World, data: Data) -> bytes:
    return scenario.requests(world, data.amounts)[0].replace(NUMBER, b"0" * len(NUMBER))


def answer_to(port: int, scenario: Scenario, request: bytes) -> Answer:
    """Of a limit, the first calls succeed."""
    asker = Asker(port)
    for _ in range(100):
        answer = asker.ask(request)
        if answer.status == scenario.status:
            break
    asker.close()
    return answer


@pytest.fixture(autouse=True)
def any_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests run beside these, so no core is theirs."""
    monkeypatch.setattr(servers, "SERVER_CORES", f"0-{(os.cpu_count() or 1) - 1}")


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Measured]:
    store = Store(tmp_path_factory.mktemp("bench") / "tollway.db")
    world = make_world(store.url, store.key_file, SMALL)
    gateway = Gateway(store, http_status="mapped")
    data = read_answers(gateway.port, world)
    answers = {
        each.name: answer_to(gateway.port, each, first_request(each, world, data))
        for each in SCENARIOS
    }
    yield Measured(world, data, answers)
    gateway.stop()


def start_nginx(folder: Path, measured: Measured) -> Peer:
    if found := nginx.missing_tools():
        pytest.skip(f"needs {', '.join(found)}")
    return nginx.NginxPeer(folder, measured.world, measured.data)


def start_fastapi(folder: Path, measured: Measured) -> Peer:
    if found := fastapi_peer.missing_tools():
        pytest.skip(f"needs {', '.join(found)}")
    url = f"sqlite:///{folder / 'peer.db'}"
    return fastapi_peer.FastApiPeer(folder, url, measured.world, measured.data)


@pytest.mark.parametrize("start", [start_nginx, start_fastapi])
def test_a_peer_answers_what_the_gateway_answers(
    measured: Measured, tmp_path: Path, start: Callable[[Path, Measured], Peer]
) -> None:
    peer = start(tmp_path, measured)
    try:
        for name, expected in measured.answers.items():
            scenario = BY_NAME[name]
            request = first_request(scenario, measured.world, measured.data)
            answer = answer_to(peer.port, scenario, request)
            assert answer.status == scenario.status == expected.status, answer.body.decode()
            own, its = (OWN_PARTS.sub("", each.data.decode()) for each in (expected, answer))
            assert its == own, name
    finally:
        peer.stop()


def test_the_bare_server_sends_the_same_bytes_and_both_loads_count_them(
    measured: Measured, tmp_path: Path
) -> None:
    if found := servers.missing({"wrk": "wrk", "taskset": "util-linux", "setarch": "util-linux"}):
        pytest.skip(f"needs {', '.join(found)}")
    answers = {f"/{name}": each for name, each in measured.answers.items()}
    port, process = start_bare(tmp_path, answers)
    server = Started(port, process)
    asker = Asker(port)
    try:
        for name, expected in measured.answers.items():
            request = first_request(BY_NAME[name], measured.world, measured.data)
            answer = asker.ask(bare_request(request, f"/{name}"))
            assert (answer.status, answer.body) == (expected.status, expected.body)
        requests = [bare_request(request, "/refused_401")]
        (tmp_path / "requests").write_bytes(b"\0".join(requests))
        before_s = servers.cpu_s(process.pid)
        found = full(port, tmp_path / "requests", 0.5, 4, 0)
        assert found.calls == found.refused > 0
        assert servers.cpu_s(process.pid) > before_s
        assert 0 < found.p50_ms <= found.p99_ms
        slow = paced(port, requests, rate=200, seconds=0.25, connections=4, first=0)
        assert slow.calls == slow.refused == 50
        assert slow.seconds >= 0.24
    finally:
        asker.close()
        server.stop()

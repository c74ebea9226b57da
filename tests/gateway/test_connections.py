"""A client that does not read, or takes many connections, loses them; the others notice nothing."""

import asyncio
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.gateway import Gateway
from tests.support.raw import request, talk
from tests.support.remote import eventually
from tests.support.stores import Store
from tollway.gateway import connections

pytestmark = pytest.mark.sqlite
MOST = 64
HEALTH = request("/healthz", "Host: x")
# Far more answers than the buffers of a connection hold.
MANY = request("/pages.css", "Host: x") * 1000
READ_TIMEOUT_S = 2
FILES = 160


class WithFewFiles(Gateway):
    """Each of its processes may open few files."""

    def _start(self, *command: str, **where: Any) -> Any:
        limited = ["prlimit", f"--nofile={FILES}:{FILES}", sys.executable, "-m", *command]
        return subprocess.Popen(limited, stdout=subprocess.PIPE, text=True, **where)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, engine: str) -> Iterator[Gateway]:
    store = Store(tmp_path_factory.mktemp("connections") / "tollway.db")
    with Gateway(
        store, connections_max=MOST, read_timeout_s=READ_TIMEOUT_S, header_timeout_s=300
    ) as gateway:
        yield gateway


@contextmanager
def connected(gateway: Gateway, number: int = 1) -> Iterator[list[socket.socket]]:
    with ExitStack() as held:
        yield [
            held.enter_context(
                socket.create_connection(
                    ("127.0.0.1", gateway.port), source_address=("127.0.0.3", 0)
                )
            )
            for _ in range(number)
        ]


def is_ended(connection: socket.socket) -> bool:
    """Whether the other side has ended it; what was received before stays unread."""
    poll = select.poll()
    poll.register(connection, select.POLLRDHUP)
    return bool(poll.poll(0))


def assert_serves(gateway: Gateway) -> None:
    spoken = talk(gateway.port, HEALTH, expected=1, patience_s=20)
    assert [reply.status for reply in spoken.replies] == [200]


def test_a_client_that_never_reads_loses_its_connection(served: Gateway) -> None:
    with connected(served) as (silent,):
        silent.sendall(MANY)
        assert_serves(served)
        eventually(lambda: is_ended(silent), bool)


def test_so_does_one_that_reads_a_byte_now_and_then(served: Gateway) -> None:
    with connected(served) as (slow,):
        slow.sendall(MANY)

        def ended() -> bool:
            slow.recv(1)
            return is_ended(slow)

        eventually(ended, bool)


def test_a_client_that_reads_slowly_keeps_it(served: Gateway) -> None:
    with connected(served) as (slow,):
        slow.sendall(MANY)
        until_s = time.monotonic() + 3 * READ_TIMEOUT_S
        while time.monotonic() < until_s:
            assert slow.recv(65_536)
            time.sleep(0.1)
        assert not is_ended(slow)


def test_connections_of_one_address_leave_some_for_another(served: Gateway) -> None:
    with connected(served, 2 * MOST) as idle:
        assert_serves(served)
        left = eventually(
            lambda: [each for each in idle if not is_ended(each)],
            lambda those: len(those) <= MOST / 2,
        )
        assert_serves(served)
        # They are not shut out altogether.
        assert len(left) > MOST / 4


def test_connections_leave_files_for_the_rest_where_few_may_be_open(tmp_path: Path) -> None:
    gateway = WithFewFiles(Store(tmp_path / "tollway.db"), header_timeout_s=300)
    try:
        with connected(gateway, 2 * FILES) as idle:
            assert_serves(gateway)
            eventually(lambda: sum(map(is_ended, idle)), lambda ended: ended > FILES)
            assert_serves(gateway)
    finally:
        # A fork would end with the test run, this one would not.
        status = gateway.stop()
    assert status == 0
    assert f"may open {FILES} files" in gateway.log()


def test_the_only_connection_of_an_address_stays(served: Gateway) -> None:
    with (
        socket.create_connection(("127.0.0.1", served.port)) as only,
        connected(served, 2 * MOST) as idle,
    ):
        eventually(lambda: sum(map(is_ended, idle)), lambda ended: ended >= 1.5 * MOST)
        assert not is_ended(only)


def test_of_one_address_those_that_are_used_stay(served: Gateway) -> None:
    with connected(served) as (used,):
        used.sendall(HEALTH)
        assert used.recv(65_536)
        with connected(served, 2 * MOST) as idle:

            def ask() -> int:
                used.sendall(HEALTH)
                assert used.recv(65_536).startswith(b"HTTP/1.1 200")
                return sum(map(is_ended, idle))

            eventually(ask, lambda ended: ended >= 1.5 * MOST)


def test_after_a_large_answer_the_connection_ends(served: Gateway) -> None:
    spoken = talk(served.port, request("/openapi.json", "Host: x") * 3)
    assert [reply.status for reply in spoken.replies] == [200]
    assert spoken.is_closed


def test_all_addresses_of_one_ipv6_network_share_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has one such address has 2^64. A machine for tests has one IPv6 address at most, so the
    clients of real connections get other names here."""
    with ExitStack() as held:
        server = held.enter_context(socket.create_server(("127.0.0.1", 0)))
        port = server.getsockname()[1]
        clients, names = [], {}
        for number in range(41):
            clients.append(held.enter_context(socket.create_connection(("127.0.0.1", port))))
            held.enter_context(server.accept()[0])
            network = "2001:db8:0:1" if number < 40 else "2001:db8:0:2"
            names[clients[-1].getsockname()[1]] = f"{network}::{number + 1:x}"
        peer_of = connections._peer

        def named(connection: socket.socket) -> connections.Peer:
            real = peer_of(connection)
            return names[real[1]], real[1]

        monkeypatch.setattr(connections, "_peer", named)
        monkeypatch.setattr(connections, "_end", lambda _descriptor, peer: ended.append(peer[0]))
        ended: list[str] = []
        asyncio.run(connections.Connections(port, 44, 10, set()).sweep())
    # Three were free.
    assert len(ended) == 19 and all(each.startswith("2001:db8:0:1:") for each in ended)

"""Two thousand connections that send their headers or bodies, or read their answers, a byte at a
time: gone within ten seconds of their limit, while a client that behaves is served. About three
minutes."""

import resource
import select
import socket
import statistics
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from selectors import EVENT_READ, DefaultSelector
from time import monotonic, perf_counter, sleep
from typing import NamedTuple

import pytest

from tests.support.gateway import ANALYSIS, Gateway
from tests.support.ledger import new_caller
from tests.support.raw import request
from tests.support.stores import Store
from tollway.operations.orders.operation import ORDERS

pytestmark = pytest.mark.torture

CONNECTIONS = 2000
LIMIT_S = 10
GONE_WITHIN_S = LIMIT_S + 10
# What a call may take meanwhile: both sides share a machine that tests keep busy.
SLOWEST_S = 5.0
_OF_AN_ADDRESS = 40


class Dribble(NamedTuple):
    """What is sent at once, and the byte that follows every second; None if one is read instead."""

    sent: bytes
    then: bytes | None


def _dribbles(token: str) -> dict[str, Dribble]:
    head = f"POST {ORDERS.path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
    form = "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 1000\r\n\r\n"
    return {
        "headers": Dribble(b"GET / HTTP/1.1\r\nHost: x\r\nX-Long: ", b"x"),
        "bodies": Dribble((head + form).encode(), b"a"),
        "reads": Dribble(request("/pages.css", "Host: x") * 20, None),
    }


class Crowd:
    """Connections from many addresses, each of which does as little as it can."""

    def __init__(self, port: int, number: int, dribble: Dribble) -> None:
        self._dribble = dribble
        self._selector = DefaultSelector()
        self.left = 0
        for position in range(number):
            made = socket.socket()
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            made.bind((f"127.0.{1 + position // _OF_AN_ADDRESS}.1", 0))
            made.connect(("127.0.0.1", port))
            made.setblocking(False)
            with suppress(BlockingIOError):
                made.send(dribble.sent)
            self._selector.register(made, EVENT_READ)
            self.left += 1

    def dribble_for(self, lasts_s: float) -> float:
        """Goes on until none is left, or so long; returns how long it took."""
        began_s = monotonic()
        while self.left and monotonic() - began_s < lasts_s:
            second_s = monotonic() + 1
            for key in list(self._selector.get_map().values()):
                self._step(key.fileobj)  # type: ignore[arg-type]
            sleep(max(0, second_s - monotonic()))
        return monotonic() - began_s

    def _step(self, each: socket.socket) -> None:
        poll = select.poll()
        poll.register(each, select.POLLRDHUP)
        # What was received before the end could still be read for long.
        if poll.poll(0):
            self._end(each)
            return
        with suppress(OSError):
            if self._dribble.then is not None:
                each.send(self._dribble.then)
            each.recv(1 if self._dribble.then is None else 65_536)

    def _end(self, each: socket.socket) -> None:
        self._selector.unregister(each)
        each.close()
        self.left -= 1

    def close(self) -> None:
        for key in list(self._selector.get_map().values()):
            self._end(key.fileobj)  # type: ignore[arg-type]
        self._selector.close()


@contextmanager
def _called_meanwhile(call: Callable[[], int]) -> Iterator[list[float]]:
    """Calls one after the other; gives how long each took. All must succeed."""
    taken: list[float] = []
    codes: set[int] = set()
    is_over = threading.Event()

    def work() -> None:
        while not is_over.is_set():
            began_s = perf_counter()
            codes.add(call())
            taken.append(perf_counter() - began_s)
            sleep(0.01)

    caller = threading.Thread(target=work)
    caller.start()
    try:
        yield taken
    finally:
        is_over.set()
        caller.join()
    assert codes == {0}


@pytest.fixture(autouse=True)
def many_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("kind", ["headers", "bodies", "reads"])
def test_all_are_gone_in_time_and_a_client_that_behaves_is_served(
    own_store: Store, question: dict[str, str], kind: str
) -> None:
    caller = new_caller(own_store, calls=1_000_000, rate_limit=1_000_000)
    dribbling = new_caller(own_store, kind="test", operations=(ORDERS,), rate_limit=1_000_000)
    gateway = Gateway(own_store)

    def call() -> int:
        return gateway.get(ANALYSIS, token=caller.token, query=question).code

    with _called_meanwhile(call) as quiet:
        sleep(3)
    with _called_meanwhile(call) as attacked:
        crowd = Crowd(gateway.port, CONNECTIONS, _dribbles(dribbling.token)[kind])
        taken_s = crowd.dribble_for(GONE_WITHIN_S)
        left = crowd.left
        crowd.close()
    print(  # noqa: T201
        f"{kind}: {CONNECTIONS - left} of {CONNECTIONS} gone in {taken_s:.1f} s; a call took "
        f"{_in_ms(quiet)} before, {_in_ms(attacked)} meanwhile"
    )
    assert left == 0
    assert max(attacked) < SLOWEST_S
    assert gateway.stop() == 0


@pytest.mark.sqlite
def test_control_without_the_limit_they_stay(own_store: Store) -> None:
    gateway = Gateway(own_store, header_timeout_s=300)
    crowd = Crowd(gateway.port, 50, _dribbles("")["headers"])
    crowd.dribble_for(GONE_WITHIN_S)
    assert crowd.left == 50
    crowd.close()
    assert gateway.stop() == 0


def _in_ms(taken: list[float]) -> str:
    half, most = statistics.median(taken), sorted(taken)[int(0.99 * (len(taken) - 1))]
    return f"{1000 * half:.1f} ms (p99 {1000 * most:.1f})"

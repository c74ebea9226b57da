"""Two kinds of load: as much as a server takes, by wrk, and a fixed rate, by a client of our own.

wrk has no rate. Of the programs that have one, Debian 12 packages hey and httperf: hey paces each
connection, and httperf makes a connection for each session; both measure from when a request was
sent, so a request that had to wait for its turn counts as fast. Here a request is due at a
moment, and its time counts from that moment, as in wrk2, which no Debian release has.
"""

import gc
import os
import re
import select
import signal
import socket
import subprocess
import sys
from collections import deque
from pathlib import Path
from time import perf_counter, process_time
from typing import NamedTuple

NUMBER = b"@" * 12
# Requests have numbers, and none comes twice: more than are on their way when a load ends.
NUMBERS_APART = 2_500
_SCRIPT = Path(__file__).with_name("requests.lua")
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_PATIENCE_S = 10.0
# Longer than any load is wanted.
_WRK_S_MAX = 600
_INTERRUPT_S = 0.2


class Load(NamedTuple):
    """What came of one round of load."""

    calls: int
    seconds: float
    p50_ms: float
    p99_ms: float
    # Answers of 400 and above.
    refused: int
    # How much of the time the client had a core: without one it neither sends nor receives.
    client_share: float = 1.0

    @property
    def rate(self) -> float:
        return self.calls / self.seconds


def full(port: int, requests: Path, seconds: float, connections: int, first: int) -> Load:
    """As much as the server takes. `first` is the number of the request to begin with."""
    command = ["wrk", "-t1", f"-c{connections}", f"-d{_WRK_S_MAX}s", "--timeout", "60s"]
    with subprocess.Popen(
        [*command, "-s", str(_SCRIPT), f"http://127.0.0.1:{port}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={
            **os.environ,
            "TOLLWAY_BENCH_REQUESTS": str(requests),
            "TOLLWAY_BENCH_FIRST": str(first),
        },
    ) as wrk:
        wait_s = seconds
        while True:
            try:
                shown, _ = wrk.communicate(timeout=wait_s)
                break
            except subprocess.TimeoutExpired:
                # wrk counts in whole seconds; interrupted, it reports what it has, and how long it
                # was. Until it has begun it ignores this, so it is repeated.
                wrk.send_signal(signal.SIGINT)
                wait_s = _INTERRUPT_S
    line = next((each for each in shown.splitlines() if each.startswith("result ")), None)
    if line is None:
        sys.exit(f"wrk ended with {wrk.returncode} and no result:\n{shown}")
    calls, taken_us, p50_us, p99_us, refused, broken = map(int, line.split()[1:])
    # A server may close a connection between two calls, and wrk makes another.
    if broken > calls / 100:
        sys.exit(f"The load met errors:\n{shown}")
    return Load(calls, taken_us / 1e6, p50_us / 1000, p99_us / 1000, refused)


class _Connection:
    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setblocking(False)
        self.fileno = self._socket.fileno
        self.close = self._socket.close
        self._left = 0
        self._head = b""
        self.due_s = 0.0
        self.status = 0

    def send(self, request: bytes, due_s: float) -> None:
        self.due_s, self._left, self._head = due_s, -1, b""
        sent = self._socket.send(request)
        assert sent == len(request), "a request did not fit into the socket's buffer"

    def is_answered(self) -> bool:
        """Takes what has come; ConnectionError if the server has closed the connection."""
        piece = self._socket.recv(262_144)
        if not piece:
            raise ConnectionError("the server closed a connection")
        if self._left >= 0:
            self._left -= len(piece)
            return self._left == 0
        self._head += piece
        head, found, body = self._head.partition(b"\r\n\r\n")
        if not found:
            return False
        length = _LENGTH.search(head)
        assert length is not None, head
        self.status = int(head[9:12])
        self._left = int(length[1]) - len(body)
        return self._left == 0


def paced(
    port: int, requests: list[bytes], rate: float, seconds: float, connections: int, first: int
) -> Load:
    """So many calls a second, evenly spread. A call that finds no free connection waits for one.

    It never sleeps: a system's timers are too coarse for a call every tenth of a millisecond.
    """
    opened = [_Connection(port) for _ in range(connections)]
    by_number = {each.fileno(): each for each in opened}
    epoll = select.epoll()
    for number in by_number:
        epoll.register(number, select.EPOLLIN)
    free, taken_ms, refused, sent = deque(opened), [], 0, 0
    calls = max(1, int(rate * seconds))
    gc.disable()
    began_s, spent_s = perf_counter(), process_time()
    try:
        while len(taken_ms) < calls:
            due_s = began_s + sent / rate
            now_s = perf_counter()
            if sent < calls and free and now_s >= due_s:
                number = first + sent
                request = requests[number % len(requests)]
                free.popleft().send(request.replace(NUMBER, b"%012d" % number), due_s)
                sent += 1
            for ready, _ in epoll.poll(0):
                connection = by_number[ready]
                if connection.is_answered():
                    taken_ms.append((perf_counter() - connection.due_s) * 1000)
                    refused += connection.status >= 400
                    free.append(connection)
            if now_s - began_s > seconds + _PATIENCE_S:
                sys.exit(f"{calls - len(taken_ms)} of {calls} paced calls had no answer.")
    finally:
        gc.enable()
        epoll.close()
        for each in opened:
            each.close()
    lasted_s = perf_counter() - began_s
    # It never sleeps.
    share = (process_time() - spent_s) / lasted_s
    taken_ms.sort()
    return Load(calls, lasted_s, _at(taken_ms, 0.5), _at(taken_ms, 0.99), refused, share)


def _at(ordered: list[float], part: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]

"""How much slower is a paid call while many connections ask for something free of charge?

One caller calls one after the other: first alone, then while 128 connections ask for a page
as fast as they are answered. `/healthz` is the control: it does next to nothing, so its figure is
what sharing a core with any load costs. One worker, on a file. Needs the tools of the tests.
"""

import multiprocessing
import re
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from time import monotonic, perf_counter
from typing import Any
from urllib.parse import urlencode

from tests.support.gateway import ANALYSIS, Gateway
from tests.support.ledger import new_caller
from tests.support.stores import Store
from tollway.operations.product_analysis.demo import fill_figures, product_ids

PATHS = ("/healthz", "/owner", "/metrics", "/openapi.json")
CONNECTIONS = 128
ALONE_S = 3.0
CROWDED_S = 5.0
_LENGTH = re.compile(rb"content-length: (\d+)")


def crowd(port: int, path: str, has_begun: Any, answered: Any) -> None:
    """Asks on all connections, each again as soon as it is answered."""
    asked = f"GET {path} HTTP/1.1\r\nHost: gateway\r\n\r\n".encode()
    left: dict[socket.socket, int] = {}
    selector = DefaultSelector()
    for _ in range(CONNECTIONS):
        made = socket.create_connection(("127.0.0.1", port))
        made.sendall(asked)
        selector.register(made, EVENT_READ)
    has_begun.set()
    while True:
        for key, _ in selector.select():
            connection: Any = key.fileobj
            received = connection.recv(1 << 20)
            if connection not in left:
                head, _, received = received.partition(b"\r\n\r\n")
                length = _LENGTH.search(head)
                assert length is not None
                left[connection] = int(length[1])
            left[connection] -= len(received)
            if left[connection] == 0:
                del left[connection]
                answered.value += 1
                connection.sendall(asked)


@contextmanager
def crowded(port: int, path: str) -> Iterator[Any]:
    has_begun, answered = multiprocessing.Event(), multiprocessing.RawValue("q", 0)
    process = multiprocessing.Process(target=crowd, args=(port, path, has_begun, answered))
    process.start()
    has_begun.wait()
    try:
        yield answered
    finally:
        process.kill()
        process.join()


def call_for(gateway: Gateway, request: bytes, lasts_s: float) -> list[float]:
    """How long each call took, in milliseconds."""
    taken, ends_at_s = [], monotonic() + lasts_s
    with socket.create_connection(("127.0.0.1", gateway.port)) as connection:
        while monotonic() < ends_at_s:
            began_s = perf_counter()
            connection.sendall(request)
            assert b'"code":0' in connection.recv(1 << 20)
            taken.append((perf_counter() - began_s) * 1000)
    return sorted(taken)


def at(taken: list[float], part: float) -> float:
    return taken[int(len(taken) * part)]


def measure(gateway: Gateway, request: bytes, path: str) -> None:
    alone = call_for(gateway, request, ALONE_S)
    with crowded(gateway.port, path) as answered:
        beside = call_for(gateway, request, CROWDED_S)
        pages = answered.value / CROWDED_S
    figures = (at(alone, 0.5), at(beside, 0.5), at(alone, 0.99), at(beside, 0.99))
    ratios = (figures[1] / figures[0], figures[3] / figures[2])
    shown = "".join(f"{each:10.2f}" for each in figures)
    print(f"{path:16}{shown}{ratios[0]:10.1f}{ratios[1]:10.1f}{pages:12.0f}", flush=True)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / "tollway.db")
        today = date.today()  # noqa: DTZ011 - any day will do that has passed everywhere
        store.do(lambda database: fill_figures(database, products=1, days=3, last=today))
        caller = new_caller(store, calls=1_000_000, rate_limit=1_000_000)
        query = urlencode({"product_id": product_ids(1)[0], "query_date": today.isoformat()})
        request = (
            f"GET {ANALYSIS}?{query} HTTP/1.1\r\nHost: gateway\r\n"
            f"Authorization: Bearer {caller.token}\r\n\r\n"
        ).encode()
        gateway = Gateway(store)
        columns = ("p50 alone", "beside", "p99 alone", "beside", "× p50", "× p99", "answered/s")
        print(f"{'ms':16}" + "".join(f"{each:>10}" for each in columns[:-1]) + f"{columns[-1]:>12}")
        try:
            for path in sys.argv[1:] or PATHS:
                measure(gateway, request, path)
        finally:
            gateway.stop()


if __name__ == "__main__":
    main()

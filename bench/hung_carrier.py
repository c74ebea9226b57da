"""What do the other operations notice when a carrier hangs?

One gateway answers calls of the other four operations at a steady pace, and waybills of a remote
carrier at another. In some phases the carrier answers, in the others it hangs; phases alternate,
so that other load on the machine affects both. A call counts from the moment it was due, so
a gateway that stalls is late for all calls that were due meanwhile. Ends with 1 if
the p99 of the four together is above 1.1 times its value with a carrier that answers, or if a
waybill was answered late or otherwise than with 101.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from urllib.parse import urlencode

from bench.servers import free_port
from tollway.carriers.carrier_links import CarrierLink, connect
from tollway.carriers.carriers import add_carrier
from tollway.ledger.holds import open_holds
from tollway.operations.catalogue import OPERATIONS
from tollway.operations.waybills.operation import WAYBILLS
from tollway.store.database import Database
from tollway.store.open import open_database, open_sealer
from tollway.telemetry.metrics import Metrics

SAMPLE = Path(__file__).parents[1] / "docs/samples/waybills/request.json"
SECRET = "bench"
RATIO_MAX = 1.1
# What an answer may come later than its deadline on a machine that is busy with the load itself.
LATE_MAX_S = 0.5
Latencies = dict[str, list[float]]


@dataclass
class Found:
    """Latencies in seconds by operation, and how waybills were answered."""

    latencies: Latencies = field(default_factory=dict)
    waybill_codes: list[int] = field(default_factory=list)
    # Of the four, in the phase that was run last.
    newest: list[float] = field(default_factory=list)

    def of_the_four(self) -> list[float]:
        return [
            each for name, all_ in self.latencies.items() if name != "waybills" for each in all_
        ]


class Pacer:
    """Sends raw requests when they are due, over connections that are kept open."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def send(self, request: bytes, due_s: float) -> tuple[int, float]:
        """The code of the answer, and how long after it was due it came."""
        await asyncio.sleep(due_s - time.perf_counter())
        reader, writer = (
            self._idle.pop()
            if self._idle
            else await asyncio.open_connection("127.0.0.1", self._port)
        )
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        body = await reader.readexactly(length)
        took_s = time.perf_counter() - due_s
        self._idle.append((reader, writer))
        return json.loads(body)["code"], took_s

    def close(self) -> None:
        """Closes what is idle; the gateway would do so itself before long."""
        for _, writer in self._idle:
            writer.close()
        self._idle.clear()


class Requests:
    """The bytes of one request of each operation; a waybill's order is a new one every time."""

    def __init__(self, world: dict[str, str]) -> None:
        self._head = f"Host: bench\r\nAuthorization: Bearer {world['token']}\r\n"
        forms = {
            "coupon_claims": {
                "startTime": world["coupon_start_time"],
                "endTime": world["coupon_end_time"],
                "page": "1",
                "limit": "20",
                "sid": world["sid"],
                "type": "4",
            },
            "orders": {"owner_id": world["owner_id"]},
        }
        product = {name: world[name] for name in ("product_id", "query_date")}
        names = ("adzone_id", "site_id", "platform_user_id")
        material = {**{name: world[name] for name in names}, "promotion_id": 37104}
        self.four = {}
        for operation in OPERATIONS:
            if operation.name == "product_analysis":
                self.four[operation.name] = self._bytes(
                    f"GET {operation.path}?{urlencode(product)}"
                )
            elif operation.name == "promotion_material":
                self.four[operation.name] = self._json(operation.path, material)
            elif operation.name in forms:
                body = urlencode(forms[operation.name]).encode()
                kind = "application/x-www-form-urlencoded"
                self.four[operation.name] = self._bytes(f"POST {operation.path}", body, kind)
        self._waybill = json.loads(SAMPLE.read_text("utf-8"))
        self._orders = count(1)

    def waybill(self, wp_code: str) -> bytes:
        order = {"order_sn": f"BENCH{next(self._orders):08d}", "wp_code": wp_code}
        return self._json(WAYBILLS.path, {**self._waybill, **order})

    def _json(self, path: str, body: object) -> bytes:
        return self._bytes(f"POST {path}", json.dumps(body).encode(), "application/json")

    def _bytes(self, line: str, body: bytes = b"", kind: str = "") -> bytes:
        about = f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n" if body else ""
        return f"{line} HTTP/1.1\r\n{self._head}{about}\r\n".encode() + body


async def run_phase(
    pacer: Pacer, requests: Requests, wp_code: str, options: argparse.Namespace, found: Found
) -> None:
    """One stretch of load; waits for the last answer."""
    found.newest.clear()
    begun_s = time.perf_counter() + 0.05
    due: list[tuple[float, str]] = [
        (begun_s + number / options.rate, list(requests.four)[number % 4])
        for number in range(int(options.seconds * options.rate))
    ]
    due += [
        (begun_s + number / options.waybills, "waybills")
        for number in range(int(options.seconds * options.waybills))
    ]

    async def call(due_s: float, name: str) -> None:
        request = requests.waybill(wp_code) if name == "waybills" else requests.four[name]
        code, took_s = await pacer.send(request, due_s)
        found.latencies.setdefault(name, []).append(took_s)
        if name == "waybills":
            found.waybill_codes.append(code)
        elif code != 0:
            sys.exit(f"{name} was answered with {code}: the load is not what it should be.")
        else:
            found.newest.append(took_s)

    await asyncio.gather(*(call(*each) for each in sorted(due)))
    pacer.close()


def set_faults(address: str, *faults: dict[str, object]) -> None:
    for fault in ({"fault": "none"}, *faults):
        urllib.request.urlopen(f"{address}/control", json.dumps(fault).encode()).close()


async def measure(
    folder: Path, world: dict[str, str], port: int, carrier: str, options: argparse.Namespace
) -> tuple[Found, Found]:
    database = open_database(f"sqlite:///{folder}/tollway.db", Metrics())
    pacer, requests = Pacer(port), Requests(world)
    answering, hung = Found(), Found()
    wp_codes = [f"HUNG{number}" for number in range(options.rounds)]
    await connect_carriers(database, folder, carrier, ["WELL", *wp_codes], options)
    # Warms everything up.
    await run_phase(pacer, requests, "WELL", options, Found())
    for number, wp_code in enumerate(wp_codes):
        for phase in ("answering", "hung") if number % 2 else ("hung", "answering"):
            if phase == "answering":
                await run_phase(pacer, requests, "WELL", options, answering)
                continue
            # A carrier of its own each time: the breaker of one that hung stays open for a while.
            set_faults(carrier, {"fault": "stall_after_commit"})
            await run_phase(pacer, requests, wp_code, options, hung)
            set_faults(carrier)
            while await open_holds(database, 1):  # noqa: ASYNC110
                await asyncio.sleep(0.5)
        shown = [f"{quantile(each.newest, 0.99) * 1000:.1f}" for each in (answering, hung)]
        print(
            f"round {number + 1} of {options.rounds}: p99 of the four {shown[0]} ms while the "
            f"carrier answers, {shown[1]} ms while it hangs; load average {os.getloadavg()[0]:.1f}"
        )
    await database.close()
    return answering, hung


async def connect_carriers(
    database: Database,
    folder: Path,
    address: str,
    wp_codes: list[str],
    options: argparse.Namespace,
) -> None:
    sealer = open_sealer(f"sqlite:///{folder}/tollway.db", "")
    for wp_code in wp_codes:
        await add_carrier(database, wp_code, "Bench", r"YT\d{13}")
        link = CarrierLink(wp_code, address, "TOLLWAY", "CODE", options.deadline_ms, 60, 0)
        await connect(database, sealer, link, SECRET)


def quantile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def report(answering: Found, hung: Found, options: argparse.Namespace) -> bool:
    """Prints the figures, and returns whether they are as they should be."""
    print(f"{'ms':20}{'carrier answers':>24}{'carrier hangs':>24}")
    print(f"{'':20}{'p50':>12}{'p99':>12}{'p50':>12}{'p99':>12}{'p99 ratio':>12}")
    ratio = 0.0
    rows = [(name, answering.latencies[name], hung.latencies[name]) for name in hung.latencies]
    rows.append(("the four together", answering.of_the_four(), hung.of_the_four()))
    for name, before, during in sorted(rows, key=lambda row: row[0]):
        figures = [quantile(each, share) for each in (before, during) for share in (0.5, 0.99)]
        ratio = figures[3] / figures[1]
        shown = "".join(f"{figure * 1000:12.2f}" for figure in figures)
        print(f"{name:20}{shown}{'' if name == 'waybills' else f'{ratio:12.2f}'}")
        if name == "the four together":
            together = ratio
    latest_s = max(hung.latencies["waybills"])
    in_time = latest_s < options.deadline_ms / 1000 + LATE_MAX_S
    codes = set(hung.waybill_codes)
    print(f"{len(hung.waybill_codes)} waybills of a carrier that hangs: codes {codes}, ", end="")
    print(f"the last after {latest_s:.2f} s with a deadline of {options.deadline_ms / 1000:.2f} s")
    print(f"{len(hung.of_the_four()):,} calls of the four in each kind of phase")
    return together <= RATIO_MAX and codes == {101} and in_time


@contextmanager
def started(command: list[str], folder: Path, environment: dict[str, str]) -> Iterator[str]:
    """A program that prints where it listens on its first line; it is stopped with the block."""
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, *command],
            cwd=folder,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    assert process.stdout is not None
    try:
        first = process.stdout.readline()
        if "http://" not in first:
            sys.exit(
                f"It did not start; the end of its log:\n{(folder / 'log').read_text()[-2000:]}"
            )
        yield first.split()[-1]
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def prepare(folder: Path, environment: dict[str, str]) -> dict[str, str]:
    """A demo world whose account may call as fast as it likes."""

    def tollway(*arguments: str) -> str:
        command = [sys.executable, "-m", "tollway", *arguments]
        settings = {**os.environ, **environment}
        done = subprocess.run(
            command, cwd=folder, env=settings, check=True, capture_output=True, text=True
        )
        return done.stdout

    world: dict[str, str] = json.loads(tollway("demo", "--json"))
    for operation in OPERATIONS:
        tollway("permission", "add", "Demo merchant", operation.name, "--rate", "1000000")
    tollway("credit", "add", "Demo merchant", "10000000")
    tollway("credit", "add", "Demo merchant", "10000000", "--calls", "product_analysis")
    return world


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="phases of each kind")
    parser.add_argument("--seconds", type=float, default=6, help="length of a phase")
    parser.add_argument("--rate", type=int, default=200, help="calls of the four a second")
    parser.add_argument("--waybills", type=int, default=20, help="waybills a second")
    parser.add_argument("--deadline-ms", type=int, default=6000, help="the carrier's deadline")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tollway-bench-") as name, ExitStack() as stack:
        folder = Path(name)
        environment = {
            "TOLLWAY_DATABASE": f"sqlite:///{folder}/tollway.db",
            "TOLLWAY_RECONCILE_INTERVAL_S": "1",
        }
        world = prepare(folder, environment)
        (folder / "secret").write_text(SECRET)
        fake = ["-m", "tollway.demo.fakes.carrier", "--journal", "journal"]
        carrier = stack.enter_context(started([*fake, "--secret-file", "secret"], folder, {}))
        port = free_port()
        serve = ["-m", "tollway", "serve", "--port", str(port)]
        stack.enter_context(started(serve, folder, environment))
        answering, hung = asyncio.run(measure(folder, world, port, carrier, options))
    return 0 if report(answering, hung, options) else 1


if __name__ == "__main__":
    sys.exit(main())

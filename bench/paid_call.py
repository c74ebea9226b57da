"""How fast is a whole paid call, compared with a bare application that sends the same bytes?

Both run on one core, alternating in short rounds, with the load on the other core; absolute
rates move from hour to hour, the ratio of one run does not. `warm` asks for a few products again
and again; `cold` asks for another product and day each time, so that every answer is made from its
rows.
"""

import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

HERE = Path(__file__).parent
PATH = "/papi/tool/accounts/goods-analysis"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def tollway(*arguments: str, folder: Path) -> str:
    command = [sys.executable, "-m", "tollway", *arguments]
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout


def start(command: list[str], port: int, folder: Path, log: Path) -> subprocess.Popen[bytes]:
    """Starts a server on the first core and waits until it listens.

    Without address randomisation: where the code happens to lie in memory moves the rate of either
    server by a quarter from start to start, which would drown the ratio.
    """
    with log.open("wb") as sink:
        server = subprocess.Popen(
            ["taskset", "-c", "0", "setarch", "-R", sys.executable, *command],
            cwd=folder,
            stdout=sink,
            stderr=sink,
        )
    deadline_s = time.monotonic() + 30
    while time.monotonic() < deadline_s and server.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return server
        time.sleep(0.05)
    sys.exit(f"The server did not start; the end of its log:\n{log.read_text()[-2000:]}")


def load(url: str, token: str, script: Path, seconds: int, connections: int) -> float:
    """Requests a second, from wrk on the second core; anything but success ends the run."""
    command = ["taskset", "-c", "1", "wrk", "-t1", f"-c{connections}", f"-d{seconds}s"]
    command += ["-s", str(script), "-H", f"Authorization: Bearer {token}", url]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    if "Non-2xx" in output or "Socket errors" in output:
        sys.exit(f"The load met errors:\n{output}")
    lines = [line for line in output.splitlines() if line.startswith("Requests/sec:")]
    return float(lines[0].split()[1])


def prepare(folder: Path) -> dict[str, str]:
    """A demo world whose account may call as fast as it can, and pay for it."""
    world = json.loads(tollway("demo", "--json", folder=folder))
    tollway(
        "permission", "add", "Demo merchant", "product_analysis", "--rate", "1000000", folder=folder
    )
    calls = ("--calls", "product_analysis")
    tollway("credit", "add", "Demo merchant", "100000000", *calls, folder=folder)
    return world


def charged(folder: Path) -> int:
    shown = json.loads(tollway("account", "show", "Demo merchant", "--json", folder=folder))
    return sum(each["entries"] for each in shown["balances"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=3, help="length of one round")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each")
    parser.add_argument(
        "--connections",
        type=int,
        default=800,
        help="an account may call ten times a second, so such a load comes from a thousand clients",
    )
    options = parser.parse_args()
    if shutil.which("wrk") is None:
        sys.exit("The bench needs wrk: install Debian's package wrk.")
    if (os.cpu_count() or 1) < 2:
        sys.exit("The bench needs two cores: one for the server, one for the load.")
    with tempfile.TemporaryDirectory(prefix="tollway-bench-") as name:
        run(Path(name), options)


def run(folder: Path, options: argparse.Namespace) -> None:
    world = prepare(folder)
    gateway_port, bare_port = free_port(), free_port()
    servers = [
        start(
            ["-m", "tollway", "serve", "--port", str(gateway_port)],
            gateway_port,
            folder,
            folder / "t.log",
        )
    ]
    try:
        query = f"{PATH}?product_id={world['product_id']}&query_date={world['query_date']}"
        asked = urllib.request.Request(
            f"http://127.0.0.1:{gateway_port}{query}",
            headers={"Authorization": f"Bearer {world['token']}"},
        )
        body = urllib.request.urlopen(asked).read()
        (folder / "body").write_bytes(body)
        bare = [str(HERE / "bare.py"), str(bare_port), str(folder / "body")]
        servers.append(start(bare, bare_port, folder, folder / "b.log"))
        measure(folder, options, world, gateway_port, bare_port)
    finally:
        for server in servers:
            server.terminate()
            server.wait()


def measure(
    folder: Path, options: argparse.Namespace, world: dict[str, str], gateway: int, bare: int
) -> None:
    contestants = {
        "bare": (f"http://127.0.0.1:{bare}/", HERE / "warm.lua"),
        "warm": (f"http://127.0.0.1:{gateway}", HERE / "warm.lua"),
        "cold": (f"http://127.0.0.1:{gateway}", HERE / "cold.lua"),
    }
    os.environ["TOLLWAY_TEST_LAST_DAY"] = world["query_date"]
    before = charged(folder)
    rates: dict[str, list[float]] = {name: [] for name in contestants}
    for round_ in range(options.rounds + 1):
        for name, (url, script) in contestants.items():
            seconds = options.seconds if round_ else 1
            rate = load(url, world["token"], script, seconds, options.connections)
            # The first round only warms everything up.
            if round_:
                rates[name].append(rate)
    paid = charged(folder) - before
    print(f"{options.rounds} rounds of {options.seconds} s each, {options.connections} connections")
    print(f"{'':14}{'calls/s':>9}  {'of bare':>7}   lowest and highest round")
    base = statistics.median(rates["bare"])
    for name, title in (
        ("bare", "bare ASGI"),
        ("warm", "paid, warm"),
        ("cold", "paid, cold"),
    ):
        found = rates[name]
        middle = statistics.median(found)
        spread = f"{min(found):,.0f} – {max(found):,.0f}"
        print(f"{title:14}{middle:9,.0f}  {middle / base:7.2f}   {spread}")
    print(f"{paid:,} calls were charged, each durably before its answer")


if __name__ == "__main__":
    main()

"""`python -m bench.threads [SCENARIO ...]`: what each thread of a gateway spends on a call.

A gateway on SQLite and the bare server take turns on the first core, with the load on the second.
The processor time is what the kernel counts for each thread. Shown is the round that took least:
whatever else a machine does adds to it.
"""

import argparse
import os
import tempfile
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from bench.contestants import Gateway, answer_of
from bench.load import full
from bench.peers.answers import read_answers
from bench.peers.bare import bare_request, start_bare
from bench.results import MAIN
from bench.scenarios import SCENARIOS
from bench.servers import LOAD_CORE, stop, tree
from bench.world import Size

_SIZE = Size(20_000, 365, 24, 230, 1000, 300_000)
_ROUND_S = 2
# Requests are numbered, and those of a round begin here after those of the last.
_ROUND_REQUESTS = 1_000_000
# The server's own thread for HTTP, the only one that has a name of its own in the kernel. It is
# started after the gateway's threads, and before the one that describes requests.
_HTTP = "tokio-rt-worker"
_LOOP, _WRITES, _DESCRIBES, _SWITCHES = "loop", "writes", "describes", "switches"


def spent(main: int) -> Counter[str]:
    """Processor time in ns by kind of thread, and context switches, of all processes."""
    found: Counter[str] = Counter()
    for pid in tree(main):
        is_after_http = False
        for thread in sorted(int(each.name) for each in Path(f"/proc/{pid}/task").iterdir()):
            folder = Path(f"/proc/{pid}/task/{thread}")
            is_http = (folder / "comm").read_text().strip() == _HTTP
            is_after_http |= is_http
            others = _DESCRIBES if is_after_http else _WRITES
            kind = _LOOP if thread == pid else _HTTP if is_http else others
            found[kind] += int((folder / "schedstat").read_text().split()[0])
            status = (folder / "status").read_text().splitlines()
            found[_SWITCHES] += sum(int(line.split()[1]) for line in status if "_ctxt_" in line)
    return found


def per_call(port: int, pid: int, file: Path, first: int) -> dict[str, float]:
    before = spent(pid)
    calls = max(1, full(port, file, _ROUND_S, MAIN, first).calls)
    found = {kind: (after - before[kind]) / calls for kind, after in spent(pid).items()}
    switches = found.pop(_SWITCHES)
    in_us = {kind: ns / 1000 for kind, ns in found.items()}
    return {"all": sum(in_us.values()), **in_us, _SWITCHES: switches}


def run(folder: Path, names: list[str], rounds: int) -> None:
    gateway = Gateway(folder / "sqlite", f"sqlite:///{folder / 'tollway.db'}", _SIZE)
    with ExitStack() as servers_run:
        servers_run.callback(gateway.stop)
        amounts = read_answers(gateway.port, gateway.world).amounts
        chosen = [each for each in SCENARIOS if each.name in names or not names]
        answers = {f"/{each.name}": answer_of(gateway, each, amounts) for each in chosen}
        bare_port, bare = start_bare(folder, answers)
        servers_run.callback(stop, bare)
        servers = {"bare": (bare_port, bare.pid), "gateway": (gateway.port, gateway.pids[0])}
        file, begun = folder / "requests", 0
        for scenario in chosen:
            found: dict[str, list[dict[str, float]]] = {name: [] for name in servers}
            # The first round warms up.
            for _ in range(rounds + 1):
                for name, (port, pid) in servers.items():
                    asked = scenario.requests(gateway.world, amounts)
                    if name == "bare":
                        asked = [bare_request(each, f"/{scenario.name}") for each in asked]
                    file.write_bytes(b"\0".join(asked))
                    begun += _ROUND_REQUESTS
                    found[name].append(per_call(port, pid, file, begun))
            for name, measured in found.items():
                least = min(measured[1:], key=lambda each: each["all"])
                parts = "  ".join(f"{kind} {value:.1f}" for kind, value in least.items())
                print(f"{scenario.name:15} {name:8} {parts}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scenarios", nargs="*", help=", ".join(each.name for each in SCENARIOS))
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    os.sched_setaffinity(0, {LOAD_CORE})
    with tempfile.TemporaryDirectory(prefix="tollway-bench-") as name:
        run(Path(name), options.scenarios, options.rounds)


if __name__ == "__main__":
    main()

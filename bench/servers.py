"""Starting what is measured on the first core, and what it spends: processor time and memory."""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

SERVER_CORES, LOAD_CORE = "0", 1
_TICKS_A_S = os.sysconf("SC_CLK_TCK")
START_S = 60


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start(
    command: list[str],
    port: int,
    folder: Path,
    log: Path,
    environment: Mapping[str, str] | None = None,
    cores: str = "",
) -> subprocess.Popen[bytes]:
    """Starts a server, by default on the first core, and waits until it listens.

    Without address randomisation: where the code happens to lie in memory moves the rate of a
    server by a quarter from start to start, which would drown the ratio of two of them.
    """
    own = {name: value for name, value in os.environ.items() if not name.startswith("TOLLWAY_")}
    with log.open("wb") as sink:
        server = subprocess.Popen(
            ["taskset", "-c", cores or SERVER_CORES, "setarch", "-R", *command],
            cwd=folder,
            stdout=sink,
            stderr=sink,
            env={**own, **(environment or {})},
        )
    deadline_s = time.monotonic() + START_S
    while time.monotonic() < deadline_s and server.poll() is None:
        if is_listening(port):
            return server
        time.sleep(0.05)
    server.kill()
    sys.exit(f"{command[0]} did not start; the end of its log:\n{log.read_text()[-2000:]}")


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def stop(server: subprocess.Popen[bytes]) -> None:
    if server.poll() is None:
        server.terminate()
        try:
            server.wait(timeout=30)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def tree(main: int) -> Iterator[int]:
    """A process and all that it has started."""
    yield main
    try:
        children = Path(f"/proc/{main}/task/{main}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return
    for child in children:
        yield from tree(int(child))


def move_to(main: int, cores: set[int]) -> None:
    """Binds a process that runs already, and what it will start."""
    for pid in tree(main):
        # A worker of PostgreSQL may have ended meanwhile.
        with suppress(ProcessLookupError):
            os.sched_setaffinity(pid, cores)


def cpu_s(*mains: int) -> float:
    """Processor time of process trees; of children that have ended, too."""
    spent_s = 0.0
    for main in mains:
        for pid in tree(main):
            try:
                stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                # Finer than the ticks of the file, of which half a second has only fifty.
                spent_s += time.clock_gettime(_cpu_clock(pid))
            except OSError:
                continue
            spent_s += sum(map(int, stat[13:15])) / _TICKS_A_S
    return spent_s


def _cpu_clock(pid: int) -> int:
    """The system's clock of a process's processor time, as clock_getcpuclockid(3) makes it."""
    return (~pid << 3) | 2


class Steal:
    """The share of the processors' time that the host of a virtual machine gave to others."""

    def __init__(self) -> None:
        self._began = self._ticks()

    @property
    def share(self) -> float:
        stolen, passed = (
            now - before for now, before in zip(self._ticks(), self._began, strict=True)
        )
        return stolen / max(1, passed)

    @staticmethod
    def _ticks() -> tuple[int, int]:
        """Stolen, and all; what guests take is in the users' time already."""
        ticks = list(map(int, Path("/proc/stat").read_text().splitlines()[0].split()[1:9]))
        return ticks[7], sum(ticks)


def memory_mib(*mains: int) -> float:
    """What process trees take; pages that several have in common count once in all."""
    kib = 0
    for main in mains:
        for pid in tree(main):
            try:
                rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
            kib += int(rollup.partition("\nPss:")[2].split()[0])
    return kib / 1024


def missing(programs: Mapping[str, str]) -> list[str]:
    """What is not installed, each with how to install it; `programs` are Debian's packages."""
    return [
        f"{program} (apt install {package})"
        for program, package in programs.items()
        if shutil.which(program) is None
    ]

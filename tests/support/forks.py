"""Programs of this project as processes of their own, without the time it takes to load them.

They run in forks of a loaded process (`fork_server.py`). All test processes of a run share one.
"""

import atexit
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, Any, TypeVar

T = TypeVar("T")
ROOT = Path(__file__).parents[2]
_TIMEOUT_S = 180
# Where the test processes of a run find the socket of the one that they share.
_SHARED = "SHARED_FORK_SERVER"
# For scripts, which find programs by their names. Signals go on to where they are meant for. What
# `json`, `signal` and `socket` load beside these takes as long as the rest of the interpreter.
_PROGRAM = """#!{python} -S
import _json, _signal, _socket, os, sys
text = _json.encode_basestring_ascii
environment = ",".join(text(name) + ":" + text(value) for name, value in os.environ.items())
request = '{{"module":%s,"arguments":[%s],"folder":%s,"environment":{{%s}}}}\\n' % (
    text({module!r}), ",".join(map(text, sys.argv[1:])), text(os.getcwd()), environment
)
files = b"".join(each.to_bytes(4, sys.byteorder) for each in (0, 1, 2))
server = _socket.socket(_socket.AF_UNIX)
server.connect({path!r})
server.sendmsg([request.encode()], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, files)])
heard = b""
def answer():
    global heard
    while b"\\n" not in heard and (more := server.recv(64)):
        heard += more
    line, _, heard = heard.partition(b"\\n")
    return line
pid = int(answer())
for number in (_signal.SIGINT, _signal.SIGTERM):
    _signal.signal(number, lambda number, _: os.kill(pid, number))
status = int(answer() or 70)
sys.exit(status if status >= 0 else 128 - status)
"""


class ForkServer:
    """The loaded process, started for the first one who needs it."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="tollway-forks-"))
        self.path = self._folder / "socket"
        # Only the end of its input ends it: it ends when this process does, even if killed.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.fork_server", str(self.path)],
            cwd=ROOT,
            # Standard error as programs have it, if ours was set to be unbuffered.
            env={**os.environ, "PYTHONUTF8": "1", "PYTHONUNBUFFERED": ""},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
        )
        atexit.register(self.stop)

    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(_TIMEOUT_S)
        shutil.rmtree(self._folder)


def share() -> None:
    """Starts one for the test processes that this one will start."""
    os.environ[_SHARED] = f"{ForkServer().path} of {_code()}"


def _code() -> str:
    """Where the programs come from: those of another copy must not be taken for them."""
    return f"{ROOT} {os.environ.get('PYTHONPATH')}"


def _once(make: Callable[[], T]) -> Callable[[], T]:
    """Made for the first one who asks; other threads that ask meanwhile wait for it."""
    lock, made = threading.Lock(), cache(make)

    def get() -> T:
        with lock:
            return made()

    return get


@_once
def _socket() -> str:
    """Of the loaded process, once it is loaded."""
    shared, _, code = os.environ.get(_SHARED, "").partition(" of ")
    own = None if code == _code() else ForkServer()
    path = Path(shared) if own is None else own.path
    deadline_s = time.monotonic() + _TIMEOUT_S
    while not path.exists():
        # The folder of one that is shared goes with it.
        is_gone = not path.parent.exists() if own is None else own.has_ended()
        assert not is_gone, "the programs cannot be loaded"
        assert time.monotonic() < deadline_s, "the programs were not loaded in time"
        time.sleep(0.02)
    return str(path)


@_once
def programs() -> Path:
    """A folder with a file to run for each module, which does what `python -m MODULE` does."""
    folder = Path(tempfile.mkdtemp(prefix="tollway-programs-"))
    atexit.register(shutil.rmtree, folder)
    for module in ("tollway", "tollway.demo.fakes.carrier", "tollway.demo.fakes.link"):
        file = folder / module
        text = _PROGRAM.format(python=sys.executable, path=_socket(), module=module)
        file.write_text(text, encoding="utf-8")
        file.chmod(0o755)
    return folder


class Fork:
    """`python -m MODULE ARGUMENTS`; used like a `subprocess.Popen` whose output is read from here.

    Its errors go where ours go, unless a file is named for them.
    """

    def __init__(
        self,
        module: str,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stdout: IO[Any] | None = None,
        stderr: IO[Any] | None = None,
    ) -> None:
        self.returncode: int | None = None
        self.stdout: IO[str] | None = None
        self._heard = b""
        request = {
            "module": module,
            "arguments": arguments,
            "folder": str(cwd or Path.cwd()),
            "environment": dict(os.environ if env is None else env),
        }
        reading, writing = (None, os.dup(stdout.fileno())) if stdout else os.pipe()
        if reading is not None:
            self.stdout = open(reading, encoding="utf-8")  # noqa: PTH123, SIM115
        self._server = socket.socket(socket.AF_UNIX)
        self._server.connect(_socket())
        with Path(os.devnull).open("rb") as nothing:
            files = [nothing.fileno(), writing, 2 if stderr is None else stderr.fileno()]
            socket.send_fds(self._server, [json.dumps(request).encode() + b"\n"], files)
        os.close(writing)
        self.pid = self._answer(_TIMEOUT_S)

    def poll(self) -> int | None:
        """Its status, if it has ended."""
        with suppress(BlockingIOError):
            return self._status(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        try:
            return self._status(timeout)
        except TimeoutError:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0) from None

    def send_signal(self, number: signal.Signals) -> None:
        # It may end at this very moment.
        with suppress(ProcessLookupError):
            if self.poll() is None:
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _status(self, timeout: float | None) -> int:
        if self.returncode is None:
            self.returncode = self._answer(timeout)
            self._server.close()
        return self.returncode

    def _answer(self, timeout: float | None) -> int:
        self._server.settimeout(timeout)
        while b"\n" not in self._heard:
            said = self._server.recv(64)
            assert said, "the fork server has ended"
            self._heard += said
        line, _, self._heard = self._heard.partition(b"\n")
        return int(line)


def run(
    module: str,
    *arguments: str,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout: float = _TIMEOUT_S,
) -> subprocess.CompletedProcess[str]:
    """Runs a program to its end; returns its status and what it printed."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        fork = Fork(module, *arguments, env=env, cwd=cwd, stdout=out, stderr=err)
        try:
            status = fork.wait(timeout)
        except subprocess.TimeoutExpired:
            fork.kill()
            raise
        printed = [_content(file) for file in (out, err)]
    return subprocess.CompletedProcess([module, *arguments], status, *printed)


def _content(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8")

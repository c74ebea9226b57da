"""Python programs of this project, kept loaded: each runs in a fork of this process.

A program of its own takes a second and more to load, and the tests have hundreds of them. What runs
is the same code with the same arguments, folder, environment, files and signals as after
`python -m MODULE`; only passwords cost less. Nothing but loaded modules is inherited: this process
has no event loop, no thread and no open database, and the descriptors of a fork are those it was
sent.

A request is JSON and three descriptors on a socket. The answers on it are the process id and, once
the fork has ended, its status. When the standard input of this process ends, so does everything
that it has started: no process is left to stop it.
"""

import atexit
import ctypes
import json
import os
import runpy
import selectors
import signal
import socket
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from tests.support.memory_ahead import take_memory

if __name__ == "__main__":
    take_memory()

from tests.support.passwords import SLOW, use_slow_passwords
from tests.support.warm_up import warm_up

REQUEST_MAX = 1_000_000
_PR_SET_CHILD_SUBREAPER = 36
_PID = os.getpid()


class Forks:
    """Starts programs, and reports how they ended."""

    def __init__(self, path: str) -> None:
        # A worker whose main process was killed is then waited for here as well.
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
        self._waiting: dict[int, socket.socket] = {}
        self._selector = selectors.DefaultSelector()
        self._listener = socket.socket(socket.AF_UNIX)
        # Under its name only once it listens: a process that finds it may connect.
        self._listener.bind(f"{path}.new")
        self._listener.listen()
        Path(f"{path}.new").rename(path)
        self._woken, self._wakes = socket.socketpair()
        self._wakes.setblocking(False)
        signal.set_wakeup_fd(self._wakes.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        # Ctrl+C is for the program that started this; this process ends with its input.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for each in (self._listener, self._woken, sys.stdin):
            self._selector.register(each, selectors.EVENT_READ)

    def serve(self) -> dict[str, Any] | None:
        """Returns a request in the fork that it is for, and nothing at the end of all."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is sys.stdin:
                    return self._end_all()
                if key.fileobj is self._woken:
                    self._woken.recv(4096)
                    self._reap()
                elif (request := self._fork()) is not None:
                    return request

    def _fork(self) -> dict[str, Any] | None:
        connection, _ = self._listener.accept()
        request, files, _, _ = socket.recv_fds(connection, REQUEST_MAX, 3)
        while not request.endswith(b"\n"):
            if not (more := connection.recv(REQUEST_MAX)):
                connection.close()  # The client has ended.
                return None
            request += more
        if (pid := os.fork()) == 0:
            connection.close()
            self._leave()
            _become(files)
            return dict(json.loads(request))
        for file in files:
            os.close(file)
        self._waiting[pid] = connection
        with suppress(OSError):
            connection.sendall(b"%d\n" % pid)
        return None

    def _leave(self) -> None:
        """Closes all that belongs to this process; a fork has no part in it."""
        signal.set_wakeup_fd(-1)
        self._selector.close()
        for each in (self._listener, self._woken, self._wakes, *self._waiting.values()):
            each.close()

    def _reap(self) -> None:
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                self._report(*ended)

    def _report(self, pid: int, status: int) -> None:
        if (connection := self._waiting.pop(pid, None)) is not None:
            # The process that started it may have ended.
            with suppress(OSError):
                connection.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
            connection.close()

    @staticmethod
    def _end_all() -> None:
        """Kills all there are; what those leave behind comes to this process, and is next."""
        signal.set_wakeup_fd(-1)
        with suppress(ChildProcessError):
            while True:
                for pid in Path(f"/proc/{_PID}/task/{_PID}/children").read_text().split():
                    os.kill(int(pid), signal.SIGKILL)
                os.wait()


def _become(files: list[int]) -> None:
    """Has the signals and files of a process that was just started."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)


def _run(module: str, arguments: list[str], folder: str, environment: dict[str, str]) -> None:
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    if SLOW in environment:
        use_slow_passwords()
    # Read again from the environment.
    tempfile.tempdir = None
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _status_of(request: dict[str, Any]) -> int:
    """Runs the requested program; returns the exit status that the interpreter would give it."""
    try:
        _run(**request)
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return ended.code or 0
        sys.stderr.write(f"{ended.code}\n")
        return 1
    except BaseException:
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
        return 1
    return 0


def _end(status: int) -> NoReturn:
    """Ends as the interpreter does, but leaves what is loaded to the kernel: it is most of the time
    of a short command."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    socket_path = Path(sys.argv[1])
    warm_up(str(socket_path.parent))
    requested = Forks(str(socket_path)).serve()
    if requested is not None:
        _end(_status_of(requested))

"""The command `tollway`, kept loaded: each command runs in a fork of this process.

A command of its own takes a second, most of it for loading; the pages have dozens of them. What
runs is the same code with the same arguments, folder, environment and files.
"""

import gc
import io
import json
import os
import signal
import socket
import sys
from contextlib import redirect_stdout, suppress
from typing import NoReturn

from tollway.cli.main import main

CLIENT = """#!{python} -S
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({path!r})
    request = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(server, [request], [0, 1, 2])
    server.shutdown(socket.SHUT_WR)
    sys.exit(int(server.recv(8) or b"70"))
"""
_REQUEST_MAX = 1_000_000


def _warm_up(path: str) -> None:
    """Runs a few commands, so that what they load on first use is there for every fork."""
    for command in ("migrate", "account list", "settings"):
        arguments = [*command.split(), "--database", f"sqlite:///{path}.db"]
        with redirect_stdout(io.StringIO()), suppress(SystemExit):
            main(arguments)
    gc.freeze()


def serve(path: str) -> NoReturn:
    _warm_up(path)
    # Nobody waits for the forks: the answer on the socket tells how each ended.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        while True:
            connection, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                _answer(connection)
            connection.close()


def _answer(connection: socket.socket) -> NoReturn:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    request, files, _, _ = socket.recv_fds(connection, _REQUEST_MAX, 3)
    while more := connection.recv(_REQUEST_MAX):
        request += more
    for number, file in enumerate(files):
        os.dup2(file, number)
    arguments, folder, environment = json.loads(request)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    status = 70
    try:
        main(arguments)
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 0
    finally:
        sys.stdout.flush()
        connection.sendall(b"%d" % status)
        os._exit(status)


if __name__ == "__main__":
    serve(sys.argv[1])

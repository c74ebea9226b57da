"""Ports for the servers of tests."""

import os
import random
import socket

# Of the processes of one run each has its own.
_PROCESS = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
# Below those that the system gives to connecting clients: else a client might come to have the port
# in the moment between its choice and the start of its server.
_PORTS = range(10_240 + _PROCESS, 32_768, 16)
_handed_out: set[int] = set()


def free_port() -> int:
    """A free port that was not given away before."""
    # By chance, for another run may choose at the same time.
    chance = random.SystemRandom()
    while True:
        port = chance.choice(_PORTS)
        if port not in _handed_out and _is_free(port):
            _handed_out.add(port)
            return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True

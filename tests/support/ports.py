"""Ports for the servers of tests."""

import random
import socket

# Below those that the system gives to whoever connects: else a client might come to have the port
# in the moment between its choice and the start of its server.
_PORTS = range(10_240, 32_768)
_handed_out: set[int] = set()


def free_port() -> int:
    """One that nobody has, and that was not given away before."""
    # By chance, for other test processes choose at the same time.
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

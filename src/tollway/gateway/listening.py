"""Where the gateway listens: at a free address, or on the socket that systemd opened for it.

Such a socket stays open while the gateway restarts: new connections wait until the next one accepts
them, where they would be refused otherwise.
"""

import errno
import os
import socket
from contextlib import suppress
from typing import NamedTuple

from tollway.settings import SettingsError

# The first descriptor that systemd passes (sd_listen_fds).
_FIRST = 3
_NOT_FREE = {
    errno.EADDRINUSE: "another program listens there, which may be another gateway",
    errno.EACCES: "this user may not; below 1024 only root may",
    errno.EADDRNOTAVAIL: "{host} is no address of this machine",
    socket.EAI_NONAME: "{host} is no known name or address",
}


class PassedSocket(NamedTuple):
    """A listening socket that was there before the gateway, and is there after it."""

    descriptor: int
    host: str
    port: int


def passed_socket() -> PassedSocket | None:
    """The socket that systemd passed to this process; None if it passed none."""
    count = os.environ.get("LISTEN_FDS") or "0"
    if os.environ.get("LISTEN_PID") != str(os.getpid()) or count == "0":
        return None
    if count != "1":
        raise SettingsError(
            "systemd passed several sockets, and a gateway listens on one: leave one ListenStream= "
            "in its .socket unit."
        )
    with _first_descriptor() as passed:
        if not _is_listening(passed):
            raise SettingsError(
                "The socket that systemd passed is not one for TCP: set ListenStream= in its "
                ".socket unit to an address with a port, such as 127.0.0.1:8080."
            )
        # As the server sets it on sockets of its own, and accepted connections inherit it.
        passed.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        host, port = passed.getsockname()[:2]
    # Programs that a worker starts must not keep the socket open.
    os.set_inheritable(_FIRST, False)
    return PassedSocket(_FIRST, host, port)


def _first_descriptor() -> socket.socket:
    try:
        return socket.socket(fileno=os.dup(_FIRST))
    except OSError as error:
        raise SettingsError(
            f"LISTEN_FDS says that systemd passed a socket, but descriptor {_FIRST} is none "
            f"({error.strerror}): unset LISTEN_FDS, or let a .socket unit start the gateway."
        ) from None


def _is_listening(passed: socket.socket) -> bool:
    return (
        passed.family in (socket.AF_INET, socket.AF_INET6)
        and passed.type == socket.SOCK_STREAM
        and bool(passed.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
    )


def refuse_another_address(passed: PassedSocket, host: str | None, port: int | None) -> None:
    """Refuses a socket that is elsewhere than at this host and port, as far as they are set."""
    found: list[object] = []
    with suppress(OSError):
        found = [address[0] for *_, address in socket.getaddrinfo(host or passed.host, None)]
    if passed.host in found and port in (None, passed.port):
        return
    raise SettingsError(
        f"systemd passed a socket at {passed.host} port {passed.port}, and the settings say "
        f"{host or passed.host} port {port or passed.port}. Change ListenStream= in the .socket "
        "unit, or the settings host and port."
    )


def free_address(host: str, port: int) -> str:
    """The host's address, if its port is free.

    The server itself would not notice another gateway there: it shares its port on purpose, so that
    workers can be replaced, and each of the two gateways would get a part of the calls.
    """
    # As bytes: for text, Python would load the tables of names with other letters.
    name = host.encode()
    try:
        family, kind, _, _, address = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        reason = _NOT_FREE.get(error.errno or 0, "{error}").format(
            host=host, port=port, error=error.strerror
        )
        raise SettingsError(
            f"Cannot listen on {host} port {port}: {reason}. Choose another with --host or --port, "
            "or before `make run` with TOLLWAY_PORT."
        ) from None
    return str(address[0])

"""The connections of one worker: how many there can be, which clients may keep one, and for how
long.

The HTTP server limits how long headers may take, and how many connections there are. It limits
neither how long a client takes to read its answers, nor how many connections one address has. This
module does, from outside the server: it finds the connections among the process's descriptors.
"""

import asyncio
import os
import resource
import select
import socket
import struct
from collections import defaultdict
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from time import monotonic
from typing import NamedTuple

from tollway.contract.addresses import counted_address
from tollway.settings import Settings

# A client that reads more slowly than this counts as not reading.
_READ_MIN_BYTES_S = 4096
# While more clients than this do not read, each gets less time. One that reads slowly may go on.
_UNREAD_MAX = 100
_UNREAD_TIMEOUT_S = 2.0
# About how much the kernel buffers of one connection's answers; without a limit, megabytes.
_SEND_BUFFER_BYTES = 65_536
# A connection that was answered in the last second is in use.
_QUIET_MS = 1000
# How many connections are checked before other tasks can run.
_PIECE = 100

_TCP_INFO_BYTES = 136
_LAST_DATA_SENT_MS = struct.Struct("@44xI")
_BYTES_ACKNOWLEDGED = struct.Struct("@120xQ")

# For SO_LINGER: on, for no time.
_DROP = struct.pack("@ii", 1, 0)

# Of the files that a worker may open, kept for databases, logs and connections to carriers; half of
# all files if the limit is low.
_OTHER_FILES_MAX = 1024

Peer = tuple[str, int]


def within_open_files(settings: Settings) -> tuple[Settings, list[str]]:
    """The settings with as many connections as leave files for the rest, and a sentence if that is
    fewer. If no file can be opened, a worker cannot even end connections."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    connections = most - min(_OTHER_FILES_MAX, most // 2)
    if most == resource.RLIM_INFINITY or connections >= settings.connections_max:
        return settings, []
    sentence = (
        f"A process may open {most} files here (ulimit -Hn), so each worker has {connections} "
        f"connections at once, and not {settings.connections_max} as connections_max says."
    )
    return replace(settings, connections_max=connections), [sentence]


def allow_open_files(connections_max: int) -> None:
    """Raises the usual limit of 1,024 open files, which a few clients could use up."""
    least, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if least == resource.RLIM_INFINITY:
        return
    wanted = connections_max + _OTHER_FILES_MAX
    if most != resource.RLIM_INFINITY:
        wanted = min(wanted, most)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(least, wanted), most))


class _Unread(NamedTuple):
    """A connection whose client reads more slowly than it is answered."""

    peer: Peer
    since_s: float
    acknowledged: int


class Connections:
    """Ends connections that keep others out.

    `in_hand` are the clients whose calls are in progress: they are never ended for being silent.
    """

    def __init__(
        self, port: int, most: int, read_timeout_s: float, in_hand: Collection[Peer]
    ) -> None:
        self._port = port
        self._most = most
        self._read_timeout_s = read_timeout_s
        self._in_hand = in_hand
        self._unread: dict[int, _Unread] = {}

    def count(self) -> int:
        """How many clients are connected now."""
        descriptors, _ = _look()
        return sum(self._is_clients(each) for each in descriptors)

    def _is_clients(self, descriptor: int) -> bool:
        with suppress(OSError), _opened(descriptor) as connection:
            return _local_port(connection) == self._port and not connection.getsockopt(
                socket.SOL_SOCKET, socket.SO_ACCEPTCONN
            )
        return False

    async def sweep(self) -> None:
        descriptors, blocked = await asyncio.to_thread(_look)
        timeout_s = self._read_timeout_s
        if len(blocked) > _UNREAD_MAX:
            timeout_s = min(timeout_s, _UNREAD_TIMEOUT_S)
        await self._end_unread(blocked, timeout_s)
        if len(descriptors) > self._most / 2:
            await self._share(descriptors)

    async def _end_unread(self, blocked: list[int], timeout_s: float) -> None:
        """Ends the connections whose client has not read for `timeout_s`, though there is something
        to read."""
        known, self._unread = self._unread, {}
        for number, descriptor in enumerate(blocked):
            if number % _PIECE == _PIECE - 1:
                await asyncio.sleep(0)
            with suppress(OSError), _opened(descriptor) as connection:
                if _local_port(connection) != self._port:
                    continue
                if connection.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                    # The listening socket: accepted connections inherit its buffer size.
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
                    continue
                peer, now_s = _peer(connection), monotonic()
                seen = known.get(descriptor)
                acknowledged = _measured(connection, _BYTES_ACKNOWLEDGED)
                if seen is None or seen.peer != peer:
                    seen = _Unread(peer, now_s, acknowledged)
                elif now_s - seen.since_s >= timeout_s:
                    if acknowledged - seen.acknowledged < _READ_MIN_BYTES_S * timeout_s:
                        _end(descriptor, peer)
                        continue
                    seen = _Unread(peer, now_s, acknowledged)
                self._unread[descriptor] = seen

    async def _share(self, descriptors: list[int]) -> None:
        """Ends connections of each address that has more than are free: first those that were
        answered longest ago, and recently answered ones only if few are free."""
        by_address: dict[str, list[tuple[int, int, Peer]]] = defaultdict(list)
        total = 0
        for number, descriptor in enumerate(descriptors):
            if number % _PIECE == _PIECE - 1:
                await asyncio.sleep(0)
            with suppress(OSError), _opened(descriptor) as connection:
                if _local_port(connection) == self._port:
                    peer, total = _peer(connection), total + 1
                    quiet_ms = _measured(connection, _LAST_DATA_SENT_MS)
                    by_address[counted_address(peer[0])].append((quiet_ms, descriptor, peer))
        free = max(0, self._most - total)
        quiet_least_ms = _QUIET_MS if free >= self._most / 8 else 0
        # The address with the most first: what it frees may be enough for the others.
        for held in sorted(by_address.values(), key=len, reverse=True):
            # Half of the difference, because each connection that is ended is then free.
            excess = max(0, (len(held) - free + 1) // 2)
            held.sort(reverse=True)
            for quiet_ms, descriptor, peer in held[:excess]:
                if quiet_ms >= quiet_least_ms and peer not in self._in_hand:
                    _end(descriptor, peer)
                    free += 1


def _look() -> tuple[list[int], list[int]]:
    """All descriptors of this process, and those that are not writable at this moment."""
    with os.scandir("/proc/self/fd") as found:
        descriptors = [int(each.name) for each in found]
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLOUT)
    writable = {descriptor for descriptor, _ in poll.poll(0)}
    return descriptors, [each for each in descriptors if each not in writable]


@contextmanager
def _opened(descriptor: int) -> Iterator[socket.socket]:
    """A descriptor as a socket, which the server still owns. Raises OSError if it is none."""
    opened = socket.socket(socket.AF_INET, socket.SOCK_STREAM, fileno=descriptor)
    try:
        yield opened
    finally:
        opened.detach()


def _local_port(connection: socket.socket) -> int | None:
    """None for other than internet sockets."""
    name = connection.getsockname()
    is_internet = isinstance(name, tuple) and isinstance(name[0], str)
    return name[1] if is_internet else None


def _peer(connection: socket.socket) -> Peer:
    host, port, *_ = connection.getpeername()
    return host, port


def _measured(connection: socket.socket, figure: struct.Struct) -> int:
    """One figure of struct tcp_info (linux/tcp.h)."""
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
    value: int = figure.unpack_from(info)[0]
    return value


def _end(descriptor: int, peer: Peer) -> None:
    """Ends a connection: the server then closes it, and unread data is dropped.

    Works on a copy of the descriptor, because the server may have closed the original, and its
    number may belong to another connection by now.
    """
    with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as copy:
        if _peer(copy) == peer:
            copy.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _DROP)
            copy.shutdown(socket.SHUT_RDWR)

"""Turns that many keys share: each of them is a lock of the server, which has few for everybody."""

from zlib import crc32

# As many as a server that is set up as usual has room for in every transaction.
TURNS = 64


def turn_of(key: str) -> int:
    return crc32(key.encode()) % TURNS

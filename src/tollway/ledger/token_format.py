"""What a token looks like: tw_live_ or tw_test_, 32 random characters, 6 of checksum.

The checksum lets a mistyped token be refused without asking the database, and lets secret scanners
recognise a leaked one. A token has 190 random bits, so a plain SHA-256 of it is safe to store.
"""

import hashlib
import zlib
from collections.abc import Callable

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_CHARACTERS = frozenset(_ALPHABET)
_PREFIXES = {"live": "tw_live_", "test": "tw_test_"}
_RANDOM_LENGTH = 32
_CHECKSUM_LENGTH = 6
TOKEN_LENGTH = 8 + _RANDOM_LENGTH + _CHECKSUM_LENGTH


def mint(kind: str, pick: Callable[[str], str]) -> str:
    """A new token; `pick` chooses one character of an alphabet at random."""
    body = _PREFIXES[kind] + "".join(pick(_ALPHABET) for _ in range(_RANDOM_LENGTH))
    return body + _checksum(body)


def is_well_formed(token: str) -> bool:
    body = token[:-_CHECKSUM_LENGTH]
    return (
        len(token) == TOKEN_LENGTH
        and token.startswith(tuple(_PREFIXES.values()))
        and _CHARACTERS.issuperset(token[8:])
        and _checksum(body) == token[-_CHECKSUM_LENGTH:]
    )


def token_hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _checksum(body: str) -> str:
    value = zlib.crc32(body.encode())
    digits = ""
    for _ in range(_CHECKSUM_LENGTH):
        value, digit = divmod(value, len(_ALPHABET))
        digits = _ALPHABET[digit] + digits
    return digits

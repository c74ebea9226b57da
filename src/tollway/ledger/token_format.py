"""What tokens look like.

A token is tw_live_ or tw_test_, 32 random characters, and 6 of checksum. The checksum lets the
gateway refuse a mistyped token without a query, and lets secret scanners recognise a leaked one. A
token has 190 random bits, so a plain SHA-256 of it is safe to store. The secret of a client looks
the same but for its prefix, tw_secret_: neither can be mistaken for the other.
"""

import hashlib
import zlib
from collections.abc import Callable, Sequence

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_CHARACTERS = frozenset(_ALPHABET)
TOKENS = ("live", "test")
SECRET = "secret"  # noqa: S105 - the name of a kind
PREFIXES = {"live": "tw_live_", "test": "tw_test_", SECRET: "tw_secret_"}
_RANDOM_LENGTH = 32
_CHECKSUM_LENGTH = 6


def mint(kind: str, pick: Callable[[str], str]) -> str:
    """A new token or secret; `pick` chooses one character of an alphabet at random."""
    body = PREFIXES[kind] + "".join(pick(_ALPHABET) for _ in range(_RANDOM_LENGTH))
    return body + _checksum(body)


def is_well_formed(text: str, kinds: Sequence[str] = TOKENS) -> bool:
    """Whether a text has the form of a token or secret of one of these kinds."""
    prefix = next((PREFIXES[kind] for kind in kinds if text.startswith(PREFIXES[kind])), None)
    return (
        prefix is not None
        and len(text) == len(prefix) + _RANDOM_LENGTH + _CHECKSUM_LENGTH
        and _CHARACTERS.issuperset(text[len(prefix) :])
        and _checksum(text[:-_CHECKSUM_LENGTH]) == text[-_CHECKSUM_LENGTH:]
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

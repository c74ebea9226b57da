"""What a token looks like: tw_live_ or tw_test_, 32 random characters, 6 of checksum.

The checksum lets a mistyped token be refused without asking the database, and lets secret scanners
recognise a leaked one. A token has 190 random bits, so a plain SHA-256 of it is safe to store.

The secret of a client looks the same but for its prefix, tw_secret_: neither passes for the other.
"""

import hashlib
import zlib
from collections.abc import Callable, Sequence

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_CHARACTERS = frozenset(_ALPHABET)
TOKENS = ("live", "test")
SECRET = "secret"  # noqa: S105 - the name of a kind
_PREFIXES = {"live": "tw_live_", "test": "tw_test_", SECRET: "tw_secret_"}
_RANDOM_LENGTH = 32
_CHECKSUM_LENGTH = 6
TOKEN_LENGTH = 8 + _RANDOM_LENGTH + _CHECKSUM_LENGTH


def mint(kind: str, pick: Callable[[str], str]) -> str:
    """A new token or secret; `pick` chooses one character of an alphabet at random."""
    body = _PREFIXES[kind] + "".join(pick(_ALPHABET) for _ in range(_RANDOM_LENGTH))
    return body + _checksum(body)


def is_well_formed(text: str, kinds: Sequence[str] = TOKENS) -> bool:
    """Whether a text can be a token, or whatever else is of one of these kinds."""
    prefix = next((_PREFIXES[kind] for kind in kinds if text.startswith(_PREFIXES[kind])), None)
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

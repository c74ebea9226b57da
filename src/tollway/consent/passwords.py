"""Passwords: only an argon2 hash is kept.

Hashing takes tens of milliseconds and 64 MiB on purpose. Nothing here may run on the event loop.
"""

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from tollway.ledger.errors import LedgerError

PASSWORD_MIN = 10
PASSWORD_MAX = 200

_hasher = PasswordHasher()
# The hash of a password that nobody has. An unknown login is checked against it, so that it takes
# as long to refuse as a known one.
_NOBODYS = (
    "$argon2id$v=19$m=65536,t=3,p=4$CJOZV8G9duOZjPZsjKIgQg$"
    "Tg1Qvh9vpG1vNm+nYD/5vW925pQ6XipFk4uaYSMh2gA"
)


def hash_password(password: str) -> str:
    if not PASSWORD_MIN <= len(password) <= PASSWORD_MAX:
        raise LedgerError(f"A password has {PASSWORD_MIN} to {PASSWORD_MAX} characters.")
    return _hasher.hash(password)


def is_password(password_hash: str | None, password: str) -> bool:
    """Whether this is the password; always False, after the same work, where there is no hash."""
    try:
        return _hasher.verify(password_hash or _NOBODYS, password)
    except (VerificationError, InvalidHashError):
        return False

"""Passwords: only an Argon2id hash of each is stored.

Hashing takes tens of milliseconds and 64 MiB on purpose: `hash_password` and `is_password` must not
run on the event loop.
"""

import os
import threading

import msgspec

from tollway.ledger import LedgerError

LOGIN_MIN = 3
# Of a login, and of the name of a person or owner.
NAME_MAX = 100
PASSWORD_MIN = 10
PASSWORD_MAX = 200

_SALT_BYTES = 16
# The second recommended option of RFC 9106. A stored hash names its own parameters, so that these
# can be changed at any time.
_ITERATIONS, _PARALLELISM, _MEMORY_KIB = 3, 4, 65_536
# Two computations at once in one process deadlock (cryptography 50, OpenSSL's threads for the lanes
# of Argon2).
_one_at_a_time = threading.Lock()
# The hash of a password that no person has. Unknown logins are checked against it, so that refusing
# one takes as long as refusing a known login.
_NO_ONES_HASH = (
    "$argon2id$v=19$m=65536,t=3,p=4$CJOZV8G9duOZjPZsjKIgQg$"
    "Tg1Qvh9vpG1vNm+nYD/5vW925pQ6XipFk4uaYSMh2gA"
)


class StoredPassword(msgspec.Struct, frozen=True):
    """The person that a password belongs to, by kind and id, and its hash."""

    kind: str
    subject_id: str
    password_hash: str


def hash_password(password: str) -> str:
    if not PASSWORD_MIN <= len(password) <= PASSWORD_MAX:
        raise LedgerError(
            "A password has {least} to {most} characters.", least=PASSWORD_MIN, most=PASSWORD_MAX
        )
    # Imported here: who lists people hashes nothing.
    from cryptography.hazmat.primitives.kdf.argon2 import Argon2id  # noqa: PLC0415

    hasher = Argon2id(
        salt=os.urandom(_SALT_BYTES),
        length=32,
        iterations=_ITERATIONS,
        lanes=_PARALLELISM,
        memory_cost=_MEMORY_KIB,
    )
    with _one_at_a_time:
        return hasher.derive_phc_encoded(password.encode())


def is_password(password_hash: str | None, password: str) -> bool:
    """Whether this is the password; without a hash always False, after the same work."""
    # Imported here, as above.
    from cryptography.exceptions import InvalidKey  # noqa: PLC0415
    from cryptography.hazmat.primitives.kdf.argon2 import Argon2id  # noqa: PLC0415

    try:
        with _one_at_a_time:
            Argon2id.verify_phc_encoded(password.encode(), password_hash or _NO_ONES_HASH)
    except InvalidKey:
        return False
    return True


def folded_login(login: str) -> str:
    """A login as it is stored: people do not remember which letters were capitals."""
    return login.strip().casefold()

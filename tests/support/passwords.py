"""Passwords that cost little to hash and to check.

Each takes a quarter of a second of a processor, on purpose, and the tests have thousands. The same
code hashes them with the smallest parameters of Argon2id; what it does with the real ones is tested
in `tests/identity/`.
"""

import time

from tollway.identity import passwords

# In the environment of a program, it makes every check of a password take long.
SLOW = "SLOW_PASSWORDS"
_CHECK_S = 0.1
_NAMES = ("_ITERATIONS", "_PARALLELISM", "_MEMORY_KIB", "_NO_ONES_HASH")
_REAL = {name: getattr(passwords, name) for name in _NAMES}


def use_cheap_passwords() -> None:
    """From now on in this process, and in its forks."""
    passwords._ITERATIONS, passwords._PARALLELISM, passwords._MEMORY_KIB = 1, 1, 8
    passwords._NO_ONES_HASH = passwords.hash_password("a password of no person")


def use_real_passwords() -> None:
    for name, value in _REAL.items():
        setattr(passwords, name, value)


def use_slow_passwords() -> None:
    """Each check takes its time from now on, but no processor."""
    passwords._one_at_a_time = _SlowLock()  # type: ignore[assignment]


class _SlowLock:
    def __enter__(self) -> None:
        time.sleep(_CHECK_S)

    def __exit__(self, *error: object) -> None:
        pass

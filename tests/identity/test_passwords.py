"""Passwords of owners: hashed with Argon2id, and a stored hash stays good when its parameters or
the library that made it change."""

import subprocess
import sys
from collections.abc import Iterator
from functools import cache

import pytest

from tests.support.passwords import use_cheap_passwords, use_real_passwords
from tollway.identity import passwords
from tollway.identity.passwords import hash_password, is_password
from tollway.ledger import LedgerError

pytestmark = pytest.mark.sqlite
PASSWORD = "secret-password-1"
# Made by argon2-cffi 25.1, which hashed passwords here before.
STORED = (
    "$argon2id$v=19$m=65536,t=3,p=4$XtAFsHEfjEZ7sxXXIzZQ/A$"
    "0m7bXOMQl1WfeENPAyseogjyIcVHo9I8GYoFkCA7Su8"
)


@pytest.fixture(autouse=True)
def real_passwords() -> Iterator[None]:
    """As a gateway hashes and checks them; they are cheap in other tests."""
    use_real_passwords()
    yield
    use_cheap_passwords()


@cache
def _hashed() -> str:
    """As a gateway makes it, once for all: it takes a quarter of a second."""
    return hash_password(PASSWORD)


def test_a_hash_that_was_stored_before_is_still_good() -> None:
    assert is_password(STORED, PASSWORD)
    assert not is_password(STORED, f"{PASSWORD}1")


def test_a_new_hash_has_the_parameters_and_a_salt_of_its_own() -> None:
    first, second = _hashed(), hash_password(PASSWORD)
    assert first != second
    assert first.startswith("$argon2id$v=19$m=65536,t=3,p=4$")
    assert is_password(first, PASSWORD) and is_password(second, PASSWORD)
    assert not is_password(first, PASSWORD.upper())


def test_an_unknown_login_is_checked_at_the_cost_of_a_known_one() -> None:
    parameters = _hashed().rpartition("$")[0].rpartition("$")[0]
    assert passwords._NO_ONES_HASH.startswith(f"{parameters}$")


def test_passwords_may_have_any_characters() -> None:
    # Whatever the parameters are.
    use_cheap_passwords()
    password = "密码密码密码密码密码é"
    assert is_password(hash_password(password), password)


@pytest.mark.parametrize(
    "stored", [None, "", "nonsense", "$argon2i$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$AA"]
)
def test_no_password_fits_what_is_no_hash(stored: str | None) -> None:
    assert not is_password(stored, PASSWORD)


@pytest.mark.parametrize("length", [9, 201])
def test_a_password_has_its_length(length: int) -> None:
    with pytest.raises(LedgerError, match="10 to 200 characters"):
        hash_password("x" * length)


def test_passwords_are_checked_by_several_threads() -> None:
    # In a process of its own: threads that block each other cannot be ended otherwise.
    program = f"""
import threading
from tollway.identity.passwords import is_password
threads = [threading.Thread(target=is_password, args=({STORED!r}, "wrong")) for _ in range(3)]
for each in threads: each.start()
for each in threads: each.join()
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)

"""Checking passwords: off the event loop, few at a time, and few per login.

A login that does not exist is refused after the same work, with the same words and under the same
limit as one that does, so that trying tells nothing. The attempts are counted in this process.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from time import monotonic

from tollway.consent.owners import (
    PASSWORD_MAX,
    Credential,
    credential_of_login,
    folded_login,
    is_password,
)
from tollway.store.database import Reader

ATTEMPTS_MAX = 5
ATTEMPTS_WINDOW_S = 15 * 60
_LOGINS_MAX = 10_000
_LOGIN_LENGTH_MAX = 100
# Each check takes 64 MiB and a core for a moment.
_CHECKS_AT_ONCE = 2
_CHECKS_WAITING_MAX = 20


class TooManyAttemptsError(Exception):
    """A login was tried too often lately."""


class TooManyAtOnceError(Exception):
    """So many wait for their check that one more is turned away, whoever it is."""


class Doorkeeper:
    """Lets owners in."""

    def __init__(self, reader: Reader, clock_s: Callable[[], float] = monotonic) -> None:
        self._reader = reader
        self._clock_s = clock_s
        self._attempts: OrderedDict[str, deque[float]] = OrderedDict()
        self._checks = asyncio.Semaphore(_CHECKS_AT_ONCE)
        self._waiting = 0

    async def admit(self, login: str, password: str) -> Credential | None:
        """The owner who signs in so; None when the login or the password is wrong."""
        if len(login) > _LOGIN_LENGTH_MAX or len(password) > PASSWORD_MAX:
            return None
        login = folded_login(login)
        if self._waiting >= _CHECKS_WAITING_MAX:
            raise TooManyAtOnceError
        # Counted before the check: attempts that are made at the same time count too.
        self._count(login)
        # So do those who wait: nothing is awaited between looking at their number and raising it.
        self._waiting += 1
        try:
            async with self._checks:
                found = await self._checked(login, password)
        finally:
            self._waiting -= 1
        if found is not None:
            self._attempts.pop(login, None)
        return found

    async def _checked(self, login: str, password: str) -> Credential | None:
        found = await credential_of_login(self._reader, login)
        password_hash = None if found is None else found.password_hash
        is_right = await asyncio.to_thread(is_password, password_hash, password)
        return found if is_right else None

    def _count(self, login: str) -> None:
        now_s = self._clock_s()
        attempts = self._attempts.setdefault(login, deque())
        while attempts and now_s - attempts[0] >= ATTEMPTS_WINDOW_S:
            attempts.popleft()
        if len(attempts) >= ATTEMPTS_MAX:
            raise TooManyAttemptsError
        attempts.append(now_s)
        self._attempts.move_to_end(login)
        if len(self._attempts) > _LOGINS_MAX:
            self._attempts.popitem(last=False)

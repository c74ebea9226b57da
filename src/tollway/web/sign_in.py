"""Sessions and sign-in: a signed cookie, the hidden token of forms, and the check of passwords.

Every visitor has a session, signed in or not, because the hidden token of a form is made from its
secret number: another site can make a browser send a form, but cannot know the token. Signing in
starts a new session. Nothing is stored: a session ends by its time, or with the password. Attempts
per login, and password checks at the same time, are limited.
"""

import asyncio
import hashlib
import hmac
import secrets
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from tollway.consent.links import TokenSigner
from tollway.consent.owners import (
    PASSWORD_MAX,
    Credential,
    Owner,
    credential_of,
    credential_of_login,
    folded_login,
    is_password,
)
from tollway.store.database import Reader
from tollway.web.wording import PLAIN_VIEW, View, sentence

WRONG = sentence("This login and password do not belong together. Check both and try again.")
TOO_MANY = sentence("Too many attempts. Wait a quarter of an hour, then try again.")
AT_ONCE = sentence("Too many people sign in at this moment. Wait a minute, then try again.")
COOKIE = "tollway_owner"
_LIFETIME_S = 30 * 60


class Session(msgspec.Struct, frozen=True, array_like=True):
    """What the cookie holds; no owner means not signed in."""

    number: str
    expires_at_s: int
    owner_kind: str = ""
    owner_id: str = ""
    fingerprint: str = ""


@dataclass(frozen=True)
class Visit:
    """A request's session, and the owner if one is signed in."""

    session: Session
    owner: Owner | None
    is_new: bool = False
    view: View = PLAIN_VIEW


class Sessions:
    """Starts sessions and recognises them."""

    def __init__(self, secret: bytes, *, is_secure: bool) -> None:
        self._signer = TokenSigner(secret, "owner session")
        self._form_signer = TokenSigner(secret, "form token")
        self._is_secure = is_secure

    def start(self, now_s: float, credential: Credential | None = None) -> Visit:
        number, expires_at_s = secrets.token_hex(16), int(now_s) + _LIFETIME_S
        if credential is None:
            return Visit(Session(number, expires_at_s), None, is_new=True)
        owner = credential.owner
        session = Session(number, expires_at_s, owner.kind, owner.id, _fingerprint(credential))
        return Visit(session, owner, is_new=True)

    async def visit(self, request: Request, reader: Reader, now_s: float) -> Visit:
        """The visit that a request belongs to, or a new one."""
        session = self._signer.read(request.cookies.get(COOKIE, ""), Session)
        if session is None or session.expires_at_s <= now_s:
            return self.start(now_s)
        if not session.owner_id:
            return Visit(session, None)
        credential = await credential_of(reader, session.owner_kind, session.owner_id)
        if credential is None or _fingerprint(credential) != session.fingerprint:
            return self.start(now_s)
        return Visit(session, credential.owner)

    def remember(self, response: Response, visit: Visit) -> None:
        response.set_cookie(
            COOKIE,
            self._signer.sign(visit.session),
            max_age=_LIFETIME_S,
            path="/",
            httponly=True,
            samesite="lax",
            secure=self._is_secure,
        )

    def form_token(self, visit: Visit) -> str:
        return self._form_signer.mac(visit.session.number.encode()).hex()

    def is_form_token(self, visit: Visit, token: str) -> bool:
        return hmac.compare_digest(self.form_token(visit).encode(), token.encode())


def _fingerprint(credential: Credential) -> str:
    """Changes with the password, so that a new one ends the sessions of the old."""
    return hashlib.sha256(credential.password_hash.encode()).hexdigest()[:16]


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
    """Too many password checks are waiting."""


class Doorkeeper:
    """Checks logins and passwords."""

    def __init__(self, reader: Reader, clock_s: Callable[[], float] = monotonic) -> None:
        self._reader = reader
        self._clock_s = clock_s
        self._attempts: OrderedDict[str, deque[float]] = OrderedDict()
        self._checks = asyncio.Semaphore(_CHECKS_AT_ONCE)
        self._waiting = 0

    async def admit(self, login: str, password: str) -> Credential | None:
        """The owner of this login and password; None if either is wrong."""
        if len(login) > _LOGIN_LENGTH_MAX or len(password) > PASSWORD_MAX:
            return None
        login = folded_login(login)
        if self._waiting >= _CHECKS_WAITING_MAX:
            raise TooManyAtOnceError
        # Counted before the check: attempts that are made at the same time count too.
        self._count(login)
        # No await between reading the number of waiting checks and raising it.
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

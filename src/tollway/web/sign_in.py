"""Signing in on pages: the session cookie, the CSRF token of forms, and the password check.

The pages of one kind of person are an area with its own cookie, so that an operator can also be
signed in as an owner. Every visitor has a cookie, signed in or not, because the hidden token of a
form is derived from it: another site can make a browser send a form, but cannot know the token.
Only cookies of people who are signed in are in the database. Signing in starts a new cookie.
"""

import asyncio
import hmac
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from tollway.consent.links import TokenSigner
from tollway.contract.addresses import UNKNOWN, Network, client_address, counted_address
from tollway.identity.passwords import (
    PASSWORD_MAX,
    PASSWORD_MIN,
    StoredPassword,
    folded_login,
    hash_password,
    is_password,
)
from tollway.identity.second_factor import find_factor
from tollway.identity.sessions import LIFETIME_S, PREFIX, end_session, find_session, start_session
from tollway.identity.sign_in_limits import (
    Attempt,
    TooManyAttemptsError,
    count_attempt,
    forget_attempts,
)
from tollway.store.clock import common_s
from tollway.store.concurrency import BoundedSlots
from tollway.store.database import Database, Reader
from tollway.web.cookies import cookie_of
from tollway.web.wording import PLAIN_VIEW, Say, View, sentence

P = TypeVar("P")

WRONG = sentence("This login and password do not belong together. Check both and try again.")
TOO_MANY = sentence("Too many attempts. Wait a quarter of an hour, then try again.")
_AT_ONCE = sentence("Too many people sign in at this moment. Wait a minute, then try again.")

# The prefix of visitors who are not signed in: they need no database lookup.
_VISITOR = "v."
_COOKIE_MAX = 100
# Pages that refresh themselves send it: a refresh does not extend a session.
_REFRESHED = "x-live"
_DEVICE_S = 400 * 86_400


def password_length(say: Say) -> str:
    """How long a new password must be."""
    return say("It must have {least} to {most} characters.", least=PASSWORD_MIN, most=PASSWORD_MAX)


@dataclass(frozen=True)
class Area(Generic[P]):
    """The pages of one kind of person: how to find a person by session and by login."""

    name: str
    person: Callable[[Reader, str, str], Awaitable[P | None]]
    password: Callable[[Reader, str], Awaitable[StoredPassword | None]]


@dataclass(frozen=True)
class Visit(Generic[P]):
    """A request's cookie, and the person if one is signed in."""

    cookie: str
    person: P | None = None
    is_new: bool = False
    view: View = PLAIN_VIEW


class _Device(msgspec.Struct, frozen=True, array_like=True):
    """A browser that has signed in with a login; `factor_at_s` is when the second factor was
    confirmed of which it has sent a code, `password` marks the password that it has sent."""

    area: str
    login: str
    number: str
    factor_at_s: int = 0
    password: str = ""


class Sessions(Generic[P]):
    """Starts, recognises and ends the sessions of one area."""

    def __init__(
        self,
        database: Database,
        area: Area[P],
        secret: bytes,
        *,
        is_secure: bool,
        proxies: tuple[Network, ...] = (),
    ) -> None:
        self.area = area
        self._database = database
        self._form_signer = TokenSigner(secret, "form token")
        self._device_signer = TokenSigner(secret, "known browser")
        self._password_signer = TokenSigner(secret, "password of a known browser")
        self._is_secure = is_secure
        self._proxies = proxies
        # Browsers accept a cookie with this prefix from this exact host only, over TLS.
        self._cookie = f"{'__Host-' if is_secure else ''}tollway_{area.name}"
        self._device_cookie = f"{self._cookie}_device"

    def visitor(self) -> Visit[P]:
        """A visit of a person who is not signed in."""
        return Visit(_VISITOR + secrets.token_urlsafe(32), is_new=True)

    def unread_visit(self, request: Request) -> Visit[P]:
        """The visit of a browser whose session cannot be read right now: it keeps its cookie, and
        so stays signed in."""
        cookie = cookie_of(request, self._cookie)
        return Visit(cookie) if cookie else self.visitor()

    async def visit(self, request: Request, now_s: float) -> Visit[P]:
        """The visit that a request belongs to, or a new one."""
        cookie = cookie_of(request, self._cookie)
        if cookie.startswith(_VISITOR) and len(cookie) <= _COOKIE_MAX:
            return Visit(cookie)
        if cookie.startswith(PREFIX):
            is_used = _REFRESHED not in request.headers
            found = await find_session(self._database, cookie, now_s, is_used=is_used)
            if found is not None:
                person = await self.area.person(self._database, found.kind, found.subject_id)
                if person is not None:
                    return Visit(cookie, person)
        return self.visitor()

    async def sign_in(
        self,
        response: Response,
        attempt: Attempt,
        who: StoredPassword,
        now_s: float,
        factor_at_s: int = 0,
    ) -> None:
        """Starts a session, and remembers that this browser has signed in with this login. Fails if
        the password or the second factor has changed since the person sent them."""

        async def is_unchanged(reader: Reader) -> bool:
            factor = await find_factor(reader, who.kind, who.subject_id)
            is_same = who.password_hash == await self._password_hash(reader, attempt.login)
            return is_same and factor_at_s == (factor.confirmed_at_s if factor else 0)

        started = await start_session(self._database, who.kind, who.subject_id, now_s, is_unchanged)
        self.remember(response, Visit(started))
        if not attempt.device:
            self._set_device(response, attempt.login, who.password_hash, factor_at_s)

    async def sign_out(self, visit: Visit[P], now_s: float) -> Visit[P]:
        await end_session(self._database, visit.cookie, now_s)
        return self.visitor()

    async def attempt(
        self, request: Request, login: str, factor_at_s: int | None = None
    ) -> Attempt:
        """What a sign-in attempt counts under. A browser is only known if it has sent the password
        that the person has now and, with `factor_at_s`, for codes of the second factor confirmed
        then, one of that factor's codes: someone with a stolen password may have collected known
        browsers before."""
        login = folded_login(login)
        read = self._device_signer.read(cookie_of(request, self._device_cookie), _Device)
        is_known = read is not None and (read.area, read.login) == (self.area.name, login)
        if read is not None and is_known:
            password_hash = await self._password_hash(self._database, login)
            is_known = read.password == self._password_mark(password_hash)
            if factor_at_s is not None:
                is_known = is_known and read.factor_at_s == factor_at_s
        return Attempt(
            self.area.name,
            login,
            self.counted_address(request),
            read.number if read is not None and is_known else "",
        )

    def counted_address(self, request: Request) -> str:
        """The address that an unknown visitor counts under."""
        # All header lines: some proxies append one to those that the client sent.
        forwarded_for = ",".join(request.headers.getlist("x-forwarded-for")).encode()
        peer = UNKNOWN if request.client is None else request.client.host
        return counted_address(client_address(peer, forwarded_for, self._proxies))

    def remember(self, response: Response, visit: Visit[P]) -> None:
        self.set_cookie(response, self._cookie, visit.cookie, LIFETIME_S)

    async def remember_device(self, response: Response, login: str, factor_at_s: int) -> None:
        password_hash = await self._password_hash(self._database, login)
        self._set_device(response, login, password_hash, factor_at_s)

    def _set_device(
        self, response: Response, login: str, password_hash: str, factor_at_s: int
    ) -> None:
        device = _Device(
            self.area.name,
            folded_login(login),
            secrets.token_hex(16),
            factor_at_s,
            self._password_mark(password_hash),
        )
        signed = self._device_signer.sign(device)
        self.set_cookie(response, self._device_cookie, signed, _DEVICE_S)

    async def _password_hash(self, reader: Reader, login: str) -> str:
        """Nothing for a person who has no password."""
        stored = await self.area.password(reader, login)
        return "" if stored is None else stored.password_hash

    def _password_mark(self, password_hash: str) -> str:
        """Tells one password from the next, and nothing about either."""
        return self._password_signer.mac(password_hash.encode()).hex()

    def set_cookie(self, response: Response, name: str, value: str, lifetime_s: int) -> None:
        response.set_cookie(
            name,
            value,
            max_age=lifetime_s,
            path="/",
            httponly=True,
            samesite="lax",
            secure=self._is_secure,
        )

    def form_token(self, visit: Visit[P]) -> str:
        return self._form_signer.mac(f"{self._cookie}={visit.cookie}".encode()).hex()

    async def is_own_form(
        self, request: Request, visit: Visit[P], token: str, now_s: float
    ) -> bool:
        """Whether a form came from our pages, and its sender is still who they were when it began
        to come: they can hold its end back until they are signed out, or have another role."""
        if not hmac.compare_digest(self.form_token(visit).encode(), token.encode()):
            return False
        return visit.person is None or (await self.visit(request, now_s)).person == visit.person


_LOGIN_LENGTH_MAX = 100
# A check takes 64 MiB and a core for a moment, and the library runs one at a time.
_CHECKS_AT_ONCE = 1
_CHECKS_WAITING_MAX = 20
# Per address, so that a crowd at one address leaves checks for the others.
_CHECKS_OF_ADDRESS_MAX = 4
# Per login, from known browsers: anyone with the password can create any number of those.
_CHECKS_OF_LOGIN_MAX = 2
# Hashing a new password costs as much as a check.
_HASHED_AT_ONCE = 1
_HASHED_WAIT_S = 3.0


class TooManyChecksError(Exception):
    """A password was not checked: too many checks are waiting, or too many have failed."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


class PasswordChecker:
    """Checks logins and passwords, a few at a time; one for all areas of a process."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._checks = asyncio.Semaphore(_CHECKS_AT_ONCE)
        # Waiting checks: by address, and for known browsers by login.
        self._others: Counter[str] = Counter()
        self._known: Counter[str] = Counter()
        self._hashing = BoundedSlots(_HASHED_AT_ONCE, "too many passwords at once")

    async def admit(
        self, area: Area[P], attempt: Attempt, password: str, now_s: float
    ) -> StoredPassword | None:
        """The person of this login and password; None if either is wrong. Raises
        TooManyChecksError."""
        if len(attempt.login) > _LOGIN_LENGTH_MAX or len(password) > PASSWORD_MAX:
            return None
        # Known browsers have their own share, because others can fill up the common one.
        waiting, name, most = self._others, attempt.address, _CHECKS_OF_ADDRESS_MAX
        if attempt.device:
            waiting, name, most = self._known, f"{area.name} {attempt.login}", _CHECKS_OF_LOGIN_MAX
        elif waiting.total() >= _CHECKS_WAITING_MAX:
            raise TooManyChecksError(_AT_ONCE)
        if waiting[name] >= most:
            raise TooManyChecksError(_AT_ONCE)
        # No await between the check of this count and its increment: that would be a race.
        waiting[name] += 1
        try:
            at_s = await common_s(self._database, now_s)
            await count_attempt(self._database, attempt, at_s)
            async with self._checks:
                found = await self._checked(area, attempt.login, password)
        except TooManyAttemptsError:
            raise TooManyChecksError(TOO_MANY) from None
        finally:
            waiting[name] -= 1
            if not waiting[name]:
                del waiting[name]
        if found is not None:
            await forget_attempts(self._database, attempt)
        return found

    async def hashed(self, password: str, by: str) -> str:
        """The hash of a new password, one at a time per person: with one link, a person can send
        any number of forms, and others need the threads too."""
        async with self._hashing.taken(_HASHED_WAIT_S, by=by):
            return await asyncio.to_thread(hash_password, password)

    async def _checked(self, area: Area[P], login: str, password: str) -> StoredPassword | None:
        found = await area.password(self._database, login)
        password_hash = None if found is None else found.password_hash
        is_right = await asyncio.to_thread(is_password, password_hash, password)
        return found if is_right else None

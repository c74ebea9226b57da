"""The session: a signed cookie that says who is signed in, for a short while.

Every visitor has one, signed in or not, because its secret number is what the hidden token of a
form is made from: another site can make a browser send a form, but cannot know the token. Signing
in starts a new one. Nothing is stored: a session ends by its time, or with the password.
"""

import hashlib
import hmac
import secrets
from dataclasses import dataclass

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from tollway.consent.links import Signer
from tollway.consent.owners import Credential, Owner, credential_of
from tollway.store.database import Reader

COOKIE = "tollway_owner"
_LIFETIME_S = 30 * 60


class Session(msgspec.Struct, frozen=True, array_like=True):
    """What the cookie holds; no owner means that nobody has signed in."""

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


class Sessions:
    """Starts sessions and recognises them."""

    def __init__(self, secret: bytes, *, is_secure: bool) -> None:
        self._signer = Signer(secret, "owner session")
        self._form_signer = Signer(secret, "form token")
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

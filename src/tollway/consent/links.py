"""The links that a refused caller hands to an owner: signed, and valid for a short time.

A link says who asks for what. It proves nothing about who opens it: only the owner's own sign-in
approves.
"""

from typing import NamedTuple
from urllib.parse import urlencode

import msgspec

from tollway.consent.grants import Wish
from tollway.consent.signing import Signer

AUTHORIZE_PATH = "/authorize"
_PURPOSE = "consent link"


class _Content(msgspec.Struct, frozen=True, array_like=True):
    account_id: str
    owner_kind: str
    owner_id: str
    scope: str
    is_sandbox: bool
    expires_at_s: int


class Link(NamedTuple):
    """A link just made."""

    url: str
    expires_at_s: int


class OpenedLink(NamedTuple):
    """What a link asks for. A link of the sandbox asks nobody real."""

    wish: Wish
    is_sandbox: bool
    is_expired: bool


class Links:
    """Makes and reads links."""

    def __init__(self, secret: bytes, address: str, lifetime_s: int) -> None:
        self._signer = Signer(secret, _PURPOSE)
        self._address = address
        self._lifetime_s = lifetime_s

    def make(self, wish: Wish, now_s: float, *, is_sandbox: bool) -> Link:
        expires_at_s = int(now_s) + self._lifetime_s
        content = _Content(
            wish.account_id, wish.owner_kind, wish.owner_id, wish.scope, is_sandbox, expires_at_s
        )
        signed = self._signer.sign(content)
        url = f"{self._address}{AUTHORIZE_PATH}?{urlencode({'link': signed})}"
        return Link(url, expires_at_s)

    def read(self, signed: str, now_s: float) -> OpenedLink | None:
        """What a link asks for; None when it was not made here."""
        content = self._signer.read(signed, _Content)
        if content is None:
            return None
        wish = Wish(content.account_id, content.owner_kind, content.owner_id, content.scope)
        return OpenedLink(wish, content.is_sandbox, content.expires_at_s <= now_s)

"""The links that ask an owner for consent, those with which an owner chooses a new password, and
the signing of texts that come back from outside.

A link that asks for consent is signed and not stored, so a caller that is refused a thousand times
leaves no row. Each purpose has its own signing key: what was signed for one is invalid for another.
"""

import base64
import hmac
from typing import NamedTuple, TypeVar
from urllib.parse import urlencode

import msgspec

from tollway.consent.grants import GrantRequest
from tollway.consent.owners import Credential, credential_of
from tollway.identity.sign_in_links import add_link, link_holds, void_links
from tollway.ledger.runtime import Runtime
from tollway.ledger.trail import record_act
from tollway.store.database import Database, Reader, Transaction

S = TypeVar("S", bound=msgspec.Struct)


class TokenSigner:
    """Signs for one purpose with the gateway's secret; a text signed for another is invalid."""

    def __init__(self, secret: bytes, purpose: str) -> None:
        self._key = hmac.digest(secret, purpose.encode(), "sha256")

    def sign(self, value: msgspec.Struct) -> str:
        content = msgspec.json.encode(value)
        return f"{_text(content)}.{_text(self.mac(content))}"

    def mac(self, content: bytes) -> bytes:
        return hmac.digest(self._key, content, "sha256")

    def read(self, signed: str, kind: type[S]) -> S | None:
        """What was signed; None if it was not signed here, or by a version with other fields."""
        content_text, _, mac_text = signed.partition(".")
        try:
            content, mac = _bytes(content_text), _bytes(mac_text)
        except ValueError:
            return None
        if not hmac.compare_digest(mac, self.mac(content)):
            return None
        try:
            return msgspec.json.decode(content, type=kind)
        except msgspec.ValidationError:
            return None


def _text(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode("ascii")


def _bytes(text: str) -> bytes:
    padded = text.encode("ascii") + b"=" * (-len(text) % 4)
    return base64.b64decode(padded, altchars=b"-_", validate=True)


AUTHORIZE_PATH = "/authorize"
_PURPOSE = "consent link"


class _Content(msgspec.Struct, frozen=True, array_like=True):
    account_id: str
    owner_kind: str
    owner_id: str
    scope: str
    is_sandbox: bool
    expires_at_s: int


class SignedLink(NamedTuple):
    """A link just made."""

    url: str
    expires_at_s: int


class OpenedConsentLink(NamedTuple):
    """What a link asks for. A link of the sandbox concerns no real owner."""

    grant_request: GrantRequest
    is_sandbox: bool
    is_expired: bool


class ConsentLinks:
    def __init__(self, secret: bytes, address: str, lifetime_s: int) -> None:
        self._signer = TokenSigner(secret, _PURPOSE)
        self._address = address
        self._lifetime_s = lifetime_s

    def make(self, grant_request: GrantRequest, now_s: float, *, is_sandbox: bool) -> SignedLink:
        expires_at_s = int(now_s) + self._lifetime_s
        content = _Content(
            **msgspec.structs.asdict(grant_request),
            is_sandbox=is_sandbox,
            expires_at_s=expires_at_s,
        )
        signed = self._signer.sign(content)
        url = f"{self._address}{AUTHORIZE_PATH}?{urlencode({'link': signed})}"
        return SignedLink(url, expires_at_s)

    def read(self, signed: str, now_s: float) -> OpenedConsentLink | None:
        """What a link asks for; None if it was not made here."""
        content = self._signer.read(signed, _Content)
        if content is None:
            return None
        grant_request = GrantRequest(
            content.account_id, content.owner_kind, content.owner_id, content.scope
        )
        return OpenedConsentLink(grant_request, content.is_sandbox, content.expires_at_s <= now_s)


PASSWORD_PATH = "/owner/password"  # noqa: S105 - a path
PASSWORD_LINK_HOURS = 24
_PASSWORD_PURPOSE = "password link"  # noqa: S105 - a purpose


class _PasswordContent(msgspec.Struct, frozen=True, array_like=True):
    owner_kind: str
    owner_id: str
    replaces: str
    expires_at_s: int


class PasswordLinks:
    """Makes and reads the links with which an owner chooses a new password.

    A link names the password that it replaces, by a digest of its hash: so it works once. Only the
    newest link is valid: a lost one may be in the wrong hands.
    """

    def __init__(self, secret: bytes, address: str) -> None:
        self._signer = TokenSigner(secret, _PASSWORD_PURPOSE)
        self._address = address

    async def make(self, database: Database, runtime: Runtime, of: Credential) -> SignedLink:
        """Makes a link, and ends the earlier ones of this owner."""
        now_s, owner = runtime.at_s(), of.owner
        expires_at_s = now_s + PASSWORD_LINK_HOURS * 3600
        content = _PasswordContent(owner.kind, owner.id, self._replaces(of), expires_at_s)
        signed, holder = self._signer.sign(content), f"{owner.kind} {owner.id}"

        async def work(transaction: Transaction) -> None:
            await void_links(transaction, holder)
            await add_link(transaction, holder, signed, now_s, expires_at_s)
            await record_act(transaction, runtime, "shop password link", holder)

        await database.write(work)
        query = urlencode({"link": signed})
        return SignedLink(f"{self._address}{PASSWORD_PATH}?{query}", expires_at_s)

    async def read(self, signed: str, reader: Reader, now_s: float) -> Credential | None:
        """The owner whose password a link replaces; None if it is used, expired or invalid."""
        content = self._signer.read(signed, _PasswordContent)
        if content is None or content.expires_at_s <= now_s:
            return None
        holder = f"{content.owner_kind} {content.owner_id}"
        if not await link_holds(reader, holder, signed, now_s):
            return None
        found = await credential_of(reader, content.owner_kind, content.owner_id)
        if found is None or self._replaces(found) != content.replaces:
            return None
        return found

    def _replaces(self, of: Credential) -> str:
        return self._signer.mac(of.password_hash.encode()).hex()[:32]

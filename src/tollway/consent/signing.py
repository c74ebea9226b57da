"""Texts signed with the gateway's own secret, which come back from outside."""

import base64
import binascii
import hmac
from typing import TypeVar

import msgspec

S = TypeVar("S", bound=msgspec.Struct)


class Signer:
    """Signs for one purpose: what was signed for another does not pass here."""

    def __init__(self, secret: bytes, purpose: str) -> None:
        self._key = hmac.digest(secret, purpose.encode(), "sha256")

    def sign(self, value: msgspec.Struct) -> str:
        content = msgspec.json.encode(value)
        return f"{_text(content)}.{_text(self.mac(content))}"

    def mac(self, content: bytes) -> bytes:
        return hmac.digest(self._key, content, "sha256")

    def read(self, signed: str, kind: type[S]) -> S | None:
        """What was signed; None when it was not signed here, or by a version that said more."""
        content_text, _, mac_text = signed.partition(".")
        try:
            content, mac = _bytes(content_text), _bytes(mac_text)
        except (binascii.Error, ValueError):
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

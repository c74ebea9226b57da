"""The gateway's own secret, and texts signed with it that come back from outside."""

import base64
import binascii
import hmac
import os
import secrets
from pathlib import Path
from typing import TypeVar

import msgspec

from tollway.store.database import StoreError

_SECRET_BYTES = 32
S = TypeVar("S", bound=msgspec.Struct)


def load_secret(path: Path) -> bytes:
    """The secret in a file that only its owner can read; made on first use."""
    try:
        if not path.exists():
            _make(path)
        content = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"The secret file {path} cannot be used: {error}.") from None
    try:
        secret = bytes.fromhex(content)
    except ValueError:
        secret = b""
    if len(secret) < _SECRET_BYTES:
        raise StoreError(
            f"The secret file {path} does not hold {_SECRET_BYTES} bytes in hexadecimal: remove it "
            "to have a new one made. Links and sign-ins that are under way end by that."
        )
    return secret


def _make(path: Path) -> None:
    """Written whole under another name first: two processes may start at once."""
    unfinished = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(secrets.token_hex(_SECRET_BYTES) + "\n")
        try:
            os.link(unfinished, path)
        except FileExistsError:
            return
    finally:
        unfinished.unlink()


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

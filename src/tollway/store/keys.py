"""The keys of a gateway's files: its secret, and signatures made with the keys of a key file.

The secret signs links and sign-ins. The key file's keys seal (`sealing.py`) and sign records. Each
purpose uses its own key, derived here from one or the other.
"""

import hmac
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tollway.store.database import StoreError
from tollway.store.durable_files import make_private, reason_of, refuse_writable_by_others
from tollway.store.key_file import SealError, read_keys, read_retired

_SECRET_BYTES = 32
# What a key of the key file is used for besides sealing: a dropped key leaves its derived keys for
# these purposes.
LABELS, REQUESTS = "waybill label", "request fingerprint"


def load_secret(path: Path) -> bytes:
    """The secret in a file that only its owner can read; made on first use."""
    try:
        if not path.exists():
            make_private(path, f"{secrets.token_hex(_SECRET_BYTES)}\n".encode())
        refuse_writable_by_others(path)
        content = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"The secret file {path} cannot be used: {reason_of(error)}.") from None
    try:
        secret = bytes.fromhex(content)
    except ValueError:
        secret = b""
    if len(secret) < _SECRET_BYTES:
        raise StoreError(
            f"The secret file {path} does not hold {_SECRET_BYTES} bytes in hexadecimal: put the "
            "right one there, or remove it and run `tollway keys accept secret_file` to have a new "
            "one made. Consent links and sign-ins that are in use end by that."
        )
    return secret


class Signature(NamedTuple):
    """A digest, and the id of the key that it was made with."""

    key_id: int
    digest: bytes


class KeyedSigner:
    """Signs for one purpose: with the current key, or again with the key of an older signature."""

    def __init__(
        self,
        keys: dict[int, bytes],
        current: int,
        purpose: str,
        retired: Mapping[int, bytes] | None = None,
    ) -> None:
        self._keys = {key_id: derived(key, purpose) for key_id, key in keys.items()}
        # What dropped keys have left for this purpose.
        self._keys |= retired or {}
        # The key is hashed once in advance: a signature then takes less time.
        self._begun = {
            key_id: hmac.new(key, digestmod="sha256") for key_id, key in self._keys.items()
        }
        self.current = current

    def sign(self, content: bytes, key_id: int | None = None) -> Signature:
        """By HMAC-SHA256."""
        used = self.current if key_id is None else key_id
        self.key(used)  # Raises if it is not in the key file.
        begun = self._begun[used].copy()
        begun.update(content)
        return Signature(used, begun.digest())

    def key(self, key_id: int) -> bytes:
        """The key behind the signatures of this purpose that name it."""
        key = self._keys.get(key_id)
        if key is None:
            raise SealError(f"A record is signed with key {key_id}, which is not in the key file.")
        return key


def load_signer(path: Path, purpose: str) -> KeyedSigner:
    """The signer of a key file for one purpose."""
    return KeyedSigner(*read_keys(path), purpose, read_retired(path, purpose))


def left_of(key: bytes) -> dict[str, bytes]:
    """What a dropped key leaves: it checks what was signed, and decrypts nothing."""
    return {purpose: derived(key, purpose) for purpose in (LABELS, REQUESTS)}


def derived(key: bytes, purpose: str) -> bytes:
    """A key for one purpose. Neither the original key nor other derived ones follow from it."""
    # HKDF (RFC 5869) with SHA-256, without a salt, and of one block.
    extracted = hmac.digest(bytes(32), key, "sha256")
    return hmac.digest(extracted, f"tollway/{purpose}".encode() + b"\x01", "sha256")

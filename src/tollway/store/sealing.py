"""Personal data at rest: sealed with AES-256-GCM, with the id of the key in every record.

A new key can be added and made the current one while records under the old ones are still read; an
old key can go once nothing is sealed with it. What a record belongs to (its context) is bound into
the seal, so that a sealed value cannot be moved to another record.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tollway.store.key_file import SealError, read_keys

_NONCE_BYTES = 12


class Sealer:
    """Seals with the current key, and opens with the key that a value names."""

    def __init__(self, keys: dict[int, bytes], current: int) -> None:
        self._keys = keys
        self._ciphers = {key_id: AESGCM(key) for key_id, key in keys.items()}
        self._current = self._ciphers[current]
        self._prefix = bytes([current])
        self.current = current
        self.newest = max(keys)

    def __reduce__(self) -> tuple[object, ...]:
        # A second process seals too, and a cipher cannot be pickled.
        return Sealer, (self._keys, self.current)

    def seal(self, plain: bytes, context: bytes) -> bytes:
        nonce = os.urandom(_NONCE_BYTES)
        return self._prefix + nonce + self._current.encrypt(nonce, plain, context)

    def seal_many(self, plain: Sequence[bytes], contexts: Sequence[bytes]) -> list[bytes]:
        """Seals many plain values, each with its context; gets all random bytes in one call."""
        chance = os.urandom(_NONCE_BYTES * len(plain))
        nonces = [chance[at : at + _NONCE_BYTES] for at in range(0, len(chance), _NONCE_BYTES)]
        encrypted = map(self._current.encrypt, nonces, plain, contexts)
        prefix = self._prefix
        return [prefix + nonce + each for nonce, each in zip(nonces, encrypted, strict=True)]

    def open(self, sealed: bytes, context: bytes) -> bytes:
        if not sealed:
            raise SealError("An encrypted record is empty.")
        cipher = self._ciphers.get(sealed[0])
        if cipher is None:
            raise SealError(
                f"A record is encrypted with key {sealed[0]}, which is not in the key file."
            )
        nonce, content = sealed[1 : 1 + _NONCE_BYTES], sealed[1 + _NONCE_BYTES :]
        try:
            return cipher.decrypt(nonce, content, context)
        except InvalidTag:
            raise SealError(
                "An encrypted record was altered, or belongs to another one, or the key file is "
                "not the one that it was encrypted with."
            ) from None


def load_sealer(path: Path) -> Sealer:
    """The sealer of a key file; the file is made if there is none."""
    return Sealer(*read_keys(path))

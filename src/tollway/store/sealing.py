"""Personal data at rest: sealed with AES-256-GCM, with the id of the key in every record.

A new key can be added and made the current one while records under the old ones are still read; an
old key can go once nothing is sealed with it. What a record belongs to (its context) is bound into
the seal, so that a sealed value cannot be moved to another record.
"""

import base64
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tollway.store.database import StoreError
from tollway.store.durable_files import make_private, refuse_writable_by_others

KEY_BYTES = 32
_NONCE_BYTES = 12


class SealError(StoreError):
    """A sealed value cannot be opened: its key is missing, or it was altered."""


class _KeyFile(msgspec.Struct):
    """The key file's content: key ids are numbers from 1 to 255."""

    current: int
    keys: dict[int, str]


class Sealer:
    """Seals with the current key, and opens with the key that a value names."""

    def __init__(self, keys: dict[int, bytes], current: int) -> None:
        self._ciphers = {key_id: AESGCM(key) for key_id, key in keys.items()}
        self._current = self._ciphers[current]
        self._prefix = bytes([current])

    def seal(self, plain: bytes, context: bytes) -> bytes:
        nonce = os.urandom(_NONCE_BYTES)
        return self._prefix + nonce + self._current.encrypt(nonce, plain, context)

    def seal_many(self, values: Sequence[tuple[bytes, bytes]]) -> list[bytes]:
        """Seals many plain values, each with its context: chance is asked for once."""
        nonces = os.urandom(_NONCE_BYTES * len(values))
        sealed = []
        for number, (plain, context) in enumerate(values):
            nonce = nonces[number * _NONCE_BYTES : (number + 1) * _NONCE_BYTES]
            sealed.append(self._prefix + nonce + self._current.encrypt(nonce, plain, context))
        return sealed

    def open(self, sealed: bytes, context: bytes) -> bytes:
        if not sealed:
            raise SealError("A sealed record is empty.")
        cipher = self._ciphers.get(sealed[0])
        if cipher is None:
            raise SealError(
                f"A record is sealed with key {sealed[0]}, which is not in the key file."
            )
        nonce, content = sealed[1 : 1 + _NONCE_BYTES], sealed[1 + _NONCE_BYTES :]
        try:
            return cipher.decrypt(nonce, content, context)
        except InvalidTag:
            raise SealError(
                "A sealed record was altered, or belongs to another one, or the key file is not "
                "the one that it was sealed with."
            ) from None


def load_sealer(path: Path) -> Sealer:
    """The sealer of a key file; the file is made, readable by its owner only, if there is none."""
    return Sealer(*read_keys(path))


def read_keys(path: Path) -> tuple[dict[int, bytes], int]:
    """The keys of a key file by their ids, and the id of the current one; made as above."""
    try:
        if not path.exists():
            key = base64.b64encode(os.urandom(KEY_BYTES)).decode()
            content = msgspec.json.encode(_KeyFile(1, {1: key}))
            make_private(path, msgspec.json.format(content))
        refuse_writable_by_others(path)
        found = msgspec.json.decode(path.read_bytes(), type=_KeyFile)
        keys = {key_id: base64.b64decode(key) for key_id, key in found.keys.items()}
        # Checked here, where the error can name the file.
        Sealer(keys, found.current)
    except (OSError, ValueError, KeyError, msgspec.MsgspecError) as error:
        raise StoreError(f"The key file {path} cannot be used: {error}.") from None
    return keys, found.current

"""Personal data at rest: sealed with AES-256-GCM, with the id of the key in every record.

A new key can be added and made the current one while records under the old ones are still read; an
old key can go once nothing is sealed with it. What a record belongs to (its context) is bound into
the seal, so that a sealed value cannot be moved to another record.
"""

import base64
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tollway.store.database import StoreError
from tollway.store.durable_files import (
    make_private,
    reason_of,
    refuse_writable_by_others,
    replace_private,
)

KEY_BYTES = 32
_NONCE_BYTES = 12
_KEY_ID_MAX = 255


class SealError(StoreError):
    """A sealed value cannot be opened: its key is missing, or it was altered."""


class _KeyFile(msgspec.Struct):
    """The key file's content: key ids are numbers from 1 to 255."""

    current: int
    keys: dict[int, str]
    # The derived keys of dropped keys, by which fingerprints and signatures are still checked; they
    # decrypt nothing.
    retired: dict[int, dict[str, str]] = {}


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
    """The sealer of a key file; the file is made, readable by its owner only, if there is none."""
    return Sealer(*read_keys(path))


def read_keys(path: Path) -> tuple[dict[int, bytes], int]:
    """The keys of a key file by id, and the id of the current one; makes the file as above."""
    found = _read(path)
    return {key_id: base64.b64decode(key) for key_id, key in found.keys.items()}, found.current


def read_retired(path: Path, purpose: str) -> dict[int, bytes]:
    """What is left of dropped keys for one purpose, by their ids."""
    retired = _read(path).retired.items()
    return {key_id: base64.b64decode(of[purpose]) for key_id, of in retired if purpose in of}


def add_key(path: Path) -> int:
    """Adds a key to a file, not in use yet; returns its id."""
    found = _read(path)
    key_id = max(*found.keys, *found.retired, 0) + 1
    if key_id > _KEY_ID_MAX:
        raise StoreError(f"The key file {path} can have no key after {_KEY_ID_MAX}.")
    key = base64.b64encode(os.urandom(KEY_BYTES)).decode()
    _write(path, msgspec.structs.replace(found, keys={**found.keys, key_id: key}))
    return key_id


def use_key(path: Path, key_id: int) -> None:
    """Makes a key of a file the current one."""
    _write(path, msgspec.structs.replace(_read(path), current=key_id))


def drop_keys(path: Path, left_of: Callable[[bytes], dict[str, bytes]]) -> list[int]:
    """Drops all keys but the current one; `left_of` is what is left of each, by purpose."""
    found = _read(path)
    gone = {key_id: key for key_id, key in found.keys.items() if key_id != found.current}
    retired = {
        key_id: {
            purpose: base64.b64encode(left).decode()
            for purpose, left in left_of(base64.b64decode(key)).items()
        }
        for key_id, key in gone.items()
    }
    kept = {found.current: found.keys[found.current]}
    _write(path, _KeyFile(found.current, kept, {**found.retired, **retired}))
    return sorted(gone)


def _write(path: Path, content: _KeyFile) -> None:
    try:
        replace_private(path, msgspec.json.format(msgspec.json.encode(content)))
    except OSError as error:
        raise StoreError(f"The key file {path} cannot be changed: {reason_of(error)}.") from None


def _read(path: Path) -> _KeyFile:
    try:
        if not path.exists():
            key = base64.b64encode(os.urandom(KEY_BYTES)).decode()
            first = msgspec.json.encode(_KeyFile(1, {1: key}))
            make_private(path, msgspec.json.format(first))
        refuse_writable_by_others(path)
        content = path.read_bytes()
    except OSError as error:
        raise StoreError(f"The key file {path} cannot be used: {reason_of(error)}.") from None
    # Checked here, where the error can name the file.
    try:
        found = msgspec.json.decode(content, type=_KeyFile)
        fault = _fault_of(found)
    except (ValueError, RecursionError):
        fault = "it is not JSON with `current` and `keys`, or not all of it"
    if fault is not None:
        raise StoreError(
            f"The key file {path} cannot be used: {fault}. Put the right file back, such as the "
            "copy that was kept with a backup. If no database was ever used with it, move it away, "
            "and a new one is made."
        )
    return found


def _fault_of(content: _KeyFile) -> str | None:
    for key_id, key in content.keys.items():
        try:
            AESGCM(base64.b64decode(key))
        except ValueError:
            return f"its key {key_id} is not {KEY_BYTES} bytes in base64"
    if content.current not in content.keys or not 0 <= content.current <= _KEY_ID_MAX:
        return (
            f"`current` is {content.current}, and must be the id of one of its keys, from 1 to "
            f"{_KEY_ID_MAX}"
        )
    for key_id, of in content.retired.items():
        for purpose, left in of.items():
            try:
                base64.b64decode(left)
            except ValueError:
                return f"what it keeps of key {key_id} for {purpose} is not in base64"
    return None

"""The key file: the keys by which personal data is sealed and records are signed.

Nothing here encrypts, so that only what does need load the cryptography.
"""

import base64
import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from tollway.store.database import StoreError
from tollway.store.durable_files import (
    make_private,
    reason_of,
    refuse_writable_by_others,
    replace_private,
)

# Of a key that is made here. AES takes shorter ones too.
KEY_BYTES = 32
_AES_KEY_BYTES = (16, 24, 32)
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


def read_keys(path: Path) -> tuple[dict[int, bytes], int]:
    """The keys of a key file by id, and the id of the current one. The file is made, readable by
    its owner only, if there is none."""
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
            is_key = len(base64.b64decode(key)) in _AES_KEY_BYTES
        except ValueError:
            is_key = False
        if not is_key:
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

"""The gateway's own secret: what links and sign-ins are signed with."""

import secrets
from pathlib import Path

from tollway.store.database import StoreError
from tollway.store.durable_files import make_private

_SECRET_BYTES = 32


def load_secret(path: Path) -> bytes:
    """The secret in a file that only its owner can read; made on first use."""
    try:
        if not path.exists():
            make_private(path, f"{secrets.token_hex(_SECRET_BYTES)}\n".encode())
        content = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"The secret file {path} cannot be used: {error}.") from None
    try:
        secret = bytes.fromhex(content)
    except ValueError:
        secret = b""
    if len(secret) < _SECRET_BYTES:
        raise StoreError(
            f"The secret file {path} does not hold {_SECRET_BYTES} bytes in hexadecimal: put the "
            "right one there, or remove it and run `tollway keys accept secret_file` to have a new "
            "one made. Links and sign-ins that are under way end by that."
        )
    return secret

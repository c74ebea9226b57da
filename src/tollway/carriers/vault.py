"""The keys for waybills: their print data is sealed, and its label is signed."""

from pathlib import Path

from tollway.store.key_file import read_keys
from tollway.store.keys import LABELS, KeyedSigner, derived, load_signer
from tollway.store.sealing import Sealer


class Vault:
    """The keys for waybills, each used for its one purpose."""

    def __init__(self, sealer: Sealer, label_signer: KeyedSigner) -> None:
        self.sealer = sealer
        self.label_signer = label_signer

    def seal(self, print_data: str, context: bytes) -> bytes:
        return self.sealer.seal(print_data.encode(), context)

    def open(self, sealed: bytes, context: bytes) -> str:
        return self.sealer.open(sealed, context).decode()


def load_vault(key_file: Path) -> Vault:
    return Vault(Sealer(*read_keys(key_file)), load_signer(key_file, LABELS))


def sandbox_vault(secret: bytes) -> Vault:
    """The vault of test calls, the same in all workers and nodes that have this secret."""
    keys = {1: derived(secret, "sandbox")}
    return Vault(Sealer(keys, 1), KeyedSigner(keys, 1, LABELS))

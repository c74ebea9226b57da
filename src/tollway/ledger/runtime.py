"""Clock, ids and randomness, handed in so that a test can hold them still."""

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

_ID_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


@dataclass(frozen=True)
class Runtime:
    """What the ledger takes from outside: the time, and random ids."""

    now_s: Callable[[], float] = time.time
    pick: Callable[[str], str] = secrets.choice

    def at_s(self) -> int:
        return int(self.now_s())

    def at_ms(self) -> int:
        return int(self.now_s() * 1000)

    def new_id(self, prefix: str) -> str:
        return prefix + "".join(self.pick(_ID_ALPHABET) for _ in range(12))

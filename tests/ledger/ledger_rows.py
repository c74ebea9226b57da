"""The rows of the model: what it keeps of balances, entries, holds and kept answers."""

from dataclasses import dataclass, field
from typing import NamedTuple

from tests.ledger.ledger_calls import Asked, Wanted


class Line(NamedTuple):
    """One entry of a balance."""

    kind: str
    amount: int
    balance_after: int
    at_ms: int
    request_id: str | None
    token_id: str | None


@dataclass
class Balance:
    """What an account has of a unit."""

    amount: int = 0
    held: int = 0
    posted: int = 0
    lines: list[Line] = field(default_factory=list)

    def enter(self, kind: str, amount: int, at_ms: int, of: "Wanted | Hold | None" = None) -> None:
        self.amount += amount
        who = (None, None) if of is None else (of.request_id, of.token_id)
        self.lines.append(Line(kind, amount, self.amount, at_ms, *who))


@dataclass
class Hold:
    """What is set aside for an errand."""

    unit: str
    amount: int
    request_id: str
    token_id: str
    key: str | None
    state: str = "held"


class Kept(NamedTuple):
    """An answer kept under a key; without one, the key is reserved for it."""

    request_id: str
    at_ms: int
    asked: tuple[str, Asked]
    data: str | None

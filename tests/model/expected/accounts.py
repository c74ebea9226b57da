"""An account's ledger: its balances, every entry, and the answers kept under its keys."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

CREDITS = "credits"
# These are paid in calls, the others in credits.
_IN_CALLS = ("product_analysis",)
_KEYS_MAX = 100


def unit_of(operation: str) -> str:
    return f"calls:{operation}" if operation in _IN_CALLS else CREDITS


class Between(NamedTuple):
    """A moment that is known only to lie between two others, in milliseconds since 1970."""

    first_ms: int
    last_ms: int


class Entry(NamedTuple):
    """One change of a balance, as the ledger's export shows it, without the account's id."""

    unit: str
    number: int
    kind: str
    amount: int
    balance_after: int
    at: Between
    operation: str | None = None
    request_id: str | None = None
    token_id: str | None = None
    note: str | None = None


class Kept(NamedTuple):
    """An answer that is given again under its key."""

    operation: str
    sent: dict[str, Any]
    asked: dict[str, Any]
    data: dict[str, Any]
    request_id: str


@dataclass(eq=False)
class Account:
    """One account. One client at a time calls it, or changes its balances."""

    id: str
    name: str
    balances: dict[str, int] = field(default_factory=dict)
    entries: list[Entry] = field(default_factory=list)
    kept: dict[str, Kept] = field(default_factory=dict)
    _numbers: dict[str, int] = field(default_factory=dict)

    def keep(self, key: str, kept: Kept) -> None:
        """Keeps an answer; of very many keys the oldest are not used again, and forgotten here."""
        self.kept[key] = kept
        if len(self.kept) > _KEYS_MAX:
            del self.kept[next(iter(self.kept))]

    def left(self, operation: str) -> int:
        return self.balances.get(unit_of(operation), 0)

    def top_up(self, unit: str, amount: int, note: str, at: Between) -> Entry:
        """Adds to a balance; a negative amount corrects it."""
        kind = "top_up" if amount > 0 else "correction"
        return self._enter(unit, kind, amount, at, note=note)

    def charge(
        self, operation: str, amount: int, request_id: str, token_id: str, at: Between
    ) -> Entry:
        return self._enter(
            unit_of(operation),
            "charge",
            -amount,
            at,
            operation=operation,
            request_id=request_id,
            token_id=token_id,
        )

    def _enter(self, unit: str, kind: str, amount: int, at: Between, **rest: str) -> Entry:
        """Entries are numbered without gaps for each unit."""
        number = self._numbers[unit] = self._numbers.get(unit, 0) + 1
        left = self.balances[unit] = self.balances.get(unit, 0) + amount
        entry = Entry(unit, number, kind, amount, left, at, **rest)
        self.entries.append(entry)
        return entry

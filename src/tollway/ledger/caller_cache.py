"""Who is calling: from a token's hash to everything the pipeline needs to know of its account.

Lookups are cached until the directory's version changes, which any change by the command line or
another process causes, and then those of the accounts that changed are dropped. Every call checks
that version; so a revoked token is refused, and a top-up seen, on the very next call. A process on
a shared database is notified of a change a moment later; there charging checks the version too.

A stale cache is replaced, not emptied: a row that was read before a change and arrives after it
goes into the old cache, which is no longer read.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from sqlalchemy import bindparam, func, select

from tollway.ledger.entries import amount_left
from tollway.ledger.permissions import (
    OperationState,
    Permission,
    list_permissions,
    operation_states,
)
from tollway.ledger.token_limits import (
    LIMIT_COLUMNS,
    NO_LIMITS,
    DayCap,
    TokenLimits,
    check_cap,
    limits_of,
)
from tollway.store.cache_versions import Versions
from tollway.store.concurrency import NextFlights, run_at_once
from tollway.store.database import Database
from tollway.store.query import Query
from tollway.store.schema.ledger import account, token

_CALLERS_MAX = 20_000

_FIND = Query(
    lambda: (
        select(
            func.coalesce(token.c.revoked_at_s, account.c.closed_at_s),
            *(token.c.id, token.c.account_id, token.c.kind, token.c.expires_at_s),
            account.c.suspended_at_s,
            *LIMIT_COLUMNS,
        )
        .join(account, account.c.id == token.c.account_id)
        .where(token.c.hash == bindparam("hash"))
    )
)


class Rate(NamedTuple):
    """How often a caller may call an operation in a second, and the key of the window for it."""

    limit: int
    key: tuple[str, str]


@dataclass(frozen=True, slots=True)
class Caller:
    """A valid token and its account."""

    token_id: str
    account_id: str
    is_test: bool
    expires_at_s: int | None
    permissions: dict[str, Permission]
    # None for most tokens, which are not limited.
    limits: TokenLimits | None = None
    is_suspended: bool = False
    # What the stages worked out for each operation: valid as long as everything else here.
    prices: dict[str, int] = field(default_factory=dict, compare=False)
    rates: dict[str, Rate] = field(default_factory=dict, compare=False)


class CallerCache:
    """The callers behind the tokens in use, and the state of the operations."""

    def __init__(self, database: Database, versions: Versions) -> None:
        self._database = database
        self._versions = versions
        self._version = -1
        # The version that charging compares; None on an embedded database, where every call sees
        # whether it is the current one.
        self.directory: int | None = None
        self._reading = 0
        self._callers: dict[bytes, Caller] = {}
        # Tokens that were revoked, or whose account is closed. Unknown tokens are not cached: one
        # may be issued at any moment, without a change of the version.
        self._ended: set[bytes] = set()
        self._amounts: dict[tuple[str, str], int] = {}
        # Balances that were read, and the change mark of the database before the read.
        self._read_amounts: dict[tuple[str, str], int] = {}
        self._read_mark: object = None
        # In a flood, calls share their reads; an embedded database reads at once.
        is_shared = database.is_shared
        self._read_amount = NextFlights(self._amount_of) if is_shared else self._amount_of
        self._read_states = NextFlights(self._states) if is_shared else self._states
        self._read_caller = NextFlights(self._look_up) if is_shared else self._look_up
        self.operation_states: dict[str, OperationState] = {}

    async def refresh(self) -> None:
        """Drops what is stale."""
        await self._versions.refresh()
        version, reading = self._versions.directory, self._versions.reading
        if version == self._version:
            return
        changed = self._versions.accounts_changed_since(self._version)
        states = self.operation_states if changed is not None else await self._read_states("")
        # Another call may have refreshed meanwhile, with the same version or a later one.
        if version != self._version and reading > self._reading:
            self._drop(changed)
            self.operation_states = states
            self._version, self._reading = version, reading
            self.directory = version if self._database.is_shared else None

    def _drop(self, changed: frozenset[str] | None) -> None:
        """Drops what is known of these accounts, or of all."""
        callers, amounts = self._callers, self._amounts
        self._callers, self._ended, self._amounts = {}, set(), {}
        if changed is not None:
            self._callers = {
                hashed: each for hashed, each in callers.items() if each.account_id not in changed
            }
            self._amounts = {key: left for key, left in amounts.items() if key[0] not in changed}

    async def _states(self, _: str) -> dict[str, OperationState]:
        return await operation_states(self._database)

    def refresh_at_once(self) -> bool:
        """Refreshes without awaiting; False if the database is not embedded: nothing is done."""
        if self._database.is_shared:
            return False
        run_at_once(self.refresh())
        return True

    def known_caller(self, hashed: bytes) -> Caller | None:
        """A cached caller; stale unless the versions are fresh."""
        if self._versions.directory != self._version:
            return None
        return self._callers.get(hashed)

    def is_ended(self, hashed: bytes) -> bool:
        """Whether a token is known to be revoked or of a closed account; stale unless the versions
        are fresh."""
        return hashed in self._ended and self._versions.directory == self._version

    async def caller(self, hashed: bytes) -> Caller | None:
        """The caller of a token; None if it is unknown, revoked, or of a closed account."""
        return self._callers.get(hashed) or await self._read_caller(hashed)

    async def _look_up(self, hashed: bytes) -> Caller | None:
        kept, ended = self._callers, self._ended
        if hashed in kept:
            # Another call has just looked it up.
            return kept[hashed]
        row = await self._database.fetch_one(_FIND, hash=hashed)
        if row is None:
            return None
        ended_at_s, token_id, account_id, kind, expires_at_s, suspended_at_s, *stored = row
        if ended_at_s is not None:
            if len(ended) >= _CALLERS_MAX:
                ended.clear()
            ended.add(hashed)
            return None
        limits = limits_of(stored)
        permissions = await list_permissions(self._database, account_id)
        found = Caller(
            token_id,
            account_id,
            kind == "test",
            expires_at_s,
            {permission.operation: permission for permission in permissions},
            None if limits == NO_LIMITS else limits,
            suspended_at_s is not None,
        )
        if len(kept) >= _CALLERS_MAX:
            kept.clear()
        kept[hashed] = found
        return found

    def remembered_amount(self, account_id: str, unit: str) -> int:
        """What a balance held when it was last seen: a hint that saves a read."""
        return self._amounts.get((account_id, unit), -1)

    async def amount_left(self, account_id: str, unit: str) -> int:
        """What a balance holds, read from the database."""
        # Taken before the read, so that a commit in between is noticed next time.
        mark = self._database.change_mark()
        left = await self._read_amount((account_id, unit))
        self.remember_amount(account_id, unit, left)
        if mark != self._read_mark or len(self._read_amounts) >= _CALLERS_MAX:
            self._read_amounts, self._read_mark = {}, mark
        self._read_amounts[account_id, unit] = left
        return left

    async def _amount_of(self, key: tuple[str, str]) -> int:
        return await amount_left(self._database, *key)

    def amount_at_once(self, account_id: str, unit: str) -> int | None:
        """What a balance holds, without awaiting; None if the database is not embedded, because a
        server does not report every commit. It is cached until the next commit."""
        if self._database.is_shared:
            return None
        if self._database.change_mark() == self._read_mark:
            left = self._read_amounts.get((account_id, unit))
            if left is not None:
                return left
        return run_at_once(self.amount_left(account_id, unit))

    async def check_cap(
        self, token_id: str, cap: DayCap, unit: str, amount: int, calls: int = 1
    ) -> None:
        """Raises DayCapError if the token's daily cap does not allow the calls."""
        await check_cap(self._database, token_id, cap, unit, amount, calls)

    def remember_amount(self, account_id: str, unit: str, left: int) -> None:
        """Keeps a balance that charging reported; charging alone decides what can be paid."""
        if len(self._amounts) >= _CALLERS_MAX:
            self._amounts.clear()
        self._amounts[account_id, unit] = left

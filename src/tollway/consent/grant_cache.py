"""The grants between an account and an owner, looked up on every call that needs consent.

Lookups are cached until the directory's version changes, which every change of an owner or a grant
causes, and then those of the accounts that changed are dropped. The pipeline checks that version on
each call. So a revocation takes effect on the very next call, and a call under a grant costs no
query.

A stale cache is replaced, not emptied: a row that was read before a change and arrives after it
goes into the old cache, which is no longer read.
"""

import msgspec

from tollway.consent.grants import Grant, GrantRequest, grants_between
from tollway.consent.owners import credential_of
from tollway.store.cache_versions import Versions
from tollway.store.database import Database

_KEPT_MAX = 20_000
# The sandbox has a single account, which stands for all: its owners grant to this one.
SANDBOX_ACCOUNT = "sandbox"


class GrantState(msgspec.Struct, frozen=True):
    """Whether the owner is known, and its grants to the account by scope."""

    is_known: bool
    grants: dict[str, Grant]


class GrantCache:
    """The grant states that were looked up since the last change."""

    def __init__(self, database: Database, versions: Versions) -> None:
        self._database = database
        self._versions = versions
        self._version = -1
        self._kept: dict[tuple[str, str, str], GrantState] = {}

    def known(self, account_id: str, kind: str, owner_id: str) -> GrantState | None:
        """The cached state; None if it must be looked up."""
        if self._versions.directory != self._version:
            changed = self._versions.accounts_changed_since(self._version)
            kept = self._kept.items()
            self._kept = {} if changed is None else {k: v for k, v in kept if k[0] not in changed}
            self._version = self._versions.directory
        return self._kept.get((account_id, kind, owner_id))

    async def look_up(self, account_id: str, kind: str, owner_id: str) -> GrantState:
        kept = self._kept
        is_known = await credential_of(self._database, kind, owner_id) is not None
        grants: dict[str, Grant] = {}
        if is_known:
            grant_request = GrantRequest(account_id, kind, owner_id, scope="")
            for each in await grants_between(self._database, grant_request):
                grants[each.scope] = _longer(grants.get(each.scope), each)
        found = GrantState(is_known, grants)
        if len(kept) >= _KEPT_MAX:
            kept.clear()
        kept[account_id, kind, owner_id] = found
        return found


def _longer(one: Grant | None, other: Grant) -> Grant:
    """The one of two grants that is valid longer: there may be an expired one too."""
    if one is None:
        return other
    return max(one, other, key=lambda each: (each.expires_at_s is None, each.expires_at_s or 0))

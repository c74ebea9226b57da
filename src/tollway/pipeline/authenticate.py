"""Stages: whose token is it, and may it still make this call, once the body is there."""

from collections.abc import Awaitable, Callable

from tollway.contract.addresses import Network, client_address, counted_address
from tollway.contract.reasons import Reason, Refusal
from tollway.ledger.caller_cache import Caller, CallerCache
from tollway.ledger.token_format import is_well_formed, token_hash
from tollway.pipeline.bodies import NO_BODY
from tollway.pipeline.call import Call, Environment
from tollway.pipeline.dry_run import DRY_RUN_HEADER
from tollway.store.cache_versions import Versions
from tollway.store.concurrency import TurnSlots
from tollway.store.database import Database

# Looked up once: an enum member takes four times as long to look up as a global.
_INVALID = Reason.CREDENTIAL_INVALID
# Shared by all calls of a flood: returned, never raised, which would lengthen its traceback.
_REFUSED = Refusal(_INVALID)
_KNOWN_MAX = 20_000
# Any client can invent tokens that must be looked up. Known callers do not wait for these slots,
# and new ones at other addresses not for all tokens of one.
_UNKNOWN_AT_ONCE = 2
_UNKNOWN_WAIT_S = 3.0


class Authenticate:
    """Bearer token → caller. A malformed token is refused without a query."""

    def __init__(
        self,
        callers: CallerCache,
        versions: Versions,
        live: Environment,
        sandbox: Environment,
        proxies: tuple[Network, ...],
    ) -> None:
        self._callers = callers
        self._proxies = proxies
        self._versions = versions
        self._live = live
        self._sandbox = sandbox
        self._used_at_s: dict[str, int] = {}
        # The hashes of recent headers, so that a token known to be valid or ended is not hashed
        # again.
        self._hashes: dict[bytes, bytes] = {}
        self._unknown = TurnSlots(_UNKNOWN_AT_ONCE, "too many unknown tokens at once")

    def __call__(self, call: Call) -> Awaitable[None] | Refusal | None:
        header = call.headers.get(b"authorization", b"")
        hashed = self._hashes.get(header) or _hash_of(header)
        if hashed is None:
            return _REFUSED
        is_fresh = call.is_fresh or self._versions.is_fresh()
        if not is_fresh and not self._callers.refresh_at_once():
            return self._look_up(call, header, hashed)
        caller = self._callers.known_caller(hashed)
        if caller is None:
            if self._callers.is_ended(hashed):
                return _REFUSED
            return self._look_up(call, header, hashed)
        call.caller_reading, call.directory = self._versions.reading, self._callers.directory
        self._enter(call, caller)
        return None

    async def check_now(self, call: Call) -> None:
        """Refuses a token that has ended, even if this node was not notified of that yet."""
        await self._versions.refresh()
        await finish(self(call))

    async def _look_up(self, call: Call, header: bytes, hashed: bytes) -> None:
        if header in self._hashes:
            caller = await self._find(call, hashed)
        else:
            caller = await self._find_unknown(call, header, hashed)
        if caller is None and not self._callers.is_ended(hashed):
            self._hashes.pop(header, None)
            raise Refusal(_INVALID)
        if len(self._hashes) >= _KNOWN_MAX:
            self._hashes.clear()
        self._hashes[header] = hashed
        if caller is None:
            raise Refusal(_INVALID)
        self._enter(call, caller)

    async def _find_unknown(self, call: Call, header: bytes, hashed: bytes) -> Caller | None:
        address = counted_address(self._address(call))
        await self._unknown.take(_UNKNOWN_WAIT_S, by=address)
        try:
            # After a restart many calls of one token queue here: once the first is answered, the
            # others must not hold the slot, each for a round trip.
            if header not in self._hashes:
                return await self._find(call, hashed)
        finally:
            self._unknown.leave()
        return await self._find(call, hashed)

    async def _find(self, call: Call, hashed: bytes) -> Caller | None:
        await self._callers.refresh()
        # Before the caller is read: `Recheck` and charging then notice what ends during that.
        call.caller_reading, call.directory = self._versions.reading, self._callers.directory
        if self._callers.is_ended(hashed):
            return None
        return await self._callers.caller(hashed)

    def _enter(self, call: Call, caller: Caller) -> None:
        if caller.expires_at_s is not None and caller.expires_at_s <= call.at_s:
            raise Refusal(_INVALID)
        call.caller = caller
        call.environment = self._sandbox if caller.is_test else self._live
        call.account_id = caller.account_id
        if caller.limits is not None:
            address = self._address(call)
            if not caller.limits.allows_address(address):
                raise Refusal(Reason.TOKEN_NOT_FROM_HERE, address=address)
        self._used_at_s[caller.token_id] = int(call.at_s)

    def _address(self, call: Call) -> str:
        return client_address(call.client[0], call.headers.get(b"x-forwarded-for"), self._proxies)

    def take_used(self) -> dict[str, int]:
        """When each token was last used, since the last time this was called."""
        used, self._used_at_s = self._used_at_s, {}
        return used

    def put_back_used(self, used_at_s: dict[str, int]) -> None:
        """Takes back what could not be stored; uses since then take precedence."""
        self._used_at_s = {**used_at_s, **self._used_at_s}


async def finish(outcome: Awaitable[None] | Refusal | None) -> None:
    """Waits for a stage that was called, or raises the refusal that it returned."""
    if isinstance(outcome, Refusal):
        # A new one: the refusal is shared, and must not be raised.
        raise Refusal(outcome.reason)
    if outcome is not None:
        await outcome


class Recheck:
    """Stage: whether the call may still be made. Its sender may have held the body back until the
    token was revoked, the account or the operation closed, or the permission taken away.

    `check_permitted` refuses a caller who may not make the call; the price stays what it was. A
    node is notified of another node's changes a moment later. Charging notices them before that,
    and this stage does for calls that are not charged: test calls, dry runs, and all if `is_free`.
    """

    def __init__(
        self,
        authenticate: Authenticate,
        versions: Versions,
        database: Database,
        check_permitted: Callable[[Call], None],
        *,
        is_free: bool = False,
    ) -> None:
        self._authenticate = authenticate
        self._versions = versions
        self._check_permitted = check_permitted
        self._is_shared = database.is_shared
        self._is_free = is_free

    def __call__(self, call: Call) -> Awaitable[None] | Refusal | None:
        if self._is_shared and self._is_not_charged(call):
            return self._read_and_look(call)
        if call.body is NO_BODY:
            return None
        call.is_fresh = self._versions.is_fresh()
        if call.is_fresh and call.caller_reading == self._versions.reading:
            # Nothing but charges was committed meanwhile.
            return None
        return self._look(call)

    async def look_again(self, call: Call) -> None:
        """Refuses a call that was checked before and may not go on, with a body or without."""
        call.is_fresh = self._versions.is_fresh()
        if call.is_fresh and call.caller_reading == self._versions.reading:
            return
        await finish(self._look(call))

    def _is_not_charged(self, call: Call) -> bool:
        return self._is_free or call.caller.is_test or DRY_RUN_HEADER in call.headers

    async def _read_and_look(self, call: Call) -> None:
        await self._versions.refresh()
        await self.look_again(call)

    def _look(self, call: Call) -> Awaitable[None] | Refusal | None:
        outcome = self._authenticate(call)
        if outcome is None:
            self._check_permitted(call)
            return None
        return outcome if isinstance(outcome, Refusal) else self._go_on(call, outcome)

    async def _go_on(self, call: Call, authenticating: Awaitable[None]) -> None:
        await authenticating
        self._check_permitted(call)


def _hash_of(header: bytes) -> bytes | None:
    scheme, _, token_bytes = header.partition(b" ")
    if scheme.lower() != b"bearer" or not token_bytes.isascii():
        return None
    token = token_bytes.decode("ascii")
    return token_hash(token) if is_well_formed(token) else None

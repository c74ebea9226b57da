"""Delivering what is due: at least once, in order for each subject, for up to three days.

A worker claims a delivery by counting an attempt and taking a lease: a minute, or the usual pause
before a retry if that is longer. If the worker dies, another one retries when the lease expires;
the receiver recognises a duplicate by its id. So even a delivery that kills every worker is given
up in the end, after one extra attempt: the last one may have arrived without being settled. A
worker that shuts down cleanly gives its attempts back.

Each endpoint is served separately, so that none waits behind the backlog of another. A worker sends
a limited number at once; an account never uses more slots than are still free, so receivers that
hang take half of them at most.

All times come from the clock that the nodes share: by its own clock, a node that is days ahead
would skip the pauses that the others set, and give a delivery up within seconds.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import (
    BigInteger,
    Boolean,
    ColumnElement,
    bindparam,
    exists,
    func,
    literal_column,
    or_,
    select,
)

from tollway.ledger.runtime import Runtime
from tollway.store.clock import common_ms
from tollway.store.database import Database, StoreError
from tollway.store.key_file import SealError
from tollway.store.query import Query, alike, equals
from tollway.store.schema.webhooks import IS_WAITING, webhook_delivery
from tollway.store.sealing import Sealer
from tollway.webhooks.addresses import AddressError, Addresses
from tollway.webhooks.endpoints import find_target
from tollway.webhooks.http_post import NoAnswerError, post
from tollway.webhooks.signature import sign

if TYPE_CHECKING:
    import httpx2

# After the first attempt; three days in all.
RETRY_AFTER_S = (5, 30, 120, 600, 1800, 7200, 18_000, 36_000, 50_400, 64_800, 79_200)
_LEASE_MS = 60_000
# Longer than any pause: a delivery due later than this was dated by a wrong clock.
_AHEAD_MS = 2 * 86_400_000
_TIMEOUT_S = 15.0
_AT_ONCE = 100
_AT_ONCE_TO_ONE = 5

logger = logging.getLogger("tollway.webhooks")


class _Due(NamedTuple):
    """A delivery to try now. Once it is claimed, `next_at_ms` is the end of the lease, and
    `attempts` includes this one."""

    account_id: str
    endpoint_id: str
    number: int
    event_id: str
    body: str
    attempts: int
    next_at_ms: int


# Spelled as in the indexes: otherwise a generic plan cannot use them.
_is_waiting: ColumnElement[bool] = literal_column(IS_WAITING)
# The endpoints with waiting deliveries: one index step finds each, however many deliveries wait.
_waiting = (
    select(func.min(webhook_delivery.c.endpoint_id).label("endpoint_id"))
    .where(_is_waiting)
    .cte("waiting", recursive=True)
)
_next = (
    select(func.min(webhook_delivery.c.endpoint_id))
    .where(_is_waiting, webhook_delivery.c.endpoint_id > _waiting.c.endpoint_id)
    .scalar_subquery()
)
_waiting = _waiting.union_all(select(_next).where(_waiting.c.endpoint_id.is_not(None)))
_its_deliveries = (_is_waiting, webhook_delivery.c.endpoint_id == _waiting.c.endpoint_id)
_first, _last = (
    select(edge(webhook_delivery.c.next_at_ms)).where(*_its_deliveries).scalar_subquery()
    for edge in (func.min, func.max)
)
_found = select(
    _waiting.c.endpoint_id, _first.label("first_at_ms"), _last.label("last_at_ms")
).subquery("found")
_now_ms = bindparam("now_ms", type_=BigInteger)
_is_astray = _found.c.last_at_ms > _now_ms + _AHEAD_MS
# Each with whether a wrong clock has dated some of its deliveries too far ahead.
_ENDPOINTS = Query(
    lambda: (
        select(_found.c.endpoint_id, _is_astray)
        .where(or_(_found.c.first_at_ms <= _now_ms, _is_astray))
        .order_by(_found.c.first_at_ms)
    )
)
_BRING_BACK = Query(
    lambda: (
        webhook_delivery.update()
        .where(
            _is_waiting,
            webhook_delivery.c.endpoint_id == bindparam("of_endpoint"),
            webhook_delivery.c.next_at_ms > _now_ms + _AHEAD_MS,
        )
        .values(next_at_ms=_now_ms)
    )
)
_earlier = webhook_delivery.alias("earlier")
# A delivery is not due before the earlier ones of its subject are settled.
_DUE = Query(
    lambda: (
        select(*(webhook_delivery.c[name] for name in _Due._fields))
        .where(
            _is_waiting,
            webhook_delivery.c.endpoint_id == bindparam("of_endpoint"),
            webhook_delivery.c.next_at_ms <= _now_ms,
            ~exists().where(
                alike(_earlier, webhook_delivery, "account_id", "endpoint_id", "subject"),
                _earlier.c.number < webhook_delivery.c.number,
                _is_waiting,
            ),
        )
        .order_by(webhook_delivery.c.next_at_ms)
        .limit(bindparam("count"))
    )
)
_its_key = (
    equals(
        webhook_delivery, account_id="of_account", endpoint_id="of_endpoint", number="of_number"
    ),
    _is_waiting,
)
_CLAIM = Query(
    lambda: (
        webhook_delivery.update()
        .where(*_its_key, webhook_delivery.c.next_at_ms == bindparam("seen_ms", type_=BigInteger))
        .values(
            next_at_ms=bindparam("lease_ms", type_=BigInteger),
            attempts=bindparam("made", type_=BigInteger),
        )
    )
)
_is_leased = webhook_delivery.c.next_at_ms == bindparam("lease_ms", type_=BigInteger)
_GIVE_BACK = Query(
    lambda: (
        webhook_delivery.update()
        .where(*_its_key, _is_leased)
        .values(next_at_ms=_now_ms, attempts=webhook_delivery.c.attempts - 1)
    )
)
# A failed attempt is not recorded if the caller has requested a redelivery meanwhile, or if another
# worker claimed the delivery after the lease.
_SETTLE = Query(
    lambda: (
        webhook_delivery.update()
        .where(*_its_key, or_(bindparam("is_delivered", type_=Boolean), _is_leased))
        .values(
            state=bindparam("new_state"),
            attempts=bindparam("made", type_=BigInteger),
            status=bindparam("new_status"),
            next_at_ms=bindparam("retry_ms", type_=BigInteger),
            settled_at_ms=bindparam("at_ms", type_=BigInteger),
        )
    )
)


class Deliverer:
    """Delivers the webhooks that are due."""

    def __init__(
        self, database: Database, sealer: Sealer, addresses: Addresses, runtime: Runtime
    ) -> None:
        self._database = database
        self._sealer = sealer
        self._addresses = addresses
        self._runtime = runtime
        # How far this node's clock is ahead of the shared one.
        self._ahead_ms = 0
        self._tasks: dict[asyncio.Task[None], _Due] = {}
        self._claiming: tuple[asyncio.Task[bool], _Due] | None = None

    async def deliver_due(self, on_look: Callable[[], None] = lambda: None) -> None:
        """Delivers until nothing more is due; does not wait for the last answers. Calls `on_look`
        after each search that found something due."""
        while await self._begin_due():
            on_look()
            await asyncio.wait(self._tasks, timeout=1.0, return_when=asyncio.FIRST_COMPLETED)

    def _at_ms(self) -> int:
        return self._runtime.at_ms() - self._ahead_ms

    async def _begin_due(self) -> bool:
        """Starts what is due, as far as there are free slots; returns whether more may be due."""
        own_ms = self._runtime.at_ms()
        now_ms = await common_ms(self._database, own_ms)
        self._ahead_ms = own_ms - now_ms
        endpoints = await self._database.fetch_all(_ENDPOINTS, now_ms=now_ms)
        for endpoint_id, is_astray in endpoints:
            if is_astray:
                lost = {"of_endpoint": endpoint_id, "now_ms": now_ms}
                await self._database.write_statement(_BRING_BACK, **lost)
            to_one = sum(each.endpoint_id == endpoint_id for each in self._tasks.values())
            count = min(_AT_ONCE_TO_ONE - to_one, _AT_ONCE - len(self._tasks))
            if count <= 0:
                continue
            due = {"of_endpoint": endpoint_id, "now_ms": now_ms, "count": count}
            for row in await self._database.fetch_all(_DUE, **due):
                await self._begin(_Due._make(row))
        return bool(endpoints and self._tasks)

    async def _begin(self, due: _Due) -> None:
        if due.attempts > len(RETRY_AFTER_S) + 1:
            # The workers that made the last attempt and the extra one both died.
            await self._settle(due, None)
            return
        of_account = sum(each.account_id == due.account_id for each in self._tasks.values())
        if of_account < _AT_ONCE - len(self._tasks):
            # Read the clock again: the search for what is due may have taken long.
            lease_ms = max(_LEASE_MS, _pause_s(due.attempts + 1) * 1000)
            claimed = due._replace(attempts=due.attempts + 1, next_at_ms=self._at_ms() + lease_ms)
            claim = asyncio.create_task(self._claim(due, claimed))
            self._claiming = claim, claimed
            # Shielded: the claim may commit even if this is cancelled, so `close` waits for it.
            is_claimed = await asyncio.shield(claim)
            self._claiming = None
            if is_claimed:
                task = asyncio.create_task(self._deliver(claimed))
                self._tasks[task] = claimed
                task.add_done_callback(lambda done: self._tasks.pop(done, None))

    async def _claim(self, due: _Due, claimed: _Due) -> bool:
        lease = {
            "seen_ms": due.next_at_ms,
            "lease_ms": claimed.next_at_ms,
            "made": claimed.attempts,
            **_key(due),
        }
        return bool(await self._database.write(lambda tx: tx.execute(_CLAIM, **lease)))

    async def _deliver(self, due: _Due) -> None:
        try:
            await self._settle(due, await self._outcome(due))
        except StoreError as error:
            # A worker retries it when the lease expires.
            logger.error("a webhook's outcome was not stored: %s", error)

    async def _outcome(self, due: _Due) -> int | None:
        try:
            return await self._send(due)
        except SealError as error:
            # Counts as a failed attempt, so that the delivery is given up in the end.
            logger.error("a webhook's secret cannot be read: %s", error)
            return None
        except StoreError:
            raise
        except Exception:
            # Treated like a missing answer: retried later, and given up in the end.
            logger.exception("a webhook failed unexpectedly")
            return None

    async def _send(self, due: _Due) -> int | None:
        """The HTTP status of the answer; None without one, 0 if the endpoint has ended."""
        now_s = self._at_ms() // 1000
        target = await find_target(
            self._database, self._sealer, due.account_id, due.endpoint_id, now_s
        )
        if target is None:
            return 0
        try:
            url = self._addresses.check(target.url)
            addresses = await self._addresses.resolve(url, due.account_id)
            return await self._post(url, addresses, due, target.keys, now_s)
        except (AddressError, NoAnswerError, TimeoutError, OSError):
            return None

    async def _post(
        self,
        url: "httpx2.URL",
        addresses: Sequence[str],
        due: _Due,
        keys: Sequence[bytes],
        now_s: int,
    ) -> int:
        body = due.body.encode()
        signatures = [sign(key, due.event_id, str(now_s), body) for key in keys]
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "tollway",
            "webhook-id": due.event_id,
            "webhook-timestamp": str(now_s),
            "webhook-signature": " ".join(signatures),
        }
        return await post(url, addresses, headers, body, _TIMEOUT_S)

    async def _settle(self, due: _Due, status: int | None) -> None:
        now_ms = self._at_ms()
        is_delivered = status is not None and 200 <= status < 300
        is_over = is_delivered or status == 0 or due.attempts > len(RETRY_AFTER_S)
        pause_s = 0 if is_over else _pause_s(due.attempts)
        delay_s = pause_s * random.uniform(0.8, 1.2)  # noqa: S311 - no secret
        settled = {
            "new_state": "delivered" if is_delivered else "failed" if is_over else "waiting",
            "made": due.attempts,
            "new_status": status or None,
            "retry_ms": now_ms + int(delay_s * 1000),
            "at_ms": now_ms if is_over else None,
            "is_delivered": is_delivered,
            "lease_ms": due.next_at_ms,
            **_key(due),
        }
        await self._database.write(lambda tx: tx.execute(_SETTLE, **settled))

    async def close(self) -> None:
        """Cancels the deliveries under way: another worker retries them, or this one after a
        restart. The attempts do not count: perhaps nothing was sent."""
        under_way = dict(self._tasks)
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        cut = [due for task, due in under_way.items() if task.cancelled()]
        if self._claiming is not None:
            claim, due = self._claiming
            await asyncio.gather(claim, return_exceptions=True)
            cut.append(due)
        now_ms = self._at_ms()
        leases = [{"now_ms": now_ms, "lease_ms": due.next_at_ms, **_key(due)} for due in cut]
        try:
            if leases:
                await self._database.write(lambda tx: tx.execute_many(_GIVE_BACK, leases))
        except StoreError as error:
            logger.error("webhooks under way count as tried: %s", error)


def _pause_s(attempts: int) -> int:
    """The pause before the next attempt; 0 after the last."""
    return RETRY_AFTER_S[attempts - 1] if attempts <= len(RETRY_AFTER_S) else 0


def _key(due: _Due) -> dict[str, object]:
    return {"of_account": due.account_id, "of_endpoint": due.endpoint_id, "of_number": due.number}

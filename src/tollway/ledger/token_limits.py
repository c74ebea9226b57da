"""What a token may be limited to: operations, addresses, and credits and calls a day.

A capped token has one row with what it has spent today. One conditional statement changes it in the
transaction of the charge: so the cap is exact, however many calls and nodes there are at once. A
day begins at midnight in the gateway's time zone. A token that replaces another shares its count,
so that the two do not have the cap twice.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import msgspec
from sqlalchemy import BigInteger, and_, bindparam, case, func, select

from tollway.contract.addresses import Network, NotNetworkError, is_within, networks
from tollway.ledger import LedgerError
from tollway.store.database import Reader, Transaction
from tollway.store.query import Query, insert_row
from tollway.store.schema.ledger import token, token_day

# Listed among a token's operations, this allows the account API.
ACCOUNT_API = "account"
NETWORKS_MAX = 50
# A node whose clock is ahead may have begun the next day: all nodes then count in that day. A day
# with a clock change is up to 25 hours long.
_AHEAD_MS = 25 * 3_600_000
# More than any day's calls cost, however often the balance is topped up.
_NO_CAP = 2**62


class TokenLimits(msgspec.Struct, frozen=True):
    """What a token is limited to; None where it is not."""

    operations: list[str] | None = None
    networks: list[str] | None = None
    credits_per_day: int | None = None
    calls_per_day: int | None = None

    @property
    def is_capped(self) -> bool:
        return self.credits_per_day is not None or self.calls_per_day is not None

    def in_words(self) -> str:
        """What it is limited to, for people; empty if it is not."""
        parts = [", ".join(self.operations or ())]
        if self.networks is not None:
            parts.append(f"from {', '.join(self.networks)}")
        if self.credits_per_day is not None:
            parts.append(_a_day(self.credits_per_day, "credit"))
        if self.calls_per_day is not None:
            parts.append(_a_day(self.calls_per_day, "call"))
        return "; ".join(each for each in parts if each)

    def allows(self, name: str) -> bool:
        return self.operations is None or name in self.operations

    def allows_address(self, address: str) -> bool:
        return self.networks is None or is_within(address, _parsed(tuple(self.networks)))


def _a_day(cap: int, unit: str) -> str:
    return f"{cap} {unit}{'' if cap == 1 else 's'} a day"


NO_LIMITS = TokenLimits()


@lru_cache(maxsize=1024)
def _parsed(texts: tuple[str, ...]) -> tuple[Network, ...]:
    return networks(texts)


def read_limits(
    operations: Iterable[str],
    addresses: Iterable[str],
    credits_per_day: int | None,
    calls_per_day: int | None,
    *,
    known: Sequence[str],
) -> TokenLimits:
    """The limits that were asked for; LedgerError says what is wrong with them."""
    names = sorted({each.strip() for each in operations if each.strip()})
    for name in names:
        if name not in known and name != ACCOUNT_API:
            listed = ", ".join([*known, ACCOUNT_API])
            raise LedgerError(
                "There is no operation {operation!r}: a token can be for {known}.",
                operation=name,
                known=listed,
            )
    # Before they are read: a form may have thousands.
    addresses = [each for each in addresses if each.strip()]
    if len(addresses) > NETWORKS_MAX:
        raise LedgerError(
            "A token can have at most {most} addresses or networks.",
            most=NETWORKS_MAX,
        )
    try:
        found = networks(addresses)
    except NotNetworkError as error:
        if error.network is not None:
            raise LedgerError(
                "The network of {addresses} is {network}: write it so.",
                network=str(error.network),
                addresses=error.text,
            ) from None
        raise LedgerError(
            "Addresses are like 203.0.113.7 or 203.0.113.0/24: {addresses} is neither.",
            addresses=error.text,
        ) from None
    if min(credits_per_day or 0, calls_per_day or 0) < 0:
        raise LedgerError("A cap of a day is a whole number, 0 or more.")
    return TokenLimits(
        names or None, [str(each) for each in found] or None, credits_per_day, calls_per_day
    )


class DayCap(msgspec.Struct, frozen=True, gc=False):
    """What a token may spend in the day that began at `day_at_ms`."""

    credits_max: int | None
    calls_max: int | None
    day_at_ms: int


class DayCapError(Exception):
    """A charge was refused, because its token has spent what it may spend in a day."""

    def __init__(self, unit: str, left: int, most: int, cost: int) -> None:
        self.unit = unit
        self.left = left
        self.most = most
        self.cost = cost


_day = bindparam("of_day_ms", type_=BigInteger)
_is_its_day = token_day.c.day_at_ms.between(_day, _day + _AHEAD_MS)
_credits = case((_is_its_day, token_day.c.credits), else_=0)
_calls = case((_is_its_day, token_day.c.calls), else_=0)
_new_credits = _credits + bindparam("amount", type_=BigInteger)
_BEGIN = Query(lambda: insert_row(token_day))
_counter = select(func.coalesce(token.c.counted_with, token.c.id)).where(
    token.c.id == bindparam("of_token")
)
_is_its = token_day.c.token_id == _counter.scalar_subquery()
_COUNTER = Query(_counter)
_SPENT = Query(lambda: select(_credits, _calls).where(_is_its))
_SPEND = Query(
    lambda: (
        token_day.update()
        .where(
            _is_its,
            _new_credits <= bindparam("credits_max", type_=BigInteger),
            _calls + 1 <= bindparam("calls_max", type_=BigInteger),
        )
        .values(
            day_at_ms=case((_is_its_day, token_day.c.day_at_ms), else_=_day),
            credits=_new_credits,
            calls=_calls + 1,
        )
    )
)
_GIVE_BACK = Query(
    lambda: (
        token_day.update()
        .where(
            and_(
                _is_its,
                token_day.c.day_at_ms <= bindparam("at_ms", type_=BigInteger),
                token_day.c.credits >= bindparam("amount", type_=BigInteger),
                token_day.c.calls > 0,
            )
        )
        .values(
            credits=token_day.c.credits - bindparam("amount", type_=BigInteger),
            calls=token_day.c.calls - 1,
        )
    )
)
_LOCK = Query(
    lambda: (
        select(token_day.c.token_id)
        .where(token_day.c.token_id == bindparam("of_counter"))
        .with_for_update()
    )
)


async def begin_days(transaction: Transaction, token_id: str) -> None:
    """Begins to count for a new token that has a cap."""
    await transaction.execute(_BEGIN, token_id=token_id, day_at_ms=0, credits=0, calls=0)


async def counter_of(reader: Reader, token_id: str) -> str:
    """The id under which a token is counted: its own, or that of the first token it replaced."""
    row = await reader.fetch_one(_COUNTER, of_token=token_id)
    return token_id if row is None else str(row[0])


async def lock_days(transaction: Transaction, token_ids: Iterable[str]) -> None:
    """Locks what tokens have spent, in a fixed order, which prevents deadlocks."""
    counters = {await counter_of(transaction, token_id) for token_id in set(token_ids)}
    for counter in sorted(counters):
        await transaction.fetch_one(_LOCK, of_counter=counter)


async def spend(
    transaction: Transaction, token_id: str, cap: DayCap, unit: str, amount: int
) -> None:
    """Counts one call and its credits against the cap, or raises DayCapError."""
    is_spent = await transaction.execute(
        _SPEND,
        of_token=token_id,
        of_day_ms=cap.day_at_ms,
        amount=_credits_of(unit, amount),
        credits_max=_NO_CAP if cap.credits_max is None else cap.credits_max,
        calls_max=_NO_CAP if cap.calls_max is None else cap.calls_max,
    )
    if not is_spent:
        await check_cap(transaction, token_id, cap, unit, amount)
        raise AssertionError(f"token {token_id} has a cap and no count")


def _credits_of(unit: str, amount: int) -> int:
    return amount if unit == "credits" else 0


async def check_cap(
    reader: Reader, token_id: str, cap: DayCap, unit: str, amount: int, calls: int = 1
) -> None:
    """Raises DayCapError if calls that cost so much together cannot be counted against the cap
    now."""
    row = await reader.fetch_one(_SPENT, of_token=token_id, of_day_ms=cap.day_at_ms)
    credits_spent, calls_spent = row or (0, 0)
    taken = _credits_of(unit, amount)
    if cap.calls_max is not None and calls_spent + calls > cap.calls_max:
        raise DayCapError("calls", cap.calls_max - calls_spent, cap.calls_max, calls)
    if cap.credits_max is not None and credits_spent + taken > cap.credits_max:
        raise DayCapError("credits", cap.credits_max - credits_spent, cap.credits_max, taken)


async def give_back(
    transaction: Transaction, token_id: str, unit: str, amount: int, at_ms: int
) -> None:
    """Uncounts a call that was counted at this time and is not charged after all, if its day is
    not over; does nothing for a token without a cap."""
    await transaction.execute(
        _GIVE_BACK, of_token=token_id, amount=_credits_of(unit, amount), at_ms=at_ms
    )


LIMIT_COLUMNS = tuple(token.c[name] for name in TokenLimits.__struct_fields__)


def limits_of(stored: Sequence[Any]) -> TokenLimits:
    """Limits from their columns."""
    operations, networks, credits_per_day, calls_per_day = stored
    return TokenLimits(_split(operations), _split(networks), credits_per_day, calls_per_day)


def _split(stored: str | None) -> list[str] | None:
    return None if stored is None else stored.split(",")


def stored_limits(limits: TokenLimits) -> dict[str, object]:
    """The columns of limits."""
    return {
        "operations": limits.operations and ",".join(limits.operations),
        "networks": limits.networks and ",".join(limits.networks),
        "credits_per_day": limits.credits_per_day,
        "calls_per_day": limits.calls_per_day,
    }

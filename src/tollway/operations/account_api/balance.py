"""What the account has and may do: balances, prices, limits, and usage by day."""

from collections import Counter
from datetime import date, datetime
from typing import Annotated, Any

import msgspec
from sqlalchemy import BigInteger, Select, bindparam, func, select

from tollway.contract.fields import Field
from tollway.contract.language import Phrase
from tollway.contract.reasons import Reason, Refusal
from tollway.contract.time_fields import Day
from tollway.ledger.accounts import find_account
from tollway.ledger.entries import list_balances
from tollway.ledger.permissions import list_permissions, list_price, operation_states
from tollway.ledger.refused_calls import CHARGED_AFTER_ALL
from tollway.ledger.usage import charged_by_day, day_end_s, day_start_s
from tollway.operations.account_api.operation import (
    AccountCall,
    AccountDependencies,
    Nothing,
    RateLimit,
    endpoint,
)
from tollway.operations.catalogue import BY_NAME, OPERATIONS
from tollway.store.query import Query
from tollway.store.schema.ledger import entry, refused_call

_USAGE_DAYS_MAX = 31
UNITS = sorted({"credits", *(each.balance_unit for each in OPERATIONS)})


def unknown_unit() -> Refusal:
    """The refusal of a balance that does not exist."""
    return Refusal(
        Reason.PARAMETER_INVALID,
        field="unit",
        problem=Phrase("there is no such balance", "没有该余额"),
        expected=Phrase(" or ".join(UNITS), " 或 ".join(UNITS)),
    )


class BalanceLeft(msgspec.Struct, frozen=True):
    """One balance: what is available, set aside, and charged in all."""

    unit: str
    amount: int
    held: int
    posted: int


class PermittedOperation(msgspec.Struct, frozen=True):
    """An operation that the account may call."""

    operation: str
    unit: str
    price: int
    is_open: bool


class AccountState(msgspec.Struct, frozen=True):
    """The account, its balances, and what it may call at which price."""

    account_id: str
    name: str
    balances: list[BalanceLeft]
    operations: list[PermittedOperation]


@endpoint("balance", "Balances, prices and permissions")
async def _balance(parts: AccountDependencies, _: Nothing, call: AccountCall) -> AccountState:
    found = await find_account(parts.database, call.account_id)
    states = await operation_states(parts.database)
    permitted = []
    for each in await list_permissions(parts.database, call.account_id):
        operation, state = BY_NAME.get(each.operation), states.get(each.operation)
        if operation is None:
            continue
        permitted.append(
            PermittedOperation(
                operation.name,
                operation.balance_unit,
                list_price(operation, states) if each.price is None else each.price,
                found.state == "open" and (state is None or not state.is_closed),
            )
        )
    balances = await list_balances(parts.database, call.account_id)
    left = [BalanceLeft(each.unit, each.amount, each.held, each.posted) for each in balances]
    return AccountState(found.id, found.name, left, permitted)


class LimitsLeft(msgspec.Struct, frozen=True):
    """The limits as the gateway that answers sees them."""

    limits: list[RateLimit]


@endpoint("limits", "What is left of the limits now")
async def _limits(_: AccountDependencies, __: Nothing, call: AccountCall) -> LimitsLeft:
    return LimitsLeft(list(call.rate_limits()))


class UsageRequest(msgspec.Struct, frozen=True):
    from_date: Annotated[date, Field(Day(), "The first day.")]
    to_date: Annotated[date, Field(Day(), f"The last day; at most {_USAGE_DAYS_MAX} days in all.")]


class UsageDay(msgspec.Struct, frozen=True):
    """The calls of one operation on one day: those charged, their amount, and all others."""

    date: str
    operation: str
    charged_calls: int
    amount: int
    other_calls: int


class Usage(msgspec.Struct, frozen=True):
    days: list[UsageDay]


# Grouped by quarter of an hour: every time zone begins its days at one.
_QUARTER_MS = 900_000
_noted = select(
    (refused_call.c.at_ms // _QUARTER_MS).label("quarter"),
    refused_call.c.operation,
    (1 + refused_call.c.more).label("calls"),
).where(
    refused_call.c.account_id == bindparam("of_account"),
    refused_call.c.is_test == 0,
    refused_call.c.at_ms >= bindparam("start_ms", type_=BigInteger),
    refused_call.c.at_ms < bindparam("end_ms", type_=BigInteger),
)


def _summed(calls: Select[Any]) -> Select[Any]:
    of = calls.subquery()
    summed = select(of.c.quarter, of.c.operation, func.sum(of.c.calls))
    return summed.group_by(of.c.quarter, of.c.operation)


_NOTED = Query(lambda: _summed(_noted))
# Those of them that were charged after all, which the sums of charges include.
_CHARGED = Query(lambda: _summed(_noted.join(entry, CHARGED_AFTER_ALL)))


async def _others_by_day(
    parts: AccountDependencies, account_id: str, first: date, last: date
) -> Counter[tuple[date, str]]:
    span = {
        "of_account": account_id,
        "start_ms": day_start_s(first, parts.zone) * 1000,
        "end_ms": day_end_s(last, parts.zone) * 1000,
    }
    found: Counter[tuple[date, str]] = Counter()
    for query, sign in ((_NOTED, 1), (_CHARGED, -1)):
        for quarter, name, count in await parts.database.fetch_long(query, account_id, **span):
            at_s = quarter * _QUARTER_MS // 1000
            found[datetime.fromtimestamp(at_s, parts.zone).date(), name] += sign * int(count)
    # Drops zero counts.
    return +found


@endpoint("usage", "Use by day and operation", Reason.WINDOW_BACKWARDS, Reason.WINDOW_TOO_LONG)
async def _usage(parts: AccountDependencies, request: UsageRequest, call: AccountCall) -> Usage:
    first, last, account_id = request.from_date, request.to_date, call.account_id
    days = (last - first).days + 1
    if days < 1:
        raise Refusal(Reason.WINDOW_BACKWARDS, start="from_date", end="to_date")
    if days > _USAGE_DAYS_MAX:
        span, longest = (Phrase(f"{each} days", f"{each} 天") for each in (days, _USAGE_DAYS_MAX))
        names = {"start": "from_date", "end": "to_date"}
        raise Refusal(Reason.WINDOW_TOO_LONG, **names, span=span, longest=longest)
    charged = await charged_by_day(parts.database, account_id, first, last, parts.zone)
    others = await _others_by_day(parts, account_id, first, last)
    calls, amounts = Counter[tuple[date, str]](), Counter[tuple[date, str]]()
    for (day, _, name), (count, amount) in charged.items():
        calls[day, name] += count
        amounts[day, name] += amount
    return Usage(
        [
            UsageDay(each[0].isoformat(), each[1], calls[each], amounts[each], others[each])
            for each in sorted({*calls, *others})
        ]
    )


ENDPOINTS = (_balance, _limits, _usage)
LIMITED = tuple(operation.name for operation in OPERATIONS)

"""Which account may call which operation, at which price and rate; which operations are open.

Each change first raises the directory's version, which works as a lock: a concurrent change waits
there and then sees this one, so that the trail records the true state before it.
"""

from collections.abc import Mapping

import msgspec
from sqlalchemy import bindparam, select

from tollway.contract.operation import Operation
from tollway.ledger import LedgerError
from tollway.ledger.accounts import lock_account
from tollway.ledger.runtime import UNATTENDED, Runtime
from tollway.ledger.trail import record_act
from tollway.store.cache_versions import directory_changed
from tollway.store.database import Reader, Transaction, transactional
from tollway.store.query import Query, equals, insert, upsert
from tollway.store.schema.ledger import operation_state, permission

# Far above any real price, and small enough for the integers of every engine.
PRICE_MAX = 10**12
RATE_MAX = 10**6


class Permission(msgspec.Struct, frozen=True):
    """An account's permission for one operation. None means the list price, or the default rate."""

    operation: str
    price: int | None
    rate_limit: int | None


class OperationState(msgspec.Struct, frozen=True):
    """What the operator set for one operation. No price means the descriptor's."""

    operation: str
    is_closed: bool
    price: int | None


_GRANT = upsert(permission)
_REVOKE = Query(
    lambda: permission.delete().where(
        equals(permission, account_id="account_id", operation="wanted")
    )
)
OF_ACCOUNT = Query(
    lambda: (
        select(permission.c.operation, permission.c.price, permission.c.rate_limit)
        .where(permission.c.account_id == bindparam("account_id"))
        .order_by(permission.c.operation)
    )
)
_STATES = Query(
    lambda: select(
        operation_state.c.operation, operation_state.c.is_closed, operation_state.c.price
    )
)
_insert_state = insert(operation_state)
_SET_CLOSED = Query(
    lambda: _insert_state.values(
        operation=bindparam("operation"), is_closed=bindparam("is_closed")
    ).on_conflict_do_update(
        index_elements=["operation"], set_={"is_closed": _insert_state.excluded.is_closed}
    )
)
_SET_PRICE = Query(
    lambda: _insert_state.values(
        operation=bindparam("operation"), is_closed=0, price=bindparam("price")
    ).on_conflict_do_update(
        index_elements=["operation"], set_={"price": _insert_state.excluded.price}
    )
)


@transactional
async def add_permission(
    transaction: Transaction, account_wanted: str, given: Permission, runtime: Runtime = UNATTENDED
) -> None:
    """Enables an operation for an account, or changes its price and rate there."""
    check_price(given.price)
    check_rate(given.rate_limit)
    found = await lock_account(transaction, account_wanted)
    if found.closed_at_s is not None:
        raise LedgerError(
            "Account {account} is closed: it can have no new permission.",
            account=account_wanted,
        )
    before = await _permission(transaction, found.id, given.operation)
    await transaction.execute(_GRANT, account_id=found.id, **msgspec.structs.asdict(given))
    subject = f"account {found.id}"
    await record_act(transaction, runtime, "permission add", subject, before=before, after=given)


@transactional
async def revoke_permission(
    transaction: Transaction, account_wanted: str, operation: str, runtime: Runtime = UNATTENDED
) -> None:
    found = await lock_account(transaction, account_wanted)
    before = await _permission(transaction, found.id, operation)
    if not await transaction.execute(_REVOKE, account_id=found.id, wanted=operation):
        raise LedgerError(
            "Account {account} has no permission for {operation}.",
            account=account_wanted,
            operation=operation,
        )
    subject = f"account {found.id}"
    await record_act(transaction, runtime, "permission revoke", subject, before=before)


async def _permission(reader: Reader, account_id: str, operation: str) -> Permission | None:
    listed = await list_permissions(reader, account_id)
    return next((each for each in listed if each.operation == operation), None)


async def list_permissions(reader: Reader, account_id: str) -> list[Permission]:
    return [Permission(*row) for row in await reader.fetch_all(OF_ACCOUNT, account_id=account_id)]


async def operation_states(reader: Reader) -> dict[str, OperationState]:
    rows = await reader.fetch_all(_STATES)
    return {name: OperationState(name, bool(closed), price) for name, closed, price in rows}


def list_price(operation: Operation, states: Mapping[str, OperationState]) -> int:
    """What a call costs the accounts that have no price of their own."""
    state = states.get(operation.name)
    return operation.default_price if state is None or state.price is None else state.price


@transactional
async def set_closed(
    transaction: Transaction, operation: str, *, is_closed: bool, runtime: Runtime = UNATTENDED
) -> None:
    act = "operation close" if is_closed else "operation open"
    await directory_changed(transaction)
    before = await operation_states(transaction)
    await transaction.execute(_SET_CLOSED, operation=operation, is_closed=int(is_closed))
    await _record_state(transaction, runtime, act, operation, before)


@transactional
async def set_price(
    transaction: Transaction, operation: str, price: int, runtime: Runtime = UNATTENDED
) -> None:
    check_price(price)
    await directory_changed(transaction)
    before = await operation_states(transaction)
    await transaction.execute(_SET_PRICE, operation=operation, price=price)
    await _record_state(transaction, runtime, "price set", operation, before)


async def _record_state(
    transaction: Transaction,
    runtime: Runtime,
    act: str,
    operation: str,
    before: Mapping[str, OperationState],
) -> None:
    after = await operation_states(transaction)
    await record_act(
        transaction,
        runtime,
        act,
        f"operation {operation}",
        before=before.get(operation),
        after=after[operation],
    )


def check_price(price: int | None) -> None:
    if price is not None and price < 0:
        raise LedgerError("A price is a whole number, 0 or more.", price=price)
    if price is not None and price > PRICE_MAX:
        raise LedgerError("A price is {most:,} at most.", most=PRICE_MAX, price=price)


def check_rate(rate: int | None) -> None:
    if rate is not None and rate < 1:
        raise LedgerError("A rate is a whole number of calls a second, at least 1.", rate=rate)
    if rate is not None and rate > RATE_MAX:
        raise LedgerError("A rate is {most:,} calls a second at most.", most=RATE_MAX, rate=rate)

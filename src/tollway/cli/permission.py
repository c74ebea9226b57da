"""`tollway permission`, `operation`, `price` and `credit`: which account may call which operation,
which operations are open, what they cost, and what an account has paid for."""

from collections.abc import Sequence
from typing import Annotated

import msgspec
import typer

from tollway.cli.command import Session, add_group, command
from tollway.cli.output import Output, Table, counted
from tollway.cli.parameters import AccountArgument, argument, option
from tollway.contract.language import in_english
from tollway.contract.operation import Operation, Unit
from tollway.ledger import LedgerError
from tollway.ledger.accounts import find_account
from tollway.ledger.entries import top_up
from tollway.ledger.permissions import (
    PRICE_MAX,
    RATE_MAX,
    Permission,
    add_permission,
    list_price,
    operation_states,
    revoke_permission,
    set_closed,
    set_price,
)
from tollway.operations.catalogue import BY_NAME, OPERATIONS
from tollway.store.database import Reader

commands = typer.Typer()
permissions = add_group(commands, "permission")
operations = add_group(commands, "operation")
prices = add_group(commands, "price")
credit = add_group(commands, "credit")

OperationArgument = Annotated[
    str, argument("OPERATION", "A name that `tollway operation list` shows.")
]


class OperationRow(msgspec.Struct, frozen=True):
    """An operation as it is for every account without terms of its own."""

    operation: str
    title: str
    method: str
    path: str
    is_closed: bool
    unit: str
    price: int
    default_price: int


@command(permissions, "add")
async def add(
    session: Session,
    account: AccountArgument,
    operation: OperationArgument,
    price: Annotated[
        int | None,
        option("Calls or credits a call costs; without it, the list price.", min=0, max=PRICE_MAX),
    ] = None,
    rate: Annotated[
        int | None, option("Calls a second; without it, the default rate.", min=1, max=RATE_MAX)
    ] = None,
) -> Output:
    """Let an account call an operation, at a price and rate of its own or the usual ones."""
    permission = Permission(_known_operation(operation).name, price, rate)
    database = await session.open()
    await add_permission(database, account, permission, session.runtime)
    found = await find_account(database, account)
    at_price = "the list price" if price is None else f"a price of {price:,}"
    at_rate = "the default rate" if rate is None else f"{counted(rate, 'call')} a second"
    granted = {"account_id": found.id, "operation": operation, "is_granted": True}
    return Output(
        {**granted, "price": price, "rate_limit": rate},
        f"Account {account} may call {operation}, at {at_price} and {at_rate}.",
    )


@command(permissions, "revoke")
async def revoke(
    session: Session, account: AccountArgument, operation: OperationArgument
) -> Output:
    """Take an operation away from an account."""
    _known_operation(operation)
    database = await session.open()
    await revoke_permission(database, account, operation, session.runtime)
    found = await find_account(database, account)
    revoked = {"account_id": found.id, "operation": operation, "is_granted": False}
    return Output(
        {**revoked, "price": None, "rate_limit": None},
        f"Account {account} may no longer call {operation}.",
    )


@command(operations, "list")
async def list_operations(session: Session) -> Output:
    """List the operations, and whether each is open."""
    rows = await _operation_rows(await session.open())
    table = Table(
        ("operation", "title", "path", "state"),
        [
            (
                row.operation,
                row.title,
                f"{row.method} {row.path}",
                "closed" if row.is_closed else "open",
            )
            for row in rows
        ],
        empty="This version has no operations.",
    )
    return Output(rows, table)


@command(operations, "open")
async def open_operation(session: Session, operation: OperationArgument) -> Output:
    """Open an operation again."""
    row = await _with_closed(session, operation, is_closed=False)
    return Output(row, f"Operation {operation} is open.")


@command(operations, "close")
async def close_operation(session: Session, operation: OperationArgument) -> Output:
    """Close an operation for every account: its calls are answered with code 203."""
    row = await _with_closed(session, operation, is_closed=True)
    return Output(row, f"Operation {operation} is closed: its calls are answered with code 203.")


@command(prices, "list")
async def list_prices(session: Session) -> Output:
    """List what a call costs where a permission sets no other price."""
    rows = await _operation_rows(await session.open())
    table = Table(
        ("operation", "price", "unit", "default"),
        [(row.operation, row.price, row.unit, row.default_price) for row in rows],
        empty="This version has no operations.",
    )
    return Output(rows, table)


@command(prices, "set")
async def set_price_(
    session: Session,
    operation: OperationArgument,
    price: Annotated[
        int, argument("PRICE", "Calls or credits a call costs.", min=0, max=PRICE_MAX)
    ],
) -> Output:
    """Set the list price of an operation: what it costs accounts without a price of their own."""
    _known_operation(operation)
    database = await session.open()
    await set_price(database, operation, price, session.runtime)
    row = await _operation_row(database, operation)
    cost = counted(price, row.unit.removesuffix("s"))
    return Output(row, f"A call of {operation} now costs {cost}.")


@command(credit, "add")
async def add_credit(
    session: Session,
    account: AccountArgument,
    amount: Annotated[int, argument("AMOUNT", "How many to add; a negative number corrects.")],
    calls: Annotated[
        str | None, option("Add calls of this operation instead of credits.", metavar="OPERATION")
    ] = None,
    note: Annotated[str, option("What the entry in the ledger says.")] = "",
    refund: Annotated[
        str | None,
        option("Refund the call with this X-Request-Id; a call is refunded once.", metavar="ID"),
    ] = None,
) -> Output:
    """Add credits to an account, or calls of an operation; 1 credit is 1 fen."""
    unit = "credits" if calls is None else _unit_of_calls(calls)
    database = await session.open()
    entry = await top_up(database, session.runtime, account, unit, amount, note, refund_of=refund)
    left = counted(entry.balance_after, "credit")
    if calls is not None:
        left = f"{counted(entry.balance_after, 'call')} of {calls}"
    return Output(entry, f"Account {account} now has {left}.")


def _known_operation(name: str) -> Operation:
    try:
        return BY_NAME[name]
    except KeyError:
        raise LedgerError(
            "There is no operation {operation}: choose one of {known}.",
            operation=name,
            known=", ".join(BY_NAME),
        ) from None


def _unit_of_calls(name: str) -> str:
    operation = BY_NAME.get(name)
    if operation is not None and operation.unit is Unit.CALLS:
        return operation.balance_unit
    paid_in_calls = ", ".join(each.name for each in OPERATIONS if each.unit is Unit.CALLS)
    if operation is None:
        raise LedgerError(
            "There is no operation {operation}: --calls takes {known}.",
            operation=name,
            known=paid_in_calls,
        )
    raise LedgerError(
        "Operation {operation} is paid in credits, as all but {known} are: leave --calls out to "
        "add credits.",
        operation=name,
        known=paid_in_calls,
    )


async def _with_closed(session: Session, name: str, *, is_closed: bool) -> OperationRow:
    _known_operation(name)
    database = await session.open()
    await set_closed(database, name, is_closed=is_closed, runtime=session.runtime)
    return await _operation_row(database, name)


async def _operation_row(reader: Reader, name: str) -> OperationRow:
    return next(row for row in await _operation_rows(reader) if row.operation == name)


async def _operation_rows(reader: Reader) -> Sequence[OperationRow]:
    states = await operation_states(reader)
    rows = []
    for operation in OPERATIONS:
        state = states.get(operation.name)
        rows.append(
            OperationRow(
                operation=operation.name,
                title=in_english(operation.title),
                method=operation.method,
                path=operation.path,
                is_closed=state is not None and state.is_closed,
                unit=operation.unit.value,
                price=list_price(operation, states),
                default_price=operation.default_price,
            )
        )
    return rows

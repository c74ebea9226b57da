"""`tollway operation` and `tollway price`: which operations are open, and what they cost."""

from collections.abc import Sequence
from typing import Annotated

import msgspec
import typer

from tollway.cli.context import Session, run
from tollway.cli.options import (
    PRICE_MAX,
    DatabaseOption,
    JsonOption,
    OperationArgument,
    known_operation,
)
from tollway.cli.output import print_json, print_sentence, print_table
from tollway.ledger.permissions import operation_states, set_closed, set_price
from tollway.operations.catalogue import OPERATIONS
from tollway.store.database import Reader

operations = typer.Typer(help="List, open and close operations.", no_args_is_help=True)
prices = typer.Typer(help="List and set the common prices.", no_args_is_help=True)


class OperationRow(msgspec.Struct, frozen=True):
    """An operation as it stands for every account without terms of its own."""

    operation: str
    title: str
    method: str
    path: str
    is_closed: bool
    unit: str
    price: int
    default_price: int


def register(app: typer.Typer) -> None:
    app.add_typer(operations, name="operation")
    app.add_typer(prices, name="price")


@operations.command("list")
def list_operations(database: DatabaseOption = None, as_json: JsonOption = False) -> None:
    """List the operations, and whether each is open."""
    rows = run(database, lambda at: _operation_rows(at.database))
    if as_json:
        print_json(rows)
    else:
        print_table(
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


@operations.command("open")
def open_operation(
    operation: OperationArgument, database: DatabaseOption = None, as_json: JsonOption = False
) -> None:
    """Open an operation again."""
    row = _with_closed(database, operation, is_closed=False)
    if as_json:
        print_json(row)
    else:
        print_sentence(f"Operation {operation} is open.")


@operations.command("close")
def close_operation(
    operation: OperationArgument, database: DatabaseOption = None, as_json: JsonOption = False
) -> None:
    """Close an operation for every account: its calls are answered with code 203."""
    row = _with_closed(database, operation, is_closed=True)
    if as_json:
        print_json(row)
    else:
        print_sentence(f"Operation {operation} is closed: its calls are answered with code 203.")


@prices.command("list")
def list_prices(database: DatabaseOption = None, as_json: JsonOption = False) -> None:
    """List what a call costs where a grant sets no other price."""
    rows = run(database, lambda at: _operation_rows(at.database))
    if as_json:
        print_json(rows)
    else:
        print_table(
            ("operation", "price", "unit", "default"),
            [(row.operation, row.price, row.unit, row.default_price) for row in rows],
            empty="This version has no operations.",
        )


@prices.command("set")
def set_price_(
    operation: OperationArgument,
    price: Annotated[
        int,
        typer.Argument(
            metavar="PRICE", min=0, max=PRICE_MAX, help="Calls or credits a call costs."
        ),
    ],
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Set the common price of an operation."""
    known_operation(operation)

    async def work(at: Session) -> OperationRow:
        await set_price(at.database, operation, price)
        return await _operation_row(at.database, operation)

    row = run(database, work)
    if as_json:
        print_json(row)
    else:
        print_sentence(f"A call of {operation} now costs {price:,} {row.unit}.")


def _with_closed(database: str | None, name: str, *, is_closed: bool) -> OperationRow:
    known_operation(name)

    async def work(at: Session) -> OperationRow:
        await set_closed(at.database, name, is_closed=is_closed)
        return await _operation_row(at.database, name)

    return run(database, work)


async def _operation_row(reader: Reader, name: str) -> OperationRow:
    return next(row for row in await _operation_rows(reader) if row.operation == name)


async def _operation_rows(reader: Reader) -> Sequence[OperationRow]:
    states = await operation_states(reader)
    rows = []
    for operation in OPERATIONS:
        state = states.get(operation.name)
        set_here = None if state is None else state.price
        rows.append(
            OperationRow(
                operation=operation.name,
                title=operation.title,
                method=operation.method,
                path=operation.path,
                is_closed=state is not None and state.is_closed,
                unit=operation.unit.value,
                price=operation.default_price if set_here is None else set_here,
                default_price=operation.default_price,
            )
        )
    return rows

"""`tollway grant` and `tollway revoke-grant`: which account may call which operation."""

from typing import Annotated

import msgspec
import typer

from tollway.cli.context import Session, run
from tollway.cli.options import (
    PRICE_MAX,
    RATE_MAX,
    AccountArgument,
    DatabaseOption,
    JsonOption,
    OperationArgument,
    known_operation,
)
from tollway.cli.output import print_json, print_sentence
from tollway.ledger.accounts import find_account
from tollway.ledger.permissions import Permission, grant, revoke_grant

group = typer.Typer()


class GrantChange(msgspec.Struct, frozen=True):
    """What a command did to one account's permission. No price or rate means the common one."""

    account_id: str
    operation: str
    is_granted: bool
    price: int | None = None
    rate_limit: int | None = None


def register(app: typer.Typer) -> None:
    app.add_typer(group)


@group.command("grant")
def grant_(
    account: AccountArgument,
    operation: OperationArgument,
    price: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=PRICE_MAX,
            help="Calls or credits a call costs; without this, the common price.",
            show_default=False,
        ),
    ] = None,
    rate: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=RATE_MAX,
            help="Calls a second; without this, the common rate.",
            show_default=False,
        ),
    ] = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let an account call an operation, at a price and rate of its own or the common ones."""
    given = Permission(known_operation(operation).name, price, rate)

    async def work(at: Session) -> GrantChange:
        await grant(at.database, account, given)
        found = await find_account(at.database, account)
        return GrantChange(found.id, operation, True, price, rate)

    change = run(database, work)
    if as_json:
        print_json(change)
    else:
        at_price = "the common price" if price is None else f"a price of {price:,}"
        at_rate = "the common rate" if rate is None else f"{rate:,} calls a second"
        print_sentence(f"Account {account} may call {operation}, at {at_price} and {at_rate}.")


@group.command("revoke-grant")
def revoke_grant_(
    account: AccountArgument,
    operation: OperationArgument,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take an operation away from an account."""
    known_operation(operation)

    async def work(at: Session) -> GrantChange:
        await revoke_grant(at.database, account, operation)
        found = await find_account(at.database, account)
        return GrantChange(found.id, operation, False)

    change = run(database, work)
    if as_json:
        print_json(change)
    else:
        print_sentence(f"Account {account} may no longer call {operation}.")

"""`tollway credit`: what an account has paid for."""

from typing import Annotated

import typer

from tollway.cli.context import run
from tollway.cli.options import AccountArgument, DatabaseOption, JsonOption, known_operation
from tollway.cli.output import print_json, print_sentence
from tollway.contract.operation import Unit
from tollway.ledger import LedgerError
from tollway.ledger.entries import top_up

group = typer.Typer(help="Add credits, or calls of an operation.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="credit")


@group.callback()
def _group() -> None:
    """Makes `add` a command of its own even while it is the only one."""


# An amount may begin with a minus sign, which must not be taken for an option.
@group.command("add", context_settings={"ignore_unknown_options": True})
def add(
    account: AccountArgument,
    amount: Annotated[
        int,
        typer.Argument(
            metavar="AMOUNT",
            help="How many to add; a negative number corrects.",
            show_default=False,
        ),
    ],
    calls: Annotated[
        str | None,
        typer.Option(
            metavar="OPERATION",
            help="Add calls of this operation instead of credits.",
            show_default=False,
        ),
    ] = None,
    note: Annotated[
        str, typer.Option(help="What the entry in the books says.", show_default=False)
    ] = "",
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add credits to an account, or calls of an operation; 1 credit is 1 fen."""
    unit, shown_unit = "credits", "credits"
    if calls is not None:
        unit, shown_unit = _unit_of_calls(calls), f"calls of {calls}"
    entry = run(database, lambda at: top_up(at.database, at.runtime, account, unit, amount, note))
    if as_json:
        print_json(entry)
    else:
        print_sentence(f"Account {account} now has {entry.balance_after:,} {shown_unit}.")


def _unit_of_calls(name: str) -> str:
    operation = known_operation(name)
    if operation.unit is not Unit.CALLS:
        raise LedgerError(f"Operation {name} is paid in credits: leave --calls out.")
    return operation.balance_unit

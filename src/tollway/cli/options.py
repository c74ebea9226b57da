"""The options and arguments that commands share, so that each reads the same everywhere."""

from typing import Annotated

import typer

from tollway.contract.operation import Operation
from tollway.ledger import LedgerError
from tollway.operations.catalogue import BY_NAME

DatabaseOption = Annotated[
    str | None,
    typer.Option(
        "--database",
        metavar="URL",
        help="The database, as sqlite:///FILE or postgresql://…; else the one of the settings.",
        show_default=False,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
AccountArgument = Annotated[
    str, typer.Argument(metavar="ACCOUNT", help="The account's name or id.", show_default=False)
]
OperationArgument = Annotated[
    str, typer.Argument(metavar="OPERATION", help="The operation's name.", show_default=False)
]
CarrierArgument = Annotated[
    str, typer.Argument(metavar="CARRIER", help="The carrier's wp_code.", show_default=False)
]

# Far above any real price, and small enough for every engine's whole numbers.
PRICE_MAX = 10**12
RATE_MAX = 10**6


def known_operation(name: str) -> Operation:
    """The operation of this name."""
    try:
        return BY_NAME[name]
    except KeyError:
        known = ", ".join(BY_NAME)
        raise LedgerError(f"There is no operation {name}: there is {known}.") from None

"""The arguments and options that commands share, so that each reads the same everywhere."""

from pathlib import Path
from typing import Annotated, Any

import typer

DAY_S = 86_400
DAYS_MAX = 36_500
_ROWS_MAX = 10_000


def argument(metavar: str, meaning: str, **more: Any) -> Any:
    """How an argument is declared: its name in the help, and what it is."""
    return typer.Argument(metavar=metavar, help=meaning, **{"show_default": False, **more})


def option(meaning: str, *names: str, **more: Any) -> Any:
    """How an option is declared: what it is for; without a name it has that of its parameter."""
    return typer.Option(*names, help=meaning, **{"show_default": False, **more})


DatabaseOption = Annotated[
    str | None,
    option(
        "The database, as sqlite:///FILE or postgresql://…; without it, that of the settings.",
        "--database",
        metavar="URL",
    ),
]
JsonOption = Annotated[bool, option("Print JSON and nothing else.", "--json")]
YesOption = Annotated[bool, option("Do not ask whether you are sure.", "--yes")]
AccountArgument = Annotated[str, argument("ACCOUNT", "The account's name or id.")]
CarrierArgument = Annotated[str, argument("CARRIER", "The carrier's wp_code.", parser=str.upper)]
LimitOption = Annotated[int, option("How many at most.", min=1, max=_ROWS_MAX, show_default=True)]
RejectsOption = Annotated[
    Path | None, option("Where to write wrong records; without it, FILE.rejected.jsonl.")
]

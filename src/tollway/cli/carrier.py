"""`tollway carrier`: the carriers that waybills can be issued for."""

from typing import Annotated

import typer

from tollway.carriers.areas import AreaKind, ServiceArea
from tollway.carriers.carriers import Carrier, add_carrier, list_carriers
from tollway.cli.context import run
from tollway.cli.errors import UsageError
from tollway.cli.options import CarrierArgument, DatabaseOption, JsonOption
from tollway.cli.output import print_json, print_sentence, print_table

group = typer.Typer(help="Add and list carriers.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="carrier")


@group.command("add")
def add(
    carrier: CarrierArgument,
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="The name on its labels.", show_default=False),
    ],
    number_format: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="REGEX",
            help="What its numbers look like, or S10; a well-known carrier needs none.",
            show_default=False,
        ),
    ] = None,
    served: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PROVINCE",
            help="Deliver only there; may be given several times.",
            show_default=False,
        ),
    ] = None,
    not_served: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PROVINCE",
            help="Deliver everywhere but there; may be given several times.",
            show_default=False,
        ),
    ] = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add a carrier, or change one."""
    area = _area(served or [], not_served or [])
    added = run(database, lambda at: add_carrier(at.database, carrier, name, number_format, area))
    if as_json:
        print_json(added)
    else:
        print_sentence(
            f"Carrier {added.wp_code} delivers {_shown(added.area)}. "
            f"Next: `tollway pool add {added.wp_code} --file FILE` loads its numbers."
        )


@group.command("list")
def list_(database: DatabaseOption = None, as_json: JsonOption = False) -> None:
    """List the carriers."""
    found = run(database, lambda at: list_carriers(at.database))
    if as_json:
        print_json(found)
    else:
        print_table(
            ("carrier", "name", "number format", "delivers"),
            [_row(each) for each in found],
            empty="There are no carriers: add one with `tollway carrier add`.",
        )


def _area(served: list[str], not_served: list[str]) -> ServiceArea:
    if served and not_served:
        raise UsageError("Say either where the carrier delivers or where it does not, not both.")
    if served:
        return ServiceArea(AreaKind.ONLY, tuple(served))
    return ServiceArea(AreaKind.EXCEPT if not_served else AreaKind.ALL, tuple(not_served))


def _row(carrier: Carrier) -> tuple[str, str, str, str]:
    return carrier.wp_code, carrier.name, carrier.number_format, _shown(carrier.area)


def _shown(area: ServiceArea) -> str:
    if area.kind is AreaKind.ALL:
        return "everywhere"
    listed = ", ".join(area.provinces)
    return f"only to {listed}" if area.kind is AreaKind.ONLY else f"everywhere but to {listed}"

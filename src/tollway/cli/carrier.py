"""`tollway carrier`: the carriers that waybills can be issued for."""

from typing import Annotated

import msgspec
import typer

from tollway.carriers.carrier_links import CarrierLink, list_links
from tollway.carriers.carriers import AreaKind, ServiceArea, add_carrier, list_carriers
from tollway.carriers.connectors.protocols import PROTOCOLS
from tollway.cli import carrier_link
from tollway.cli.context import Session, run
from tollway.cli.errors import UsageError
from tollway.cli.options import CarrierArgument, DatabaseOption, JsonOption
from tollway.cli.output import print_json, print_sentence, print_table

group = typer.Typer(help="Add, connect and list carriers.", no_args_is_help=True)


class CarrierLine(msgspec.Struct, frozen=True):
    """A carrier as it is listed; without a link its numbers come from the pool."""

    wp_code: str
    name: str
    number_format: str
    area: ServiceArea
    link: CarrierLink | None


def register(app: typer.Typer) -> None:
    carrier_link.register(group)
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
    """List the carriers, and where the numbers of each come from."""
    found = run(database, _lines)
    if as_json:
        print_json(found)
    else:
        print_table(
            ("carrier", "name", "number format", "delivers", "numbers from"),
            [_row(each) for each in found],
            empty="There are no carriers: add one with `tollway carrier add`.",
        )


async def _lines(at: Session) -> list[CarrierLine]:
    links = {each.wp_code: each for each in await list_links(at.database)}
    return [
        CarrierLine(each.wp_code, each.name, each.number_format, each.area, links.get(each.wp_code))
        for each in await list_carriers(at.database)
    ]


def _area(served: list[str], not_served: list[str]) -> ServiceArea:
    if served and not_served:
        raise UsageError("Say either where the carrier delivers or where it does not, not both.")
    if served:
        return ServiceArea(AreaKind.ONLY, tuple(served))
    return ServiceArea(AreaKind.EXCEPT if not_served else AreaKind.ALL, tuple(not_served))


def _row(line: CarrierLine) -> tuple[str, ...]:
    source = f"{line.link.url} ({_spoken(line.link.protocol)})" if line.link else "pool"
    return line.wp_code, line.name, line.number_format, _shown(line.area), source


def _spoken(protocol: str) -> str:
    return protocol if protocol in PROTOCOLS.names else f"{protocol}, not installed"


def _shown(area: ServiceArea) -> str:
    if area.kind is AreaKind.ALL:
        return "everywhere"
    listed = ", ".join(area.provinces)
    return f"only to {listed}" if area.kind is AreaKind.ONLY else f"everywhere but to {listed}"

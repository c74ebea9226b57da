"""`tollway waybill`: looking at waybills, printing them again, cancelling them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated
from zoneinfo import ZoneInfo

import msgspec
import typer

from tollway.carriers.connectors.http_exchange import open_client
from tollway.carriers.connectors.remotes import Remotes
from tollway.carriers.labels.print_data import Label, label_of
from tollway.carriers.reconciling import tell_carrier
from tollway.carriers.waybills import (
    StoredWaybill,
    Waybill,
    cancel_waybill,
    find_by_number,
    list_waybills,
)
from tollway.cli.context import Session, run
from tollway.cli.errors import UsageError
from tollway.cli.files import new_file
from tollway.cli.options import DatabaseOption, JsonOption
from tollway.cli.output import print_json, print_sentence, print_table, shown_time
from tollway.ledger.accounts import find_account

group = typer.Typer(help="List, show, print and cancel waybills.", no_args_is_help=True)

NumberArgument = Annotated[
    str, typer.Argument(metavar="NUMBER", help="The waybill's number.", show_default=False)
]
CarrierOption = Annotated[
    str | None,
    typer.Option(
        "--carrier",
        metavar="WP_CODE",
        help="Its carrier, where several have this number.",
        show_default=False,
    ),
]
_LIMIT_MAX = 10_000


class WaybillSheet(msgspec.Struct, frozen=True):
    """Everything there is to see about one waybill."""

    waybill: Waybill
    label: Label


class LabelFile(msgspec.Struct, frozen=True):
    """The label that was written."""

    number: str
    file: str
    bytes: int


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="waybill")


@group.command("list")
def list_(
    account: Annotated[
        str | None,
        typer.Option(help="Only those of the account with this name or id.", show_default=False),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=_LIMIT_MAX, help="How many at most.")] = 20,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the newest waybills."""

    async def work(at: Session) -> tuple[ZoneInfo, Sequence[Waybill]]:
        account_id = None if account is None else (await find_account(at.database, account)).id
        return at.settings.zone, await list_waybills(at.database, account_id, limit)

    zone, found = run(database, work)
    if as_json:
        print_json(found)
    else:
        _print_waybills(found, zone)


@group.command("show")
def show(
    number: NumberArgument,
    carrier: CarrierOption = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one waybill with what stands on its label."""

    async def work(at: Session) -> tuple[ZoneInfo, WaybillSheet]:
        stored = await find_by_number(at.database, number, carrier)
        return at.settings.zone, WaybillSheet(stored.waybill, await _label(at, stored))

    zone, sheet = run(database, work)
    if as_json:
        print_json(sheet)
        return
    _print_waybills([sheet.waybill], zone)
    for mark, party in (("To", sheet.label.recipient), ("From", sheet.label.sender)):
        where = party.address
        address = f"{where.province} {where.city} {where.district} {where.detail}"
        print_sentence(f"{mark}: {party.name}, {party.mobile}, {address}")


@group.command("label")
def label(
    number: NumberArgument,
    out: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="The file to make; its name ends in .pdf, .png or .zpl.",
            show_default=False,
        ),
    ],
    carrier: CarrierOption = None,
    font: Annotated[
        Path | None,
        typer.Option(help="A font with Chinese characters; else one is found.", show_default=False),
    ] = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a waybill's label as PDF, PNG or ZPL."""
    # Imported here: every other command would pay for loading the drawing.
    from tollway.carriers.labels.fonts import find_fonts
    from tollway.carriers.labels.formats import WRITERS

    write = WRITERS.get(out.suffix.lower())
    if write is None:
        raise UsageError(f"{out.name} ends in none of {', '.join(WRITERS)}: name it so.")
    fonts = find_fonts(font)

    async def work(at: Session) -> Label:
        return await _label(at, await find_by_number(at.database, number, carrier))

    content = write(run(database, work), fonts)
    with new_file(out) as unfinished:
        unfinished.write_bytes(content)
    if as_json:
        print_json(LabelFile(number, str(out), len(content)))
    else:
        print_sentence(f"The label of waybill {number} is in {out}.")


@group.command("cancel")
def cancel(
    number: NumberArgument,
    carrier: CarrierOption = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Cancel a waybill: its order can get another one, its number is never used again.

    A waybill that a remote carrier has issued is cancelled there first.
    """

    async def work(at: Session) -> Waybill:
        remotes = Remotes(open_client())
        try:
            found = (await find_by_number(at.database, number, carrier)).waybill
            await tell_carrier(at.database, remotes, await at.sealer(), found)
            return await cancel_waybill(at.database, number, found.wp_code, at.runtime.at_s())
        finally:
            await remotes.close()

    cancelled = run(database, work)
    if as_json:
        print_json(cancelled)
    else:
        print_sentence(f"Waybill {number} is cancelled: order {cancelled.order_sn} has none now.")


async def _label(at: Session, stored: StoredWaybill) -> Label:
    vault = await at.vault()
    return label_of(stored.print_data(vault), vault.label_signer)


def _print_waybills(waybills: Sequence[Waybill], zone: ZoneInfo) -> None:
    print_table(
        ("asked", "carrier", "number", "state", "order", "shop", "account"),
        [
            (
                shown_time(each.asked_at_s, zone),
                each.wp_code,
                each.number or "",
                each.state,
                each.order_sn,
                each.owner_id,
                each.account_id,
            )
            for each in waybills
        ],
        empty="No waybill was issued yet.",
        times_in=zone,
    )

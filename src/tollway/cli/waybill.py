"""`tollway waybill`: looking at waybills, printing them again, cancelling them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from tollway.carriers.connectors.remote_carriers import Remotes
from tollway.carriers.labels.print_data import Label, label_of
from tollway.carriers.reconciling import cancel_at_carrier
from tollway.carriers.vault import Vault, load_vault
from tollway.carriers.waybills import (
    StoredWaybill,
    Waybill,
    cancel_waybill,
    find_by_number,
    list_waybills,
    print_waybills,
)
from tollway.cli.command import Session, UsageError, add_group, command
from tollway.cli.files import new_file
from tollway.cli.output import Output, Table, Time
from tollway.cli.parameters import LimitOption, argument, option
from tollway.ledger.accounts import find_account
from tollway.store.open import key_path

commands = typer.Typer()
waybills = add_group(commands, "waybill")

NumberArgument = Annotated[str, argument("NUMBER", "The waybill's number.")]
CarrierOption = Annotated[
    str | None,
    option("Its carrier, where several have this number.", "--carrier", metavar="WP_CODE"),
]


@command(waybills, "list")
async def list_(
    session: Session,
    account: Annotated[
        str | None, option("Only those of this account, by name or id.", metavar="ACCOUNT")
    ] = None,
    limit: LimitOption = 20,
) -> Output:
    """List the newest waybills."""
    database = await session.open()
    account_id = None if account is None else (await find_account(database, account)).id
    found = await list_waybills(database, account_id, limit)
    return Output(found, _table_of(found))


@command(waybills, "show")
async def show(session: Session, number: NumberArgument, carrier: CarrierOption = None) -> Output:
    """Show one waybill with what its label says."""
    stored = await find_by_number(await session.open(), number, carrier)
    label = await _label(session, stored)
    parties = [
        f"{mark}: {party.name}, {party.mobile}, {party.address}"
        for mark, party in (("To", label.recipient), ("From", label.sender))
    ]
    value = {"waybill": stored.waybill, "label": label}
    return Output(value, _table_of([stored.waybill]), *parties)


@command(waybills, "label")
async def write_label(
    session: Session,
    number: NumberArgument,
    out: Annotated[
        Path, option("The file to make; its name ends in .pdf, .png or .zpl.", metavar="FILE")
    ],
    carrier: CarrierOption = None,
    font: Annotated[
        Path | None, option("A font with Chinese characters; without it, one is searched for.")
    ] = None,
) -> Output:
    """Write a waybill's label as PDF, PNG or ZPL."""
    from tollway.carriers.labels.drawing import find_fonts
    from tollway.carriers.labels.formats import WRITERS
    from tollway.carriers.labels.layout import style_of

    write = WRITERS.get(out.suffix.lower())
    if write is None:
        raise UsageError(f"{out.name} ends in none of {', '.join(WRITERS)}: name it so.")
    fonts = find_fonts(font)
    database = await session.open()
    found = await find_by_number(database, number, carrier)
    # The file comes first, because once a waybill counts as printed, its receiver cannot change.
    with new_file(out) as unfinished:
        (stored,) = await print_waybills(database, [found], session.runtime)
        content = write(await _label(session, stored), fonts, style_of(session.settings))
        unfinished.write_bytes(content)
    value = {"number": number, "file": str(out), "bytes": len(content)}
    return Output(value, f"The label of waybill {number} is in {out}.")


@command(waybills, "cancel")
async def cancel(session: Session, number: NumberArgument, carrier: CarrierOption = None) -> Output:
    """Cancel a waybill: its order can get another one, its number is never used again.

    A waybill that a remote carrier has issued is cancelled there first.
    """
    database = await session.open()
    remotes = Remotes()
    try:
        found = (await find_by_number(database, number, carrier)).waybill
        await cancel_at_carrier(database, remotes, await session.sealer(), found)
        cancelled = await cancel_waybill(database, number, found.wp_code, session.runtime)
    finally:
        await remotes.close()
    return Output(
        cancelled, f"Waybill {number} is cancelled: order {cancelled.order_sn} has none now."
    )


async def vault_of(session: Session) -> Vault:
    """The keys of waybills; the key file is made if there is none."""
    await session.use_key_file()
    return load_vault(key_path(session.settings.database, session.settings.key_file))


async def _label(session: Session, stored: StoredWaybill) -> Label:
    vault = await vault_of(session)
    return label_of(stored.own_print_data(vault), vault.label_signer)


def _table_of(found: Sequence[Waybill]) -> Table:
    return Table(
        ("asked", "carrier", "number", "state", "order", "shop", "account"),
        [
            (
                Time(each.asked_at_s),
                each.wp_code,
                each.number or "",
                each.state,
                each.order_sn,
                each.owner_id,
                each.account_id,
            )
            for each in found
        ],
        empty="No waybill was issued yet.",
    )

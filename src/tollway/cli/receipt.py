"""`tollway receipt`: what became of one call."""

from typing import Annotated
from zoneinfo import ZoneInfo

import typer

from tollway.cli.context import Session, run
from tollway.cli.options import DatabaseOption, JsonOption
from tollway.cli.output import Cell, print_json, print_table, shown_time
from tollway.contract.receipt import Receipt, ReceiptHold
from tollway.ledger import LedgerError
from tollway.ledger.receipts import find_receipt

group = typer.Typer()


def register(app: typer.Typer) -> None:
    app.add_typer(group)


@group.command("receipt")
def receipt(
    request_id: Annotated[
        str,
        typer.Argument(metavar="ID", help="The call's X-Request-Id.", show_default=False),
    ],
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what one call was answered, what it was charged, and why."""

    async def work(at: Session) -> tuple[ZoneInfo, Receipt]:
        found = await find_receipt(at.database, None, request_id)
        if found is None:
            raise LedgerError(
                f"There is no receipt {request_id}: test calls and calls without a valid token "
                "have none, and those of calls that were not charged are kept for "
                f"{at.settings.receipt_days} days."
            )
        return at.settings.zone, found

    zone, found = run(database, work)
    if as_json:
        print_json(found)
    else:
        print_table(("receipt", found.request_id), _rows(found, zone), empty="", times_in=zone)


def _rows(found: Receipt, zone: ZoneInfo) -> list[tuple[str, Cell]]:
    """What there is to tell, line by line; what a call does not have is left out."""
    answered = None if found.code is None else f"code {found.code} ({found.reason})"
    rows: list[tuple[str, Cell]] = [
        ("time", shown_time(found.at_ms / 1000, zone)),
        ("account", found.account_id),
        ("token", found.token_id),
        ("operation", found.operation),
        ("answered", answered),
        ("outcome", found.outcome.replace("_", " ")),
        ("why", found.why),
        ("amount", f"{found.amount:,} {found.unit}" if found.unit else "0"),
        ("balance before", _number(found.balance_before)),
        ("balance after", _number(found.balance_after)),
        ("replay of", found.replay_of),
    ]
    if found.consent is not None:
        used = found.consent
        rows.append(("consent", f"{used.consent_id} of {used.owner_kind} {used.owner_id}"))
    if found.hold is not None:
        rows.append(("hold", _hold(found.hold, zone)))
    if found.waybill is not None:
        made = found.waybill
        rows.append(("waybill", f"{made.wp_code} {made.number or made.object_id}, {made.state}"))
    return [(name, value) for name, value in rows if value is not None]


def _number(amount: int | None) -> str | None:
    return None if amount is None else f"{amount:,}"


def _hold(held: ReceiptHold, zone: ZoneInfo) -> str:
    if held.settled_at_ms is None:
        return f"{held.id}, {held.state} until {shown_time(held.deadline_at_ms / 1000, zone)}"
    return f"{held.id}, {held.state} {shown_time(held.settled_at_ms / 1000, zone)}"

"""`tollway ledger`: reading the books and handing them to an accountant."""

import heapq
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated
from zoneinfo import ZoneInfo

import msgspec
import typer

from tollway.cli.context import Session, run
from tollway.cli.errors import UsageError
from tollway.cli.export import Format, destination, entry_writer, pages_from_oldest
from tollway.cli.options import AccountArgument, DatabaseOption, JsonOption
from tollway.cli.output import print_json, print_sentence, print_table, shown_time
from tollway.ledger import LedgerError
from tollway.ledger.accounts import Account, find_account
from tollway.ledger.entries import Entry, entries_of_request, list_balances, newest_entries
from tollway.store.database import Reader

_LIMIT_MAX = 10_000

group = typer.Typer(help="Show and export the books.", no_args_is_help=True)

UnitOption = Annotated[
    str | None,
    typer.Option(
        metavar="UNIT",
        help="Only credits, or calls:OPERATION; without this, all of them.",
        show_default=False,
    ),
]


class Export(msgspec.Struct, frozen=True):
    """What was written, and where to."""

    account_id: str
    file: str
    format: Format
    entries: int


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="ledger")


@group.command("show")
def show(
    account: Annotated[
        str | None,
        typer.Argument(metavar="[ACCOUNT]", help="The account's name or id.", show_default=False),
    ] = None,
    request: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            help="Show what the call with this X-Request-Id was charged.",
            show_default=False,
        ),
    ] = None,
    unit: UnitOption = None,
    limit: Annotated[int, typer.Option(min=1, max=_LIMIT_MAX, help="How many at most.")] = 20,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show an account's newest entries, or those of one call."""
    if (account is None) == (request is None):
        raise UsageError("Name either an account or, with --request, one call.")

    async def work(at: Session) -> tuple[ZoneInfo, Sequence[Entry]]:
        if request is not None:
            return at.settings.zone, await entries_of_request(at.database, request)
        assert account is not None
        return at.settings.zone, await _newest(at.database, account, unit, limit)

    zone, entries = run(database, work)
    if as_json:
        print_json(entries)
    elif request is None:
        _print_entries(entries, zone, empty=f"Account {account} has no entries yet.")
    else:
        _print_entries(entries, zone, empty=f"Nothing was charged for request {request}.")


@group.command("export")
def export(
    account: AccountArgument,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The file to make; without this, standard output.",
            show_default=False,
        ),
    ] = None,
    is_lines: Annotated[
        bool, typer.Option("--lines", help="Write JSON Lines instead of CSV.")
    ] = False,
    unit: UnitOption = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write all entries of an account, the oldest first, as CSV or JSON Lines.

    With --json, the entries are one JSON array; or, when they go to a file, one JSON object tells
    what was written.
    """
    format_ = Format.JSON_LINES if is_lines else Format.CSV
    if as_json and out is None:
        format_ = Format.JSON_ARRAY

    async def work(at: Session) -> Export:
        found = await find_account(at.database, account)
        units = await _units(at.database, found, unit)
        written = 0
        with destination(out) as stream:
            writer = entry_writer(format_, stream, at.settings.zone)
            for each in units:
                async for page in pages_from_oldest(at.database, found.id, each):
                    writer.write(page)
                    written += len(page)
            writer.finish()
        return Export(found.id, str(out), format_, written)

    made = run(database, work)
    if out is None:
        return
    if as_json:
        print_json(made)
    else:
        print_sentence(f"{made.entries:,} entries of account {account} are in {out}.")


async def _newest(reader: Reader, wanted: str, unit: str | None, limit: int) -> Sequence[Entry]:
    account = await find_account(reader, wanted)
    pages = [
        await newest_entries(reader, account.id, each, limit)
        for each in await _units(reader, account, unit)
    ]
    # Merged and not sorted: within a unit the numbers tell the order, even if the clock was set.
    merged = heapq.merge(*pages, key=lambda entry: -entry.at_ms)
    return list(islice(merged, limit))


async def _units(reader: Reader, account: Account, wanted: str | None) -> list[str]:
    """The units an account has entries of, or the one of them that is wanted."""
    units = [balance.unit for balance in await list_balances(reader, account.id)]
    if wanted is None:
        return units
    if wanted not in units:
        known = ", ".join(units) or "nothing yet"
        raise LedgerError(f"Account {account.name} has no {wanted}: it has {known}.")
    return [wanted]


def _print_entries(entries: Sequence[Entry], zone: ZoneInfo, *, empty: str) -> None:
    print_table(
        ("time", "unit", "number", "kind", "amount", "balance", "request", "note"),
        [
            (
                shown_time(entry.at_ms / 1000, zone),
                entry.unit,
                entry.number,
                entry.kind,
                entry.amount,
                entry.balance_after,
                entry.request_id,
                entry.note,
            )
            for entry in entries
        ],
        empty=empty,
        times_in=zone,
    )

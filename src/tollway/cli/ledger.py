"""`tollway ledger` and `tollway receipt`: reading entries, handing them to an accountant, a month's
statement, and what became of one call."""

import heapq
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Annotated, TextIO
from zoneinfo import ZoneInfo

import msgspec
import typer

from tollway.cli.command import CommandError, Session, UsageError, add_group, command
from tollway.cli.files import new_file
from tollway.cli.output import Cell, Output, Table, Time, counted
from tollway.cli.parameters import AccountArgument, LimitOption, argument, option
from tollway.cli.statements import DELETED, span_of, statement_of_one, statements_of_all
from tollway.contract.receipt import Receipt, ReceiptHold
from tollway.ledger import LedgerError
from tollway.ledger.accounts import Account, find_account
from tollway.ledger.csv_rows import CsvWriter
from tollway.ledger.entries import Entry, entries_of_request, list_balances, newest_entries
from tollway.ledger.entry_days import numbers_of_span
from tollway.ledger.receipts import find_receipt
from tollway.ledger.statements import has_deleted, last_deleted
from tollway.store.database import Reader

_PAGE_ENTRIES = 1000
_DELETED_MEANWHILE = (
    "Entries were deleted while they were exported, as keep_entries_days says: export again."
)

commands = typer.Typer()
ledger = add_group(commands, "ledger")

UnitOption = Annotated[
    str | None,
    option("Only credits, or calls:OPERATION; without it, all of them.", metavar="UNIT"),
]
MonthOption = Annotated[
    str | None, option("Only this month, as 2026-01; without it, all.", metavar="YYYY-MM")
]


class Format(StrEnum):
    """What an export looks like."""

    CSV = "csv"
    JSON_LINES = "jsonl"
    JSON_ARRAY = "array"


@command(ledger, "show")
async def show(
    session: Session,
    account: Annotated[str | None, argument("ACCOUNT", "The account's name or id.")] = None,
    request: Annotated[
        str | None, option("Show what the call with this X-Request-Id was charged.", metavar="ID")
    ] = None,
    unit: UnitOption = None,
    limit: LimitOption = 20,
) -> Output:
    """Show an account's newest entries, or those of one call."""
    if request is not None and unit is not None:
        raise UsageError("--unit goes with an account: leave it out, or name one.")
    if account is not None and request is None:
        entries = await _newest(await session.open(), account, unit, limit)
        empty = f"Account {account} has no entries yet."
    elif request is not None and account is None:
        entries = await entries_of_request(await session.open(), request)
        empty = f"Nothing was charged for request {request}."
    else:
        raise UsageError("Name either an account or, with --request, one call.")
    table = Table(
        ("time", "unit", "number", "kind", "amount", "balance", "request", "note"),
        [
            (
                Time(each.at_ms / 1000),
                each.unit,
                each.number,
                each.kind,
                each.amount,
                each.balance_after,
                each.request_id,
                each.note,
            )
            for each in entries
        ],
        empty=empty,
    )
    return Output(entries, table)


@command(ledger, "export")
async def export(
    session: Session,
    account: AccountArgument,
    out: Annotated[
        Path | None, option("The file to make; without it, standard output.", metavar="FILE")
    ] = None,
    is_lines: Annotated[bool, option("Write JSON Lines instead of CSV.", "--lines")] = False,
    unit: UnitOption = None,
    month: MonthOption = None,
) -> Output | None:
    """Write all entries of an account, or of one month, the oldest first, as CSV or JSON Lines.

    With --json, the entries are one JSON array; or, when they go to a file, one JSON object says
    what was written.
    """
    format_ = Format.JSON_LINES if is_lines else Format.CSV
    if session.as_json and out is None:
        format_ = Format.JSON_ARRAY
    span = None if month is None else span_of(month, session.settings.zone)
    database = await session.open()
    found = await find_account(database, account)
    units = await _units(database, found, unit)
    if span is not None and await has_deleted(database, found.id, span):
        raise CommandError(DELETED.format(month=month, what="export"))
    with _destination(out, format_) as stream:
        entries = _from_oldest(database, found.id, units, span)
        written = await _write(entries, format_, stream, session.settings.zone)
    if out is None:
        return None
    value = {"account_id": found.id, "file": str(out), "format": format_, "entries": written}
    return Output(
        value,
        f"{counted(written, 'entry', 'entries')} of account {account} "
        f"{'is' if written == 1 else 'are'} in {out}.",
    )


@command(ledger, "statement")
async def statement(
    session: Session,
    month: Annotated[str, option("The month, as 2026-01.", metavar="YYYY-MM")],
    account: Annotated[
        str | None, argument("ACCOUNT", "The account's name or id; without it, all accounts.")
    ] = None,
    out: Annotated[
        Path | None,
        option("Of all accounts: the CSV file to make, for a spreadsheet.", metavar="FILE"),
    ] = None,
) -> Output:
    """Show what an account had, was given and spent in one month, by operation; or the balances of
    all accounts."""
    zone = session.settings.zone
    # Before opening the database, so that a wrong month is reported even without one.
    span_of(month, zone)
    if account is not None and out is not None:
        raise UsageError("--out goes with all accounts: leave out the account, or the file.")
    database = await session.open()
    if account is not None:
        return await statement_of_one(database, account, month, zone)
    return await statements_of_all(database, month, zone, out)


@command(commands, "receipt")
async def receipt(
    session: Session, request_id: Annotated[str, argument("ID", "The call's X-Request-Id.")]
) -> Output:
    """Show what one call was answered, what it was charged, and why."""
    found = await find_receipt(await session.open(), None, request_id)
    if found is None:
        raise LedgerError(
            "There is no receipt {request_id}: calls without a valid token have none, and those "
            "of calls that were not charged are kept for {days} days.",
            request_id=request_id,
            days=session.settings.receipt_days,
        )
    return Output(found, Table(("receipt", found.request_id), _receipt_rows(found, session)))


async def _newest(reader: Reader, wanted: str, unit: str | None, limit: int) -> Sequence[Entry]:
    account = await find_account(reader, wanted)
    pages = [
        await newest_entries(reader, account.id, each, limit)
        for each in await _units(reader, account, unit)
    ]
    # Merged, not sorted: within a unit the numbers give the order, even if the clock jumped.
    merged = heapq.merge(*pages, key=lambda entry: -entry.at_ms)
    return list(islice(merged, limit))


async def _units(reader: Reader, account: Account, wanted: str | None) -> list[str]:
    """The units an account has entries of, or the one of them that is wanted."""
    units = [balance.unit for balance in await list_balances(reader, account.id)]
    if wanted is None:
        return units
    if wanted not in units:
        known = ", ".join(units) or "nothing yet"
        raise LedgerError(
            "Account {account} has no {unit}: it has {known}.",
            account=account.name,
            unit=wanted,
            known=known,
        )
    return [wanted]


@contextmanager
def _destination(out: Path | None, format_: Format) -> Iterator[TextIO]:
    """Where an export goes: a new file, or standard output."""
    if out is None:
        yield sys.stdout
        return
    # Without a byte order mark, Excel reads the file in the machine's code page. Standard output
    # has none, because programs read it.
    encoding = "utf-8-sig" if format_ is Format.CSV else "utf-8"
    with new_file(out) as path, path.open("w", encoding=encoding, newline="") as stream:
        yield stream


async def _from_oldest(
    reader: Reader, account_id: str, units: Sequence[str], span: range | None
) -> AsyncIterator[Entry]:
    """The entries of each unit from the first on, up to the one that is the newest now; read page
    by page, so that memory does not grow with the ledger."""
    for unit in units:
        newest = await newest_entries(reader, account_id, unit, 1)
        last_number = newest[0].number if newest else 0
        numbers = [range(1, last_number + 1)]
        if span is not None:
            numbers = await numbers_of_span(reader, account_id, unit, span, last_number)
        has_begun = False
        for part in (each for whole in numbers for each in _pages(whole)):
            page = await newest_entries(
                reader, account_id, unit, len(part), before_number=part.stop
            )
            # If a number is missing, this page overlaps with the previous one.
            found = [each for each in reversed(page) if each.number in part]
            if len(found) < len(part):
                await _refuse_gap(reader, account_id, unit, span, part if has_begun else None)
            has_begun = has_begun or bool(found)
            for entry in found:
                if span is None or entry.at_ms in span:
                    yield entry


async def _refuse_gap(
    reader: Reader, account_id: str, unit: str, span: range | None, part: range | None
) -> None:
    """Refuses an export of which entries were deleted since it began; `part` are the numbers of
    those that follow others."""
    if span is not None:
        is_gap = await has_deleted(reader, account_id, span)
    else:
        is_gap = part is not None and await last_deleted(reader, account_id, unit) >= part.start
    if is_gap:
        raise CommandError(_DELETED_MEANWHILE)


def _pages(numbers: range) -> Iterator[range]:
    return (numbers[at : at + _PAGE_ENTRIES] for at in range(0, len(numbers), _PAGE_ENTRIES))


async def _write(
    entries: AsyncIterator[Entry], format_: Format, stream: TextIO, zone: ZoneInfo
) -> int:
    """Writes entries in one format; in CSV, `at` is `at_ms` as people read it."""
    written = 0
    rows = CsvWriter(stream)
    if format_ is Format.CSV:
        rows.write(("at", *Entry.__struct_fields__))
    elif format_ is Format.JSON_ARRAY:
        stream.write("[")
    async for entry in entries:
        if format_ is Format.CSV:
            at = datetime.fromtimestamp(entry.at_ms / 1000, zone)
            rows.write((at.isoformat(timespec="milliseconds"), *msgspec.structs.astuple(entry)))
        elif format_ is Format.JSON_LINES:
            stream.write(msgspec.json.encode(entry).decode() + "\n")
        else:
            separator = "," if written else ""
            stream.write(f"{separator}\n  {msgspec.json.encode(entry).decode()}")
        written += 1
    if format_ is Format.JSON_ARRAY:
        stream.write("\n]\n")
    return written


def _receipt_rows(found: Receipt, session: Session) -> list[tuple[str, Cell]]:
    """What there is to say, line by line; what a call does not have is left out."""
    answered = None if found.code is None else f"code {found.code} ({found.reason})"
    rows: list[tuple[str, Cell]] = [
        ("time", Time(found.at_ms / 1000)),
        ("account", found.account_id),
        ("token", found.token_id),
        ("operation", found.operation),
        ("answered", answered),
        ("message", found.msg),
        ("outcome", found.outcome.replace("_", " ")),
        ("why", found.why),
        ("amount", f"{found.amount:,} {found.unit}" if found.unit else "0"),
        ("balance before", _number(found.balance_before)),
        ("balance after", _number(found.balance_after)),
        ("replay of", found.replay_of),
        ("client's id", found.client_request_id),
    ]
    if found.consent is not None:
        used = found.consent
        rows.append(("consent", f"{used.consent_id} of {used.owner_kind} {used.owner_id}"))
    elif found.owner_kind is not None:
        rows.append(("asked for", f"{found.owner_kind} {found.owner_id}"))
    if found.hold is not None:
        rows.append(("hold", _hold(found.hold, session)))
    if found.refund is not None:
        at = session.local_time(found.refund.at_ms / 1000)
        rows.append(("refund", f"{found.refund.amount:,} {found.unit}, {at}"))
    if found.waybill is not None:
        made = found.waybill
        rows.append(("waybill", f"{made.wp_code} {made.number or made.object_id}, {made.state}"))
        rows.append(("parent waybill", made.parent_number))
        rows += [("warning", each) for each in made.warnings]
    return [(name, value) for name, value in rows if value is not None]


def _number(amount: int | None) -> str | None:
    return None if amount is None else f"{amount:,}"


def _hold(held: ReceiptHold, session: Session) -> str:
    if held.settled_at_ms is None:
        return f"{held.id}, {held.state} until {session.local_time(held.deadline_at_ms / 1000)}"
    return f"{held.id}, {held.state} {session.local_time(held.settled_at_ms / 1000)}"

"""Statements of a month, of one account or of all of them: as tables, and as a file for those who
write the invoices."""

from collections.abc import Iterator
from pathlib import Path
from zoneinfo import ZoneInfo

import msgspec

from tollway.cli.command import CommandError, UsageError
from tollway.cli.files import new_file
from tollway.cli.output import Output, Table, counted
from tollway.ledger.accounts import Account, find_account, list_accounts
from tollway.ledger.csv_rows import CsvWriter
from tollway.ledger.statements import OperationStatement, UnitStatement, month_span_ms, statement_of
from tollway.store.database import Database

DELETED = "Entries of {month} or later were deleted, as keep_entries_days says: there is no {what}."
_NAMED_MAX = 10
_COLUMNS = tuple(name.replace("_", " ") for name in UnitStatement.__struct_fields__)


class AccountStatement(msgspec.Struct, frozen=True):
    """One of all accounts, with the balances that had or got anything; with none if it is
    incomplete."""

    account_id: str
    account: str
    units: list[UnitStatement]
    operations: list[OperationStatement]
    is_complete: bool


def span_of(month: str, zone: ZoneInfo) -> range:
    """The milliseconds of a month in a time zone."""
    try:
        return month_span_ms(month, zone)
    except ValueError:
        raise UsageError(f"{month} is no month: write it as 2026-01.") from None


async def statement_of_one(database: Database, wanted: str, month: str, zone: ZoneInfo) -> Output:
    account = await find_account(database, wanted)
    made = await statement_of(database, account.id, span_of(month, zone))
    if not made.is_complete:
        raise CommandError(DELETED.format(month=month, what="statement"))
    balances = Table(
        _COLUMNS,
        [msgspec.structs.astuple(each) for each in made.units],
        empty=f"Account {account.name} has no balance.",
    )
    operations = Table(
        ("operation", "unit", "calls", "charged"),
        [msgspec.structs.astuple(each) for each in made.operations],
        empty="Nothing was charged.",
    )
    return Output(made, f"Account {account.name} in {month} ({zone.key}).", balances, operations)


async def statements_of_all(
    database: Database, month: str, zone: ZoneInfo, out: Path | None
) -> Output:
    """Of all accounts, also those that are closed by now."""
    span = span_of(month, zone)
    listed = [await _listed(database, each, span) for each in await list_accounts(database)]
    found = [each for each in listed if each.units or not each.is_complete]
    failure = _failure(month, [each.account for each in found if not each.is_complete])
    if out is None:
        rows = [row[1:] for row in _rows(found)]
        table = Table(("account", *_COLUMNS), rows, empty="No account had anything.")
        return Output(found, f"All accounts in {month} ({zone.key}).", table, failure=failure)
    # With a byte order mark, which spreadsheets need for Chinese names.
    with new_file(out) as path, path.open("w", encoding="utf-8-sig", newline="") as stream:
        file = CsvWriter(stream)
        file.write(("account_id", "account", *UnitStatement.__struct_fields__))
        for row in _rows(found):
            file.write(row)
    said = f"The statements of {counted(len(found), 'account')} are in {out}."
    return Output({"file": str(out), "accounts": len(found)}, said, failure=failure)


async def _listed(database: Database, account: Account, span: range) -> AccountStatement:
    made = await statement_of(database, account.id, span)
    if not made.is_complete:
        return AccountStatement(account.id, account.name, [], [], is_complete=False)
    units = [each for each in made.units if any(msgspec.structs.astuple(each)[1:])]
    return AccountStatement(account.id, account.name, units, made.operations, is_complete=True)


def _failure(month: str, incomplete: list[str]) -> str | None:
    if not incomplete:
        return None
    named, more = ", ".join(incomplete[:_NAMED_MAX]), len(incomplete) - _NAMED_MAX
    what = f"statement of {named}" + (f" and {more} more" if more > 0 else "")
    return DELETED.format(month=month, what=what)


def _rows(found: list[AccountStatement]) -> Iterator[tuple[str | int | None, ...]]:
    for each in found:
        if not each.is_complete:
            yield (each.account_id, each.account, *(None for _ in _COLUMNS))
        for unit in each.units:
            yield (each.account_id, each.account, *msgspec.structs.astuple(unit))

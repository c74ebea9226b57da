"""Statements of a month, of one account or of all of them: as tables, and as a file for those who
write the invoices."""

from collections.abc import Iterator
from pathlib import Path
from zoneinfo import ZoneInfo

import msgspec

from tollway.cli.command import CommandError, UsageError
from tollway.cli.files import new_file
from tollway.cli.output import Output, Table, counted
from tollway.contract.csv_rows import CsvWriter
from tollway.ledger.accounts import Account, find_account, list_accounts
from tollway.ledger.statements import (
    OperationStatement,
    Statement,
    UnitStatement,
    month_span_ms,
    statement_of,
)
from tollway.store.database import Database

DELETED = "Entries of {month} or later were deleted, as keep_entries_days says: there is no {what}."
_COLUMNS = tuple(name.replace("_", " ") for name in UnitStatement.__struct_fields__)


class AccountStatement(msgspec.Struct, frozen=True):
    """One of all accounts, with the balances that had or got anything."""

    account_id: str
    account: str
    units: list[UnitStatement]
    operations: list[OperationStatement]


def span_of(month: str, zone: ZoneInfo) -> range:
    """The milliseconds of a month in a time zone."""
    try:
        return month_span_ms(month, zone)
    except ValueError:
        raise UsageError(f"{month} is no month: write it as 2026-01.") from None


async def statement_of_one(database: Database, wanted: str, month: str, zone: ZoneInfo) -> Output:
    account = await find_account(database, wanted)
    made = await _complete(database, account, month, zone)
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
    found = []
    for account in await list_accounts(database):
        made = await _complete(database, account, month, zone)
        units = [each for each in made.units if any(msgspec.structs.astuple(each)[1:])]
        if units:
            found.append(AccountStatement(account.id, account.name, units, made.operations))
    if out is None:
        rows = [row[1:] for row in _rows(found)]
        table = Table(("account", *_COLUMNS), rows, empty="No account had anything.")
        return Output(found, f"All accounts in {month} ({zone.key}).", table)
    # With a mark of its encoding, which a spreadsheet needs for names in Chinese.
    with new_file(out) as path, path.open("w", encoding="utf-8-sig", newline="") as stream:
        file = CsvWriter(stream)
        file.write(("account_id", "account", *UnitStatement.__struct_fields__))
        for row in _rows(found):
            file.write(row)
    said = f"The statements of {counted(len(found), 'account')} are in {out}."
    return Output({"file": str(out), "accounts": len(found)}, said)


def _rows(found: list[AccountStatement]) -> Iterator[tuple[str | int, ...]]:
    for each in found:
        for unit in each.units:
            yield (each.account_id, each.account, *msgspec.structs.astuple(unit))


async def _complete(database: Database, account: Account, month: str, zone: ZoneInfo) -> Statement:
    made = await statement_of(database, account.id, span_of(month, zone))
    if not made.is_complete:
        raise CommandError(DELETED.format(month=month, what="statement"))
    return made

"""`tollway migrate`, `tollway backup` and `tollway audit`: looking after the database."""

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from tollway.cli.context import Session, run, run_on_any_schema
from tollway.cli.files import new_file
from tollway.cli.options import DatabaseOption, JsonOption
from tollway.cli.output import print_json, print_sentence, print_table
from tollway.cli.progress import progress_bar
from tollway.ledger.audit import AuditReport
from tollway.ledger.audit import audit as audit_books
from tollway.store.migrate import migrate as migrate_schema

group = typer.Typer()


class Migration(msgspec.Struct, frozen=True):
    """The schema's revision before and after."""

    before: str | None
    after: str


class Backup(msgspec.Struct, frozen=True):
    """The copy that was made."""

    file: str
    bytes: int


def register(app: typer.Typer) -> None:
    app.add_typer(group)


@group.command("migrate")
def migrate(database: DatabaseOption = None, as_json: JsonOption = False) -> None:
    """Create the database, or bring its schema up to date."""

    async def work(at: Session) -> Migration:
        return Migration(*await migrate_schema(at.database))

    migration = run_on_any_schema(database, work)
    if as_json:
        print_json(migration)
    elif migration.before is None:
        print_sentence(f"The database is created, at schema {migration.after}.")
    elif migration.before == migration.after:
        print_sentence(f"The database is up to date, at schema {migration.after}.")
    else:
        print_sentence(f"The schema went from {migration.before} to {migration.after}.")


@group.command("backup")
def backup(
    destination: Annotated[
        Path,
        typer.Argument(
            metavar="DESTINATION",
            help="The file to make; it must not exist yet.",
            show_default=False,
        ),
    ],
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Copy the database to a file while it goes on being used."""

    async def work(at: Session) -> None:
        with new_file(destination) as path, progress_bar("Copying", 100) as advance:
            reached = 0

            def progress(pages: int, pages_total: int) -> None:
                nonlocal reached
                percent = 100 * pages // max(pages_total, 1)
                advance(percent - reached)
                reached = percent

            at.database.back_up(str(path), progress)

    run(database, work)
    made = Backup(str(destination), destination.stat().st_size)
    if as_json:
        print_json(made)
    else:
        print_sentence(f"The copy is in {made.file}, {made.bytes:,} bytes.")


@group.command("audit")
def audit(database: DatabaseOption = None, as_json: JsonOption = False) -> None:
    """Check that every balance follows from its entries."""
    report = run(database, lambda at: audit_books(at.database))
    if as_json:
        print_json(report)
    else:
        _print_report(report)
    if report.breaches:
        raise typer.Exit(1)


def _print_report(report: AuditReport) -> None:
    print_sentence(
        f"Accounts: {report.accounts:,}. Tokens: {report.tokens:,}. Entries: {report.entries:,}."
    )
    print_table(
        ("unit", "topped up", "corrected", "charged", "available"),
        [
            (unit.unit, unit.topped_up, unit.corrected, unit.charged, unit.available)
            for unit in report.units
        ],
        empty="The books are empty.",
    )
    if report.breaches:
        print_table(
            ("breach", "account", "unit", "what differs"),
            [
                (breach.name, breach.account_id, breach.unit, breach.difference)
                for breach in report.breaches
            ],
            empty="",
        )
        typer.echo(f"The books are wrong: breaches found, {len(report.breaches):,}.", err=True)
    else:
        print_sentence("Every balance follows from its entries.")

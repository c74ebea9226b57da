"""`tollway audit`: does everything that the database says twice say the same?"""

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from tollway.audit.carrier_journal import audit_journal
from tollway.audit.report import AuditReport
from tollway.audit.report import audit as audit_all
from tollway.carriers.carriers import known_carrier
from tollway.cli.context import Session, run
from tollway.cli.errors import UsageError
from tollway.cli.files import refuse_damaged
from tollway.cli.options import DatabaseOption, JsonOption
from tollway.cli.output import print_json, print_sentence, print_table
from tollway.store.clock import common_ms
from tollway.store.open import sqlite_path

group = typer.Typer()


def register(app: typer.Typer) -> None:
    app.add_typer(group)


@group.command("audit")
def audit(
    journal: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A carrier's journal to compare its waybills with; needs --carrier.",
            show_default=False,
        ),
    ] = None,
    carrier: Annotated[
        str | None,
        typer.Option(metavar="WP_CODE", help="Whose journal it is.", show_default=False),
    ] = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check the books, consents, waybills and counts from their rows."""
    if (journal is None) != (carrier is None):
        raise UsageError("--journal and --carrier go together: name both or neither.")

    async def work(at: Session) -> AuditReport:
        if not at.database.is_shared:
            file = Path(sqlite_path(at.settings.database))
            # What a damaged file says cannot be held against what it says elsewhere.
            refuse_damaged(file, file, " Keep it as it is, and restore a backup.")
        report = await audit_all(at.database, await common_ms(at.database, at.runtime.at_ms()))
        if journal is None or carrier is None:
            return report
        await known_carrier(at.database, carrier)
        with journal.open("rb") as lines:
            figures, breaches = await audit_journal(at.database, carrier, lines)
        return msgspec.structs.replace(
            report, checks=[*report.checks, figures], breaches=[*report.breaches, *breaches]
        )

    report = run(database, work)
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
        ("unit", "topped up", "corrected", "charged", "held", "available"),
        [
            (unit.unit, unit.topped_up, unit.corrected, unit.charged, unit.held, unit.available)
            for unit in report.units
        ],
        empty="The books are empty.",
    )
    print_table(
        ("check", "rows", "breaches", "what must hold"),
        [(check.name, check.rows, check.breaches, check.holds) for check in report.checks],
        empty="",
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
        typer.echo(f"The audit failed: breaches found, {len(report.breaches):,}.", err=True)
    else:
        print_sentence("All of it holds.")

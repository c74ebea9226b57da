"""`tollway audit`: does everything that the database says twice say the same?"""

import typer

from tollway.audit.report import AuditReport
from tollway.audit.report import audit as audit_all
from tollway.cli.context import run
from tollway.cli.options import DatabaseOption, JsonOption
from tollway.cli.output import print_json, print_sentence, print_table

group = typer.Typer()


def register(app: typer.Typer) -> None:
    app.add_typer(group)


@group.command("audit")
def audit(database: DatabaseOption = None, as_json: JsonOption = False) -> None:
    """Check the books, consents, waybills and counts from their rows."""
    report = run(database, lambda at: audit_all(at.database))
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

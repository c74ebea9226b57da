"""`tollway audit`: does everything that the database says twice say the same?"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from tollway.audit.carrier_journal import audit_journal
from tollway.audit.check import Breach, CheckFigures
from tollway.audit.report import CHECKS, AuditReport
from tollway.audit.report import audit as audit_all
from tollway.carriers.carriers import known_carrier
from tollway.cli.backup import DIGEST, ending_with
from tollway.cli.command import Session, UsageError, command
from tollway.cli.files import refuse_damaged
from tollway.cli.output import Output, Table, progress_bar
from tollway.cli.parameters import option
from tollway.store.clock import common_ms
from tollway.store.database import StoreError
from tollway.store.last_runs import AUDIT, note_run
from tollway.store.open import OpenDatabase, sqlite_path
from tollway.store.postgresql.durability import durability_risks
from tollway.store.sqlite.files import changes_of
from tollway.store.sqlite.schema_check import schema_parts

SCHEMA_HOLDS = "tables, indexes and triggers are as Tollway made them"

commands = typer.Typer()


@command(commands, "audit")
async def audit(
    session: Session,
    journal: Annotated[
        Path | None,
        option(
            "A carrier's journal to compare its waybills with; needs --carrier.", metavar="FILE"
        ),
    ] = None,
    carrier: Annotated[str | None, option("Whose journal it is.", metavar="WP_CODE")] = None,
) -> Output:
    """Check the ledger, consents, waybills and counts from their rows."""
    if (journal is None) != (carrier is None):
        raise UsageError("--journal and --carrier go together: name both or neither.")
    database = await session.open()
    if not database.is_shared:
        file = Path(sqlite_path(session.settings.database))
        # Comparing tables means nothing if the file itself is damaged.
        refuse_damaged(file, file, " Keep it as it is, and restore a backup.")
    now_ms = await common_ms(database, session.runtime.at_ms())
    with progress_bar("Auditing", len(CHECKS)) as advance:
        report = await audit_all(database, now_ms, advance)
    if not database.is_shared:
        changes = changes_of(Path(sqlite_path(session.settings.database)))
        figures = CheckFigures("schema", SCHEMA_HOLDS, schema_parts(), len(changes))
        changed = [Breach("schema_changed", None, None, each) for each in changes]
        report = _with_more(report, figures, changed)
    if journal is not None and carrier is not None:
        await known_carrier(database, carrier)
        with journal.open("rb") as lines:
            report = _with_more(report, *await audit_journal(database, carrier, lines))
    noted = await _note(session, database, report)
    found = len(report.breaches)
    failure = f"The audit failed: breaches found, {found:,}." if found else None
    risks = await durability_risks(database)
    return Output(report, *_shown(report), *noted, *risks, failure=failure)


async def _note(session: Session, database: OpenDatabase, report: AuditReport) -> list[str]:
    """Notes that it ran, for the alarms and the pages; gives what is to be said if it cannot."""
    if not database.is_shared:
        file = Path(sqlite_path(session.settings.database))
        if ending_with(file, DIGEST).exists():
            # A copy from `tollway backup`: a write would change its digest, and block a restore.
            return []
    result = report.kept()
    try:
        await note_run(
            database, AUDIT, session.runtime.at_s(), is_good=not report.breaches, result=result
        )
    except StoreError as error:
        return [f"The database could not note that the audit ran: {error}."]
    return []


def _with_more(
    report: AuditReport, figures: CheckFigures, breaches: Sequence[Breach]
) -> AuditReport:
    return msgspec.structs.replace(
        report, checks=[*report.checks, figures], breaches=[*report.breaches, *breaches]
    )


def _shown(report: AuditReport) -> list[str | Table]:
    return [
        f"Accounts: {report.accounts:,}. Tokens: {report.tokens:,}. Entries: {report.entries:,}.",
        Table(
            ("unit", "topped up", "corrected", "charged", "held", "available"),
            [msgspec.structs.astuple(each)[:-1] for each in report.units],
            empty="The ledger is empty.",
        ),
        Table(
            ("check", "rows", "breaches", "what must hold"),
            [(each.name, each.rows, each.breaches, each.holds) for each in report.checks],
        ),
        table_of_breaches(report.breaches, "All checks passed."),
    ]


def table_of_breaches(breaches: Sequence[Breach], empty: str) -> Table:
    return Table(
        ("breach", "account", "unit", "what differs"),
        [(each.name, each.account_id, each.unit, each.difference) for each in breaches],
        empty=empty,
    )

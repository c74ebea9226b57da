"""`tollway reconcile` and `tollway hold`: what waits for somebody else's answer."""

from collections.abc import Sequence
from typing import Annotated
from zoneinfo import ZoneInfo

import typer

from tollway.carriers.connectors.http_exchange import open_client
from tollway.carriers.connectors.remotes import Remotes
from tollway.carriers.reconciling import Finding, Reconciler
from tollway.cli.context import Session, run
from tollway.cli.options import DatabaseOption, JsonOption
from tollway.cli.output import print_json, print_sentence, print_table, shown_time
from tollway.ledger.holds import Hold, open_holds
from tollway.store.clock import common_ms

_LIMIT_MAX = 10_000

group = typer.Typer(help="Show credits that are held.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    app.command("reconcile")(reconcile)
    app.add_typer(group, name="hold")


def reconcile(database: DatabaseOption = None, as_json: JsonOption = False) -> None:
    """Ask the carriers about waybills without an answer, and settle them.

    A running gateway does the same by itself, on start and at intervals. Exits with 1 if a waybill
    is past its deadline and its carrier still does not say what became of it.
    """

    async def work(at: Session) -> Sequence[Finding]:
        remotes = Remotes(open_client())
        try:
            vault = await at.vault()
            return await Reconciler(at.database, remotes, vault, at.runtime).settle_all()
        finally:
            await remotes.close()

    findings = run(database, work)
    if as_json:
        print_json(findings)
    else:
        _print_findings(findings)
    if any(finding.is_overdue for finding in findings):
        raise typer.Exit(1)


@group.command("list")
def list_(
    limit: Annotated[int, typer.Option(min=1, max=_LIMIT_MAX, help="How many at most.")] = 100,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the holds that are neither captured nor released, the earliest deadline first."""

    async def work(at: Session) -> tuple[ZoneInfo, int, Sequence[Hold]]:
        holds = await open_holds(at.database, limit)
        return at.settings.zone, await common_ms(at.database, at.runtime.at_ms()), holds

    zone, now_ms, holds = run(database, work)
    if as_json:
        print_json(holds)
        return
    print_table(
        ("held since", "to be settled by", "", "amount", "unit", "account", "request"),
        [
            (
                shown_time(each.at_ms // 1000, zone),
                shown_time(each.deadline_at_ms // 1000, zone),
                "overdue" if each.deadline_at_ms < now_ms else "",
                each.amount,
                each.unit,
                each.account_id,
                each.request_id,
            )
            for each in holds
        ],
        empty="Nothing is held.",
        times_in=zone,
    )


def _print_findings(findings: Sequence[Finding]) -> None:
    print_table(
        ("carrier", "order", "shop", "asked", "outcome", "number"),
        [
            (
                each.waybill.wp_code,
                each.waybill.order_sn,
                each.waybill.owner_id,
                f"{each.age_s:,} s ago{', overdue' if each.is_overdue else ''}",
                each.outcome.value,
                each.number or "",
            )
            for each in findings
        ],
        empty="No waybill waits for its carrier.",
    )
    waiting = sum(each.is_waiting for each in findings)
    if waiting:
        print_sentence(f"Still waiting: {waiting:,}. Their credits stay held.")

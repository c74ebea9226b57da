"""`tollway reconcile` and `tollway hold`: waybills without an answer, and credits that are held."""

from collections.abc import Sequence
from typing import Annotated

import typer

from tollway.carriers.connectors.remote_carriers import Remotes
from tollway.carriers.receiver_changes import decide_kept
from tollway.carriers.reconciling import Finding, Outcome, Reconciler
from tollway.cli.command import Session, UsageError, add_group, command
from tollway.cli.output import Output, Table, Time
from tollway.cli.parameters import LimitOption, option
from tollway.cli.waybill import vault_of
from tollway.ledger.holds import open_holds
from tollway.ledger.trail import note_act
from tollway.store.clock import common_ms
from tollway.store.database import Database

commands = typer.Typer()
holds = add_group(commands, "hold")


@command(commands, "reconcile")
async def reconcile(
    session: Session,
    decide: Annotated[
        str | None,
        option(
            "Settle the waybill of this order, or with this object id, by what its carrier said.",
            metavar="ORDER",
        ),
    ] = None,
    number: Annotated[str | None, option("With --decide: the number that it issued.")] = None,
    not_issued: Annotated[
        bool, option("With --decide: it issued none, and the credits are released.", "--not-issued")
    ] = False,
    receiver_kept: Annotated[
        bool,
        option(
            "With --decide: after a change without an answer, it has the receiver from before.",
            "--receiver-kept",
        ),
    ] = False,
    carrier: Annotated[
        str | None, option("With --decide: its carrier, if several have one.", metavar="WP_CODE")
    ] = None,
) -> Output:
    """Ask the carriers about waybills without an answer, and settle them.

    A running gateway does the same by itself, on start and at intervals. Exits with 1 if a waybill
    is past its deadline and its carrier still does not say what became of it. Some carriers cannot
    be asked: find out by other means, and settle such a waybill with --decide.
    """
    decisions = (number is not None) + not_issued + receiver_kept
    if decisions != (decide is not None):
        raise UsageError(
            "Name an order with --decide, and one of --number, --not-issued and --receiver-kept."
        )
    if carrier is not None and decide is None:
        raise UsageError("--carrier goes with --decide: without it, all carriers are asked.")
    database = await session.open()
    if decide is not None and receiver_kept:
        kept = await decide_kept(database, decide, carrier, session.runtime)
        return Output(kept, f"Waybill {kept.number} keeps its receiver, and has a label again.")
    remotes = Remotes()
    try:
        vault = await vault_of(session)
        reconciler = Reconciler(database, remotes, vault, session.runtime)
        if decide is None:
            findings = await reconciler.settle_all()
            await _note_settled(database, session, findings)
        else:
            findings = [await reconciler.decide(decide, carrier, number, session.runtime)]
    finally:
        await remotes.close()
    return _output(findings)


async def _note_settled(database: Database, session: Session, findings: Sequence[Finding]) -> None:
    settled = [
        {
            "carrier": each.waybill.wp_code,
            "order": each.waybill.order_sn,
            "outcome": each.outcome,
            "number": each.number,
        }
        for each in findings
        if not each.is_waiting
    ]
    if settled:
        await note_act(database, session.runtime, "reconcile", "waybills", settled)


def _output(findings: Sequence[Finding]) -> Output:
    table = Table(
        ("carrier", "order", "shop", "asked", "outcome", "number", "state"),
        [
            (
                each.waybill.wp_code,
                each.waybill.order_sn,
                each.waybill.owner_id,
                Time(each.waybill.asked_at_s),
                each.outcome.value,
                each.number or "",
                "overdue" if each.is_overdue else "",
            )
            for each in findings
        ],
        empty="No waybill waits for its carrier.",
    )
    waiting = sum(each.is_waiting for each in findings)
    still = [f"Still waiting: {waiting:,}. Their credits stay held."] if waiting else []
    if any(each.outcome is Outcome.UNASKABLE for each in findings):
        still.append(
            "Ask the carrier by other means, then run `tollway reconcile --decide ORDER` with "
            "`--number NUMBER` or `--not-issued`."
        )
    is_overdue = any(each.is_overdue for each in findings)
    return Output(findings, table, *still, failure="" if is_overdue else None)


@command(holds, "list")
async def list_(session: Session, limit: LimitOption = 100) -> Output:
    """List the holds that are neither captured nor released, the earliest deadline first."""
    database = await session.open()
    found = await open_holds(database, limit)
    now_ms = await common_ms(database, session.runtime.at_ms())
    table = Table(
        ("held since", "to be settled by", "state", "amount", "unit", "account", "request"),
        [
            (
                Time(each.at_ms // 1000),
                Time(each.deadline_at_ms // 1000),
                "overdue" if each.deadline_at_ms < now_ms else "waiting",
                each.amount,
                each.unit,
                each.account_id,
                each.request_id,
            )
            for each in found
        ],
        empty="Nothing is held.",
    )
    return Output(found, table)

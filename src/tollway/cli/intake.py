"""`tollway intake`: what was pushed and could not be stored."""

from typing import Annotated
from zoneinfo import ZoneInfo

import typer

from tollway.cli.context import Session, run
from tollway.cli.options import DatabaseOption, JsonOption
from tollway.cli.output import print_json, print_sentence, print_table, shown_time
from tollway.intake.rejects import Rejected, Replay, list_rejected
from tollway.intake.rejects import replay as replay_rejected
from tollway.operations.catalogue import RECORD_KINDS

_group = typer.Typer(help="Look after what was pushed.", no_args_is_help=True)
_rejected = typer.Typer(help="Records that were rejected.", no_args_is_help=True)
_group.add_typer(_rejected, name="rejected")


def register(app: typer.Typer) -> None:
    app.add_typer(_group, name="intake")


@_rejected.command("list")
def list_(database: DatabaseOption = None, as_json: JsonOption = False) -> None:
    """List the rejected records and their reasons, the oldest first."""

    async def work(at: Session) -> tuple[ZoneInfo, list[Rejected]]:
        return at.settings.zone, await list_rejected(at.database)

    zone, rejected = run(database, work)
    if as_json:
        print_json(rejected)
        return
    print_table(
        ("record", "source", "kind", "received", "reason"),
        [
            (each.id, each.source, each.kind, shown_time(each.received_at_s, zone), each.reason)
            for each in rejected
        ],
        empty="No record was rejected.",
        times_in=zone,
    )


@_rejected.command("replay")
def replay(
    record: Annotated[
        str | None,
        typer.Argument(
            metavar="RECORD", help="The record's id; all of them if left out.", show_default=False
        ),
    ] = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Try rejected records again: those that are good by now are stored."""

    async def work(at: Session) -> Replay:
        return await replay_rejected(at.database, await at.sealer(), RECORD_KINDS, record)

    result = run(database, work)
    if as_json:
        print_json(result)
    else:
        print_sentence(
            f"{result.stored:,} stored, {result.unchanged:,} known already or older, "
            f"{result.rejected:,} still rejected."
        )

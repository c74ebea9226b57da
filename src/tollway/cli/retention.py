"""`tollway retention`: dropping what is older than the settings say."""

from typing import Annotated

import msgspec
import typer

from tollway.cli.context import Session, run
from tollway.cli.options import DatabaseOption, JsonOption
from tollway.cli.output import print_json, print_table
from tollway.retention.retention import Dropped, Retention

group = typer.Typer(help="Drop what is older than the settings say.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="retention")


@group.command("apply")
def apply(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only tell what would be dropped.")
    ] = False,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Drop old orders, claims, entries, reads and receipts now; a server does it by itself."""

    async def work(at: Session) -> list[Dropped]:
        retention = Retention(at.database, at.settings)
        now_ms = at.runtime.at_ms()
        if dry_run:
            return await retention.plan(now_ms)
        return await _apply_all(retention, now_ms)

    dropped = run(database, work)
    if as_json:
        print_json(dropped)
        return
    print_table(
        ("what", "kept for days", "would be dropped" if dry_run else "dropped"),
        [
            (each.kind, f"{each.keep_days:,}" if each.keep_days else "ever", each.rows)
            for each in dropped
        ],
        empty="",
    )


async def _apply_all(retention: Retention, now_ms: int) -> list[Dropped]:
    """Applies until nothing more goes."""
    total = more = await retention.apply(now_ms)
    while any(each.rows for each in more):
        more = await retention.apply(now_ms)
        total = [
            msgspec.structs.replace(each, rows=each.rows + further.rows)
            for each, further in zip(total, more, strict=True)
        ]
    return total

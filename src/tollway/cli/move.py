"""`tollway move`: from the embedded database to PostgreSQL."""

import asyncio
from typing import Annotated

import typer

from tollway.cli.errors import UsageError
from tollway.cli.moving import Move, move_database
from tollway.cli.options import JsonOption
from tollway.cli.output import print_json, print_sentence, print_table
from tollway.cli.setting_sources import load_settings
from tollway.store.open import is_shared, sqlite_path

group = typer.Typer()


def register(app: typer.Typer) -> None:
    app.add_typer(group)


@group.command("move")
def move(
    source: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="URL",
            help="The database to move, as sqlite:///FILE.",
            show_default=False,
        ),
    ],
    target: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="URL",
            help="A postgresql://… database, migrated and empty; else the one of the settings.",
            show_default=False,
        ),
    ] = None,
    restart: Annotated[
        bool,
        typer.Option("--restart", help="Empty a target that has an unfinished move, begin anew."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Move a database to PostgreSQL; broken off, it goes on where it was when run again."""
    settings, _ = load_settings({"database": target})
    path = _checked_path(source, settings.database)
    done = asyncio.run(move_database(path, settings, should_restart=restart))
    if as_json:
        print_json(done)
    else:
        _print(done)
    if done.differences or done.breaches:
        raise typer.Exit(1)


def _checked_path(source: str, target: str) -> str:
    if source == target:
        raise UsageError("The source and the target are the same database.")
    if is_shared(source):
        raise UsageError(
            "--from is a PostgreSQL database: move copies from sqlite:///FILE; PostgreSQL is "
            "copied with its own tools, such as pg_dump."
        )
    path = sqlite_path(source)
    if not is_shared(target):
        sqlite_path(target)
        raise UsageError(
            "The target is a file: move copies to postgresql://USER:PASSWORD@HOST/NAME; a file is "
            "copied with `tollway backup` and `tollway restore`."
        )
    return path


def _print(done: Move) -> None:
    rows = sum(each.rows for each in done.tables)
    for file in done.files:
        print_sentence(f"{file} is a copy of what the source has: let nobody else read it.")
    print_table(
        ("table", "key", "what differs"),
        [(each.table, each.key, each.what) for each in done.differences],
        empty=f"{rows:,} rows are moved to {done.target}, and each is the same there.",
    )
    if done.differences:
        typer.echo(
            f"The move failed: rows that differ, {len(done.differences):,}. If the source was "
            "changed since the move began, run it again with --restart, which empties the target.",
            err=True,
        )
        return
    print_table(
        ("breach", "account", "unit", "what differs"),
        [(each.name, each.account_id, each.unit, each.difference) for each in done.breaches],
        empty="The audit holds. From now on let the gateways serve that database, not the file.",
    )
    if done.breaches:
        typer.echo(
            f"The audit failed: breaches found, {len(done.breaches):,}. They are in the source "
            "too: look at them there, then run the move again.",
            err=True,
        )

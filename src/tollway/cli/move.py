"""`tollway move`: from the embedded database to PostgreSQL."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from tollway.audit.check import Breach
from tollway.audit.checks import CHECKS
from tollway.audit.report import audit
from tollway.cli.backup_files import KeyFile, key_files
from tollway.cli.errors import CommandError, UsageError
from tollway.cli.options import JsonOption
from tollway.cli.output import print_json, print_sentence, print_table
from tollway.cli.progress import progress_bar
from tollway.cli.restoring import files_beside, keys_to_place, placed
from tollway.cli.setting_sources import load_settings
from tollway.demo.world import demo_file
from tollway.ledger.identity import World
from tollway.settings import Settings
from tollway.store.database import StoreError, StoreUnavailableError
from tollway.store.key_marks import refuse_other
from tollway.store.moving.copying import copy_rows, refuse_other_schema
from tollway.store.moving.source import Source, open_source
from tollway.store.moving.tables import MOVED_TABLES
from tollway.store.moving.target import Target, open_target
from tollway.store.moving.verifying import Difference, differences
from tollway.store.node_tables import key_mark
from tollway.store.open import is_shared, key_path, open_database, sqlite_path, without_password
from tollway.telemetry.metrics import Metrics

group = typer.Typer()


class TableFigures(msgspec.Struct, frozen=True):
    """How many rows of a table were moved."""

    name: str
    rows: int


class Move(msgspec.Struct, frozen=True):
    """What was moved, and what was found wrong with it afterwards."""

    source: str
    target: str
    tables: list[TableFigures]
    files: list[str]
    differences: list[Difference]
    breaches: list[Breach]


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
    done = asyncio.run(_move(path, settings, should_restart=restart))
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


async def _move(path: str, settings: Settings, *, should_restart: bool) -> Move:
    target_name = without_password(settings.database)
    files = _files_to_place(path, settings)
    with open_source(path) as source:
        refuse_other_schema("source", source.schema_revision())
        _refuse_missing_keys(source, path, settings)
        _refuse_other_keys(source, path, settings)
        counts = [TableFigures(str(table.name), source.count(table)) for table in MOVED_TABLES]
        async with _opened(settings.database) as target:
            refuse_other_schema("target", await target.schema_revision())
            await target.claim(source.name, should_restart=should_restart)
            with placed(files):
                different = await _copy(source, target, sum(each.rows for each in counts))
            breaches = [] if different else await _breaches(settings.database)
            if not different and not breaches:
                await target.finish()
    return Move(path, target_name, counts, list(map(str, files)), different, breaches)


async def _copy(source: Source, target: Target, rows: int) -> list[Difference]:
    with progress_bar("Copying", rows) as advance:
        await copy_rows(source, target, advance)
    await target.tidy()
    with progress_bar("Comparing", rows) as advance:
        return await differences(source, target, advance)


@asynccontextmanager
async def _opened(url: str) -> AsyncIterator[Target]:
    try:
        async with open_target(url) as target:
            yield target
    except StoreUnavailableError as error:
        raise StoreError(
            f"The target {without_password(url)} cannot be reached or written: {error}. What was "
            "copied stays: run the same command again."
        ) from None


async def _breaches(url: str) -> list[Breach]:
    database = open_database(url, Metrics())
    try:
        with progress_bar("Auditing", len(CHECKS)) as advance:
            return (await audit(database, World().at_ms(), advance)).damage
    finally:
        await database.close()


def _files_to_place(path: str, settings: Settings) -> dict[Path, bytes]:
    keys = key_path(settings.database, settings.key_file)
    # The tokens of a demo world, which are written down nowhere else.
    demo = KeyFile(demo_file(str(keys)), ".demo.json")
    return keys_to_place(Path(path), (*key_files(settings), demo))


def _refuse_missing_keys(source: Source, path: str, settings: Settings) -> None:
    keys = key_path(settings.database, settings.key_file)
    beside = key_path(f"sqlite:///{path}", "")
    if not keys.exists() and not beside.exists() and source.has_sealed():
        raise CommandError(
            f"The source has sealed data, and neither {beside} nor {keys} (setting key_file) is "
            "there: set key_file to the file with its keys."
        )


def _refuse_other_keys(source: Source, path: str, settings: Settings) -> None:
    marks = list(source.rows(key_mark))
    for file in files_beside(Path(path), settings):
        refuse_other(file, {key_id: mark for name, key_id, mark in marks if name == file.setting})


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

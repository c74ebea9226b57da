"""`tollway move`: from the embedded database to PostgreSQL.

It checks the keys, copies, compares and audits; only then does the move count as done.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

import msgspec
import sqlalchemy
import typer

from tollway.audit.check import Breach
from tollway.audit.report import CHECKS, audit
from tollway.cli.audit import table_of_breaches
from tollway.cli.backup import KeyFile, key_files
from tollway.cli.command import CommandError, Session, UsageError, command
from tollway.cli.output import Output, Table, progress_bar
from tollway.cli.parameters import option
from tollway.cli.restore import files_beside, keys_to_place, placed
from tollway.demo.world_file import demo_file
from tollway.ledger.trail import record_act
from tollway.operations.catalogue import ALL_TABLES
from tollway.settings import Settings
from tollway.store.database import StoreError, StoreUnavailableError
from tollway.store.key_check import refuse_other
from tollway.store.moving.copying import Difference, copy_rows, differences, refuse_other_schema
from tollway.store.moving.source import Source, moved_tables, open_source
from tollway.store.moving.target import Target, open_target
from tollway.store.open import is_shared, key_path, sqlite_path, without_password
from tollway.store.schema.database import key_check

commands = typer.Typer()


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


@command(commands, "move", has_database=False)
def move(
    session: Session,
    source: Annotated[
        str, option("The database to move, as sqlite:///FILE.", "--from", metavar="URL")
    ],
    target: Annotated[
        str | None,
        option(
            "A postgresql://… database, migrated and empty; without it, that of the settings.",
            "--to",
            metavar="URL",
        ),
    ] = None,
    restart: Annotated[
        bool, option("Empty a target that has an unfinished move, and start over.", "--restart")
    ] = False,
) -> Output:
    """Move a database to PostgreSQL; if interrupted, run it again to continue."""
    to_target = session.with_options(database=target)
    path = _checked_path(source, to_target.settings.database)
    done = asyncio.run(_move(path, to_target, should_restart=restart))
    return Output(done, *_shown(done), failure=_failure(done))


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


async def _move(path: str, session: Session, *, should_restart: bool) -> Move:
    """Moves the file to the database of the settings, compares both, and audits the outcome."""
    settings = session.settings
    # Before anything else, because this refuses an invalid URL.
    target_name = without_password(settings.database)
    files = _files_to_place(path, settings)
    tables = moved_tables(ALL_TABLES)
    with open_source(path, tables) as source:
        refuse_other_schema("source", source.schema_revision())
        _refuse_missing_keys(source, path, settings)
        _refuse_other_keys(source, path, settings)
        counts = [TableFigures(str(table.name), source.count(table)) for table in tables]
        async with _opened(settings.database, tables) as target:
            refuse_other_schema("target", await target.schema_revision())
            await target.claim(source.name, should_restart=should_restart)
            with placed(files):
                different = await _copy(source, target, sum(each.rows for each in counts))
            breaches = [] if different else await _breaches(session)
            if not different and not breaches:
                after, by = {"from": path}, session.runtime
                await target.finish(lambda tx: record_act(tx, by, "move", "database", after=after))
    return Move(path, target_name, counts, list(map(str, files)), different, breaches)


async def _copy(source: Source, target: Target, rows: int) -> list[Difference]:
    with progress_bar("Copying", rows) as advance:
        await copy_rows(source, target, advance)
    await target.tidy()
    with progress_bar("Comparing", rows) as advance:
        return await differences(source, target, advance)


@asynccontextmanager
async def _opened(url: str, tables: Sequence[sqlalchemy.Table]) -> AsyncIterator[Target]:
    try:
        async with open_target(url, tables) as target:
            yield target
    except StoreUnavailableError as error:
        raise StoreError(
            f"The target {without_password(url)} cannot be reached or written: {error}. What was "
            "copied stays: run the same command again."
        ) from None


async def _breaches(session: Session) -> list[Breach]:
    try:
        with progress_bar("Auditing", len(CHECKS)) as advance:
            report = await audit(session.open_any(), session.runtime.at_ms(), advance)
            return report.damage
    finally:
        await session.close()


def _files_to_place(path: str, settings: Settings) -> dict[Path, bytes]:
    keys = key_path(settings.database, settings.key_file)
    # The tokens of a demo world, which are stored nowhere else.
    demo = KeyFile(demo_file(str(keys)), ".demo.json")
    return keys_to_place(Path(path), (*key_files(settings), demo))


def _refuse_missing_keys(source: Source, path: str, settings: Settings) -> None:
    keys = key_path(settings.database, settings.key_file)
    beside = key_path(f"sqlite:///{path}", "")
    if not keys.exists() and not beside.exists() and source.has_sealed():
        raise CommandError(
            f"The source has encrypted data, and neither {beside} nor {keys} (setting key_file) is "
            "there: set key_file to the file with its keys."
        )


def _refuse_other_keys(source: Source, path: str, settings: Settings) -> None:
    marks = list(source.rows(key_check))
    for file in files_beside(Path(path), settings):
        refuse_other(file, {key_id: mark for name, key_id, mark in marks if name == file.setting})


def _shown(done: Move) -> list[str | Table]:
    rows = sum(each.rows for each in done.tables)
    shown: list[str | Table] = [
        f"{file} is a copy of what the source has: keep it private." for file in done.files
    ]
    shown.append(
        Table(
            ("table", "key", "what differs"),
            [(each.table, each.key, each.what) for each in done.differences],
            empty=f"{rows:,} rows are moved to {done.target}, and each is the same there.",
        )
    )
    if not done.differences:
        passed = (
            "It passed the audit. From now on let the gateways serve that database, not the file."
        )
        shown.append(table_of_breaches(done.breaches, passed))
    return shown


def _failure(done: Move) -> str | None:
    if done.differences:
        return (
            f"The move failed: rows that differ, {len(done.differences):,}. If the source was "
            "changed since the move began, run it again with --restart, which empties the target."
        )
    if done.breaches:
        return (
            f"The audit failed: breaches found, {len(done.breaches):,}. They are in the source "
            "too: look at them there, then run the move again."
        )
    return None

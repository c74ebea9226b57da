"""The steps of a move: check the keys, copy, compare, audit. Only then does it count as done."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from sqlalchemy import Table

from tollway.audit.check import Breach
from tollway.audit.report import CHECKS, audit
from tollway.cli.backup_files import KeyFile, key_files
from tollway.cli.errors import CommandError
from tollway.cli.progress import progress_bar
from tollway.cli.restoring import files_beside, keys_to_place, placed
from tollway.demo.world import demo_file
from tollway.ledger.runtime import Runtime
from tollway.operations.catalogue import ALL_TABLES
from tollway.settings import Settings
from tollway.store.database import StoreError, StoreUnavailableError
from tollway.store.key_check import refuse_other
from tollway.store.moving.copying import Difference, copy_rows, differences, refuse_other_schema
from tollway.store.moving.source import Source, moved_tables, open_source
from tollway.store.moving.target import Target, open_target
from tollway.store.open import key_path, open_database, without_password
from tollway.store.schema.database import key_check
from tollway.telemetry.metrics import Metrics


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


async def move_database(path: str, settings: Settings, *, should_restart: bool) -> Move:
    """Moves the file to the database of the settings, compares both, and audits the outcome."""
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
async def _opened(url: str, tables: Sequence[Table]) -> AsyncIterator[Target]:
    try:
        async with open_target(url, tables) as target:
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
            return (await audit(database, Runtime().at_ms(), advance)).damage
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
    marks = list(source.rows(key_check))
    for file in files_beside(Path(path), settings):
        refuse_other(file, {key_id: mark for name, key_id, mark in marks if name == file.setting})

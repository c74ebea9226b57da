"""Brings a database's schema up to date, on either engine.

The first migration is the baseline. Every later one declares whether gateways of the version
before it can keep serving on the new schema (`safe_while_serving`). A migration that does not is
refused while such gateways serve, and raises `schema_floor`: those versions then refuse the
database.
"""

import io
import time
from collections.abc import Awaitable, Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from sqlalchemy import column, func, select, table

from tollway.store.database import Reader, StoreError, Transaction
from tollway.store.query import Query
from tollway.store.schema.database import schema_floor

# Every command compares revisions, and few migrate: Alembic is loaded where it is used.
if TYPE_CHECKING:
    from alembic.config import Config
    from alembic.script import Script, ScriptDirectory

_LOCATION = str(Path(__file__).with_name("migrations"))
_FLOOR = Query(lambda: select(schema_floor.c.revision))
# A table that is there, of whatever program.
_A_TABLE = {
    "sqlite": Query(
        lambda: (
            select(column("name"))
            .select_from(table("sqlite_schema"))
            .where(column("type") == "table", column("name").not_like("sqlite_%"))
            .limit(1)
        )
    ),
    "postgresql": Query(
        lambda: (
            select(column("tablename"))
            .select_from(table("pg_tables"))
            .where(column("schemaname") == func.current_schema())
            .limit(1)
        )
    ),
}

Plan = Callable[[Transaction, str | None], Awaitable[str]]


class Migratable(Reader, Protocol):
    """What a migration needs of a database."""

    dialect: str

    async def schema_revision(self) -> str | None:
        """The revision the database is at; None when it is empty or of another program."""

    async def schema_differences(self) -> list[str]:
        """The parts of the schema that no migration made, or that differ from what one made."""

    async def unfinished_move(self) -> str | None:
        """What is being moved into the database; None if nothing is."""

    async def upgrade(self, plan: Plan) -> str | None:
        """Reads the revision, runs the script planned for it, and returns that revision: all in one
        transaction, under a lock that other migrations and starting gateways wait for."""


class SchemaError(StoreError):
    """The database's schema is not one that this version can serve, or cannot be changed now."""


def newest_revision() -> str:
    """Read from the names of the files, which begin with their revisions."""
    names = (path.name for path in Path(_LOCATION, "versions").glob("[0-9]*.py"))
    return max(names).partition("_")[0]


async def migrate(database: Migratable, *, is_alone: bool = False) -> tuple[str | None, str]:
    """Migrates to the newest revision; returns the revision before and after.

    With `is_alone`, the caller knows that no gateway serves the database, whatever `node` says.
    """

    async def plan(transaction: Transaction, revision: str | None) -> str:
        check_known(revision)
        script = migration_script(database.dialect, revision)
        if not script.strip():
            return ""
        floor = _floor()
        if revision is None:
            await _refuse_others_tables(transaction, database.dialect)
        elif not is_alone:
            await _refuse_while_older_serve(transaction, floor)
        return f"{script}\nUPDATE schema_floor SET revision = '{floor}';\n"

    before, newest = await database.schema_revision(), newest_revision()
    if before != newest:
        if await _is_newer_and_compatible(database, before):
            assert before is not None
            return before, before
        before = await database.upgrade(plan)
    return before, newest


async def check_current(database: Migratable) -> None:
    """Refuses a database that has not been migrated, that only newer versions can serve, or whose
    move is unfinished."""
    found, newest = await database.schema_revision(), newest_revision()
    if found != newest and not await _is_newer_and_compatible(database, found):
        check_known(found)
        if found is None:
            await _refuse_others_tables(database, database.dialect)
        raise SchemaError(
            f"The database is at schema {found or 'none'}, this version needs {newest}: "
            "run `tollway migrate`."
        )
    if (source := await database.unfinished_move()) is not None:
        raise SchemaError(
            f"A move of {source} into the database is not finished: run `tollway move` again."
        )


async def check_unchanged(database: Migratable) -> None:
    """Refuses a database whose schema another program has changed, because it would not behave as
    this code expects. A schema newer than this version's cannot be checked."""
    if await database.schema_revision() != newest_revision():
        return
    if found := await database.schema_differences():
        raise SchemaError(
            "The database was changed by another program, or is of a development version: "
            f"{'; '.join(found)}. Undo that, or restore a backup."
        )


def migration_script(dialect: str, start: str | None) -> str:
    """The SQL that leads from one revision to the newest."""
    from alembic import command  # noqa: PLC0415

    output = io.StringIO()
    config = _config(output)
    config.attributes["dialect"] = dialect
    command.upgrade(config, f"{start or 'base'}:head", sql=True)
    return output.getvalue()


def check_known(revision: str | None) -> None:
    """Refuses the revision of a newer version."""
    if revision is not None and revision not in _known():
        raise SchemaError(
            f"The database is at schema {revision}, which this version does not know: "
            "it was used by a newer Tollway. Run that version."
        )


async def _is_newer_and_compatible(database: Migratable, found: str | None) -> bool:
    if found is None or found in _known():
        return False
    row = await database.fetch_one(_FLOOR)
    return row is not None and row[0] in _known()


async def _refuse_others_tables(reader: Reader, dialect: str) -> None:
    """A mistyped name can be that of another program's database."""
    row = await reader.fetch_one(_A_TABLE[dialect])
    if row is not None:
        raise SchemaError(
            f"The database has tables, such as {row[0]}, and no schema of Tollway: it may be of "
            "another program. Name another one, or make an empty one."
        )


async def _refuse_while_older_serve(transaction: Transaction, floor: str) -> None:
    from tollway.store.serving_nodes import ALIVE_S, serving_nodes  # noqa: PLC0415

    own_ms = int(time.time() * 1000)
    names = await serving_nodes(transaction, older_than=floor, own_ms=own_ms)
    if names:
        raise SchemaError(
            f"Schema {floor} cannot be served by the gateways that run now: {', '.join(names)}. "
            f"Stop them, then migrate. One that was killed counts for {ALIVE_S} seconds."
        )


def _floor() -> str:
    """The oldest schema whose gateways can serve on the newest one."""
    return max(
        each.revision
        for each in _scripts()
        if not getattr(each.module, "safe_while_serving", False)
    )


def _known() -> set[str]:
    return {script.revision for script in _scripts()}


def _scripts() -> "list[Script]":
    return list(_migrations(_LOCATION).walk_revisions())


@cache
def _migrations(_: str) -> "ScriptDirectory":
    """Cached: the migrations do not change while a program runs."""
    from alembic.script import ScriptDirectory  # noqa: PLC0415

    return ScriptDirectory.from_config(_config())


def _config(output: io.StringIO | None = None) -> "Config":
    from alembic.config import Config  # noqa: PLC0415

    config = Config(output_buffer=output or io.StringIO())
    config.set_main_option("script_location", _LOCATION)
    config.set_main_option("path_separator", "os")
    return config

"""Brings a database's schema up to date, whichever engine runs it.

Every migration says whether gateways of the version before it can go on serving on its outcome
(`safe_while_serving`). One that does not say so, or says no, is refused while such gateways serve;
and once it is done, their versions refuse the database: `schema_floor` tells them.
"""

import io
import time
from collections.abc import Awaitable, Callable
from functools import cache
from importlib.resources import files
from typing import Protocol

from alembic import command
from alembic.config import Config
from alembic.script import Script, ScriptDirectory
from sqlalchemy import select

from tollway.store.database import Reader, StoreError, Transaction
from tollway.store.nodes import ALIVE_S, serving_nodes
from tollway.store.query import Query
from tollway.store.schema.database import schema_floor

_LOCATION = str(files("tollway.store").joinpath("migrations"))
# The first schema that knows of nodes.
_FIRST_FLOOR = "0011"
_FLOOR = Query(select(schema_floor.c.revision))

Plan = Callable[[Transaction, str | None], Awaitable[str]]


class Migratable(Reader, Protocol):
    """What a migration needs of a database."""

    dialect: str

    async def schema_revision(self) -> str | None:
        """The revision the database is at; None when it is empty."""

    async def unfinished_move(self) -> str | None:
        """What is being moved into the database; None when it is whole."""

    async def upgrade(self, plan: Plan) -> str | None:
        """Finds out the revision, runs the script that leads on from it, and gives the revision:
        all in one transaction, while no other process does the same and no gateway starts."""


class SchemaError(StoreError):
    """The database's schema is not one that this version can serve, or cannot be changed now."""


def newest_revision() -> str:
    head = _migrations(_LOCATION).get_current_head()
    assert head is not None
    return head


async def migrate(database: Migratable, *, is_alone: bool = False) -> tuple[str | None, str]:
    """Migrates to the newest revision; gives the revision before and after.

    `is_alone` says that no gateway serves the database, whatever its table of nodes says.
    """

    async def plan(transaction: Transaction, revision: str | None) -> str:
        check_known(revision)
        script = migration_script(database.dialect, revision)
        if not script.strip():
            return ""
        floor = _floor()
        if not is_alone and (revision or "") >= _FIRST_FLOOR:
            await _check_nobody_older_serves(transaction, floor)
        return f"{script}\nUPDATE schema_floor SET revision = '{floor}';\n"

    before, newest = await database.schema_revision(), newest_revision()
    if before != newest:
        if await _is_newer_and_compatible(database, before):
            assert before is not None
            return before, before
        before = await database.upgrade(plan)
    return before, newest


async def check_current(database: Migratable) -> None:
    """Refuses a database that has not been migrated, that a newer version has made its own, or that
    is not whole."""
    found, newest = await database.schema_revision(), newest_revision()
    if found != newest and not await _is_newer_and_compatible(database, found):
        check_known(found)
        raise SchemaError(
            f"The database is at schema {found or 'none'}, this version needs {newest}: "
            "run `tollway migrate`."
        )
    if (source := await database.unfinished_move()) is not None:
        raise SchemaError(
            f"A move of {source} into the database is not finished: run `tollway move` again."
        )


def migration_script(dialect: str, start: str | None) -> str:
    """The SQL that leads from one revision to the newest."""
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


async def _check_nobody_older_serves(transaction: Transaction, floor: str) -> None:
    own_ms = int(time.time() * 1000)
    names = await serving_nodes(transaction, older_than=floor, own_ms=own_ms)
    if names:
        raise SchemaError(
            f"Schema {floor} cannot be served by the gateways that run now: {', '.join(names)}. "
            f"Stop them, then migrate. One that was killed counts for {ALIVE_S} seconds."
        )


def _floor() -> str:
    """The oldest schema whose gateways can serve on the newest one."""
    unsafe = (
        each.revision
        for each in _scripts()
        if not getattr(each.module, "safe_while_serving", False)
    )
    return max([_FIRST_FLOOR, *unsafe])


def _known() -> set[str]:
    return {script.revision for script in _scripts()}


def _scripts() -> list[Script]:
    return list(_migrations(_LOCATION).walk_revisions())


@cache
def _migrations(_: str) -> ScriptDirectory:
    """Read once per place: they do not change while a program runs."""
    return ScriptDirectory.from_config(_config())


def _config(output: io.StringIO | None = None) -> Config:
    config = Config(output_buffer=output or io.StringIO())
    config.set_main_option("script_location", _LOCATION)
    config.set_main_option("path_separator", "os")
    return config

"""Brings a database's schema up to date, whichever engine runs it."""

import io
from collections.abc import Callable
from importlib.resources import files
from typing import Protocol

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory

from tollway.store.database import StoreError


class Migratable(Protocol):
    """What a migration needs of a database."""

    dialect: str

    async def schema_revision(self) -> str | None:
        """The revision the database is at; None when it is empty."""

    async def unfinished_move(self) -> str | None:
        """What is being moved into the database; None when it is whole."""

    async def upgrade(self, script_from: Callable[[str | None], str]) -> str | None:
        """Finds out the revision, runs the script that leads on from it, and gives the revision:
        all in one transaction, and while nobody else does the same."""


class SchemaError(StoreError):
    """The database's schema is not one that this version can serve."""


def newest_revision() -> str:
    head = ScriptDirectory.from_config(_config()).get_current_head()
    assert head is not None
    return head


async def migrate(database: Migratable) -> tuple[str | None, str]:
    """Migrates to the newest revision; gives the revision before and after."""

    def script_from(revision: str | None) -> str:
        check_known(revision)
        return migration_script(database.dialect, revision)

    before, newest = await database.schema_revision(), newest_revision()
    if before != newest:
        before = await database.upgrade(script_from)
    return before, newest


async def check_current(database: Migratable) -> None:
    """Refuses a database that has not been migrated, or by a newer version, or is not whole."""
    found, newest = await database.schema_revision(), newest_revision()
    if found != newest:
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
    known = {script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()}
    if revision is not None and revision not in known:
        raise SchemaError(
            f"The database is at schema {revision}, which this version does not know: "
            "it was used by a newer Tollway. Run that version."
        )


def _config(output: io.StringIO | None = None) -> Config:
    config = Config(output_buffer=output or io.StringIO())
    location = str(files("tollway.store").joinpath("migrations"))
    config.set_main_option("script_location", location)
    config.set_main_option("path_separator", "os")
    return config

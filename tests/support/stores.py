"""A migrated database on the engine of the running test, and what is done to it from outside."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import apsw

from tests.support import engines
from tests.support.kept_connections import run_kept, with_kept
from tests.support.postgresql import copy_of, locked, new_database, run_on
from tollway.store.migrate import migrate
from tollway.store.open import OpenDatabase, open_database
from tollway.store.postgresql.database import PostgresqlDatabase
from tollway.store.sqlite.database import SqliteDatabase
from tollway.telemetry.metrics import Metrics

T = TypeVar("T")
_PATIENCE_MS = 10_000


class Store:
    """A database, and what a test does to it from outside, as the command line would.

    `path` is the file of an embedded database; of a shared one it is only where files that belong
    to it are kept.
    """

    def __init__(self, path: Path, url: str | None = None) -> None:
        self.path = path
        self.is_shared = engines.in_use() == "postgresql"
        self.url = url or (new_database() if self.is_shared else f"sqlite:///{path}")
        self.key_file = f"{path}.keys" if self.is_shared else ""
        self.secret_file = f"{path}.secret" if self.is_shared else ""
        if not self.is_shared and not path.exists():
            path.write_bytes(_migrated_file())
            path.chmod(0o600)
        elif url is not None or not self.is_shared:
            self.do(migrate)

    @property
    def settings(self) -> dict[str, str]:
        """The settings with which a gateway or a command uses it."""
        files = {"TOLLWAY_KEY_FILE": self.key_file, "TOLLWAY_SECRET_FILE": self.secret_file}
        return {
            "TOLLWAY_DATABASE": self.url,
            **{name: file for name, file in files.items() if file},
        }

    def copied_to(self, path: Path) -> "Store":
        """Another database with the same content; no process may be using this one."""
        for ending in (".keys", ".secret"):
            file = Path(f"{self.path}{ending}")
            if file.exists():
                shutil.copy(file, f"{path}{ending}")
        if self.is_shared:
            return Store(path, copy_of(self.url))
        shutil.copy(self.path, path)
        return Store(path)

    def do(self, work: Callable[[OpenDatabase], Awaitable[T]]) -> T:
        async def run() -> T:
            database = open_database(self.url, Metrics())
            if isinstance(database, PostgresqlDatabase):
                return await with_kept(self.url, database, work)
            try:
                return await work(database)
            finally:
                await database.close()

        return run_kept(run()) if self.is_shared else asyncio.run(run())

    def run(self, statement: str) -> list[tuple[Any, ...]]:
        """Runs one statement in a transaction of its own."""
        return self.run_all(statement)

    def run_all(self, *statements: str) -> list[tuple[Any, ...]]:
        """Runs statements, each in a transaction of its own; gives the rows of the last."""
        if self.is_shared:
            return run_on(self.url, *statements)
        connection = apsw.Connection(str(self.path))
        # A gateway may be writing at the moment.
        connection.set_busy_timeout(_PATIENCE_MS)
        try:
            *others, last = statements
            for each in others:
                connection.execute(each).fetchall()
            return connection.execute(last).fetchall()
        finally:
            connection.close()

    def run_unchecked(self, statement: str) -> None:
        """Runs a statement that what is checked of every row would refuse."""
        if self.is_shared:
            self.drop_checks()
            run_on(self.url, *statement.split(";"))
            return
        connection = apsw.Connection(str(self.path))
        connection.set_busy_timeout(_PATIENCE_MS)
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute(statement).fetchall()
        connection.close()

    def drop_checks(self) -> None:
        """Spares copies of it the time; a file has its checks ignored by each connection."""
        if self.is_shared and (checks := run_on(self.url, _CHECKS)):
            run_on(
                self.url, *(f"ALTER TABLE {table} DROP CONSTRAINT {name}" for table, name in checks)
            )

    def content(self) -> bytes:
        """All that is kept, as it is kept; where that is not in reach, every row."""
        if self.is_shared:
            every_row = " UNION ALL ".join(
                f"SELECT row_to_json(t)::text FROM {name} t"
                for (name,) in run_on(self.url, _TABLES)
            )
            return "\n".join(text for (text,) in run_on(self.url, every_row)).encode()
        return b"".join(path.read_bytes() for path in self.path.parent.glob(f"{self.path.name}*"))

    @contextmanager
    def held(self) -> Iterator[None]:
        """No other process can write meanwhile, as if another writer took long."""
        if self.is_shared:
            with locked(self.url, *(name for (name,) in run_on(self.url, _TABLES))):
                yield
            return
        connection = apsw.Connection(str(self.path))
        connection.set_busy_timeout(_PATIENCE_MS)
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            connection.execute("ROLLBACK")
            connection.close()


@cache
def _migrated_file() -> bytes:
    """What every new file begins as: to migrate each of them would take much longer."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "template.db"
        database = SqliteDatabase(str(path), _PATIENCE_MS / 1000, Metrics())

        async def work() -> None:
            await migrate(database)
            await database.close()

        asyncio.run(work())
        return path.read_bytes()


_CHECKS = """
SELECT conrelid::regclass::text, conname::text FROM pg_constraint
WHERE contype = 'c' AND connamespace = 'public'::regnamespace AND coninhcount = 0"""
_TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"

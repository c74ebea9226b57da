"""From a database URL to an open database."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from tollway.settings import Settings
from tollway.store.cache_versions import Versions
from tollway.store.database import Database, StoreError, Timings
from tollway.store.durable_files import to_disk, written_meanwhile
from tollway.store.postgresql.urls import parts_of, unverified_hosts
from tollway.store.sqlite.database import SqliteDatabase
from tollway.store.sqlite.files import WriteLock, is_served, put_in_place, side_files_of
from tollway.store.sqlite.path_check import check_content, check_path
from tollway.store.sqlite.write_ahead_log import rewrite_left_log

# Most commands open a file and seal nothing: the driver of the other engine, and the cryptography,
# are loaded where they are used.
if TYPE_CHECKING:
    from tollway.store.postgresql.database import PostgresqlDatabase
    from tollway.store.sealing import Sealer

_SQLITE_PREFIX = "sqlite:///"
# An in-memory database would end with the process, and each connection would have its own.
_IN_MEMORY = ":memory:"
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:(//)?", re.IGNORECASE)
_FILE = re.compile(r"[\w./~-]*")
_POSTGRESQL = ("postgresql", "postgres")
# How long a command waits for another writer.
_COMMAND_PATIENCE_S = 10.0

OpenDatabase: TypeAlias = "SqliteDatabase | PostgresqlDatabase"


def open_database(
    url: str,
    metrics: Timings,
    call_timeout_s: float | None = None,
    connections: int | None = None,
    write_lock: WriteLock | None = None,
) -> OpenDatabase:
    """Opens a database. A gateway sets how long a call may take; a command has no such limit. With
    `write_lock`, the workers on one file write in turns."""
    if is_shared(url):
        from tollway.store.postgresql.database import (  # noqa: PLC0415
            CONNECTIONS_MAX,
            PostgresqlDatabase,
        )

        connections = connections or CONNECTIONS_MAX
        return PostgresqlDatabase(url, call_timeout_s, metrics, connections=connections)
    check_file(url)
    path = sqlite_path(url)
    is_of_command = call_timeout_s is None
    # A gateway does this itself when it starts.
    if is_of_command and not is_served(path):
        rewrite_left_log(path)
    patience_s = call_timeout_s or _COMMAND_PATIENCE_S
    return SqliteDatabase(path, patience_s, metrics, write_lock, is_brief=is_of_command)


@asynccontextmanager
async def unfinished_file(url: str, metrics: Timings) -> AsyncIterator[SqliteDatabase]:
    """A new database file, to be filled in the block. It gets its name once it is complete and on
    disk; if that fails, or the process is killed, there is no file under that name."""
    check_file(url)
    path = Path(sqlite_path(url))
    unfinished = path.with_name(f"{path.name}.unfinished")
    unfinished.unlink(missing_ok=True)
    database = SqliteDatabase(str(unfinished), _COMMAND_PATIENCE_S, metrics, is_unfinished=True)
    try:
        with written_meanwhile(unfinished):
            try:
                yield database
            finally:
                await database.close()
        _give_name(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def _give_name(unfinished: Path, path: Path) -> None:
    to_disk(unfinished)
    # SQLite would take a log that a deleted database left behind for commits of the new one.
    for file in side_files_of(path):
        file.unlink()
    put_in_place(unfinished, path, None)
    to_disk(path.resolve().parent)


def open_reading(
    settings: Settings, primary: OpenDatabase, versions: Versions, metrics: Timings
) -> Database:
    """What reading operations read from: a replica, if one is set, or the database itself."""
    if not settings.read_database or isinstance(primary, SqliteDatabase):
        return primary
    from tollway.store.postgresql.database import PostgresqlDatabase  # noqa: PLC0415
    from tollway.store.postgresql.replica import ReadingDatabase  # noqa: PLC0415

    replica = PostgresqlDatabase(
        settings.read_database,
        settings.call_timeout_s,
        metrics,
        connections=settings.database_connections,
        session="any",
    )
    return ReadingDatabase(primary, replica, versions, settings.read_lag_s)


def check_file(url: str) -> None:
    """Refuses a file that cannot be a database, before anything is made beside it."""
    if not is_shared(url):
        path = Path(sqlite_path(url))
        check_path(path)
        check_content(path)


def is_shared(url: str) -> bool:
    """Whether several gateways can serve the database; a file can be served by one only."""
    scheme, mark, _ = url.partition("://")
    return bool(mark) and scheme.lower() in _POSTGRESQL


def sqlite_path(url: str) -> str:
    """The file behind a database URL."""
    if not url.startswith(_SQLITE_PREFIX):
        raise StoreError(
            "A database URL begins with sqlite:/// or postgresql://, this one with "
            f"{_beginning(url)}. Write sqlite:///FILE, with three slashes, or "
            "postgresql://USER:PASSWORD@HOST/NAME."
        )
    path = url.removeprefix(_SQLITE_PREFIX)
    if not path or path.endswith("/"):
        raise StoreError("The database URL names no file: write sqlite:///FILE.")
    if path == _IN_MEMORY:
        raise StoreError(
            "A gateway's database is stored in a file: write sqlite:///FILE, not :memory:."
        )
    return path


def without_password(url: str) -> str:
    """A database URL as it may be shown: a shared one with user, hosts and name only."""
    if not is_shared(url):
        return url if url.startswith(_SQLITE_PREFIX) else _beginning(url)
    parts = parts_of(url)
    who, at, hosts = parts.netloc.rpartition("@")
    return f"{parts.scheme}://{who.partition(':')[0]}{at}{hosts}{parts.path}"


def unverified_links(settings: Settings) -> list[str]:
    """A sentence for each database whose connection another machine could impersonate."""
    urls = {"database": settings.database, "read_database": settings.read_database}
    return [
        f"A machine between here and {', '.join(hosts)} could read and change what is sent: add "
        f"sslmode=verify-full&sslrootcert=FILE to the URL of setting {setting}."
        for setting, url in urls.items()
        if is_shared(url) and (hosts := unverified_hosts(url))
    ]


def _beginning(url: str) -> str:
    """The part of an unknown URL that can be shown: a password may follow it."""
    found = _SCHEME.match(url)
    if found is not None:
        return found[0]
    # A file that was written without its scheme; anything else may be part of a password.
    return url if _FILE.fullmatch(url) else "something else"


def key_path(url: str, key_file: str) -> Path:
    """The key file of a database: beside it, unless the settings put it elsewhere."""
    return _own_file(url, "key_file", key_file, ".keys")


def secret_path(url: str, secret_file: str) -> Path:
    """The secret file of the gateways of a database: beside it, unless the settings say where."""
    return _own_file(url, "secret_file", secret_file, ".secret")


def open_sealer(url: str, key_file: str) -> "Sealer":
    from tollway.store.sealing import load_sealer  # noqa: PLC0415

    return load_sealer(key_path(url, key_file))


def _own_file(url: str, setting: str, chosen: str, ending: str) -> Path:
    if chosen:
        return Path(chosen)
    if is_shared(url):
        raise StoreError(
            f"PostgreSQL has no folder for the gateway's own files: name one with the setting "
            f"{setting} (TOLLWAY_{setting.upper()}=FILE), the same on every node."
        )
    return Path(sqlite_path(url) + ending)

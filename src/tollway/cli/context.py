"""What a command works with: the settings in force and an open database, closed when it ends."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from tollway.carriers.vault import Vault, load_vault
from tollway.cli.setting_sources import load_settings
from tollway.ledger.runtime import Runtime
from tollway.operations.catalogue import ALL_TABLES
from tollway.settings import Settings
from tollway.store.database import (
    StoreBusyError,
    StoreDoubtError,
    StoreError,
    StoreUnavailableError,
)
from tollway.store.key_check import key_file_of, use_files
from tollway.store.migrate import check_current
from tollway.store.open import (
    OpenDatabase,
    is_shared,
    key_path,
    open_database,
    open_sealer,
    sqlite_path,
    without_password,
)
from tollway.store.sealing import Sealer
from tollway.telemetry.metrics import Metrics

T = TypeVar("T")


@dataclass(frozen=True)
class Session:
    """One command's settings, database, clock and chance."""

    settings: Settings
    database: OpenDatabase
    runtime: Runtime = field(default_factory=Runtime)

    async def sealer(self) -> Sealer:
        """Only where it is needed: it makes the key file if there is none."""
        await use_files(self.database, [key_file_of(self.settings)], ALL_TABLES)
        return open_sealer(self.settings.database, self.settings.key_file)

    async def vault(self) -> Vault:
        """The keys of waybills, likewise."""
        await use_files(self.database, [key_file_of(self.settings)], ALL_TABLES)
        return load_vault(key_path(self.settings.database, self.settings.key_file))


def run(url: str | None, work: Callable[[Session], Awaitable[T]]) -> T:
    """Runs a command's work on a database that is there and up to date."""
    settings, _ = load_settings({"database": url})
    if not is_shared(settings.database):
        _check_file(sqlite_path(settings.database))

    async def checked(session: Session) -> T:
        await check_current(session.database)
        return await work(session)

    return asyncio.run(_with_database(settings, checked))


def _check_file(path: str) -> None:
    # Opening would make the file, and a mistyped name would look like an empty gateway.
    if not Path(path).is_file():
        raise StoreError(
            f"There is no database file {path}: run `tollway migrate` to create it, "
            "or `tollway serve --demo` to try Tollway out."
        )


def run_on_any_schema(
    url: str | None,
    work: Callable[[Session], Awaitable[T]],
    options: Mapping[str, object] | None = None,
) -> T:
    """Runs work on a database as it is, and makes the file when there is none."""
    settings, _ = load_settings({**(options or {}), "database": url})
    return asyncio.run(_with_database(settings, work))


async def _with_database(settings: Settings, work: Callable[[Session], Awaitable[T]]) -> T:
    shown = without_password(settings.database)
    try:
        database = open_database(settings.database, Metrics())
        try:
            return await work(Session(settings, database))
        finally:
            await database.close()
    except StoreBusyError:
        raise StoreError(
            f"The database {shown} is busy: another program has been using it "
            "for a long time. Try again."
        ) from None
    except StoreDoubtError as error:
        # Whoever took this for a failure would run it again, and credit an account twice.
        raise StoreError(
            f"The database {shown} was lost during the commit ({error}), so it is not known "
            "whether the change was made: look, for instance with `tollway ledger show`, before "
            "you run the command again."
        ) from None
    except StoreUnavailableError as error:
        raise StoreError(f"The database {shown} cannot be read or written: {error}.") from None

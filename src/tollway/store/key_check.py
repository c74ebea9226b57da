"""Which keys a database is used with, so that it is not used with others by mistake.

The database has a fingerprint of every key: derived from the key for this purpose alone, it shows
whether another key is the same, and decrypts nothing. The first process that uses a key stores its
fingerprint. Every later process compares it before it reads, writes or makes anything.
"""

import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import Table, bindparam, exists, func, or_, select

from tollway.settings import Settings
from tollway.store.database import Database, Reader, StoreError, Transaction
from tollway.store.key_file import read_keys
from tollway.store.keys import derived, load_secret
from tollway.store.migrate import Migratable
from tollway.store.open import is_shared, key_path, secret_path, sqlite_path
from tollway.store.query import Query, insert_row
from tollway.store.schema import sealed_columns, sealed_tables
from tollway.store.schema.database import key_check
from tollway.store.sqlite.path_check import user_name

KEY_FILE, SECRET_FILE = "key_file", "secret_file"
# The id of a key that is the only one in its file.
_ONLY = 0

_READ = Query(lambda: select(key_check.c.setting, key_check.c.key_id, key_check.c.fingerprint))
_ENTER = Query(lambda: insert_row(key_check).on_conflict_do_nothing())
_FORGET = Query(lambda: key_check.delete().where(key_check.c.setting == bindparam("its")))

# A secret that decrypts no data may be replaced at any time.
_ON_PURPOSE = {
    SECRET_FILE: ", or run `tollway keys accept secret_file` if it was replaced on purpose"
}
_IF_LOST = {
    SECRET_FILE: ", or run `tollway keys accept secret_file` if it is lost: it makes a new one"
}

Fingerprints = Mapping[int, bytes]


class KeyFileError(StoreError):
    """A file is not the one that the database is used with."""


class CheckedKeyFile(NamedTuple):
    """A file with keys whose fingerprints the database has: the setting that names it, its path."""

    setting: str
    path: Path

    def __str__(self) -> str:
        return f"{self.setting.replace('_', ' ')} {self.path}"

    def present(self) -> Path:
        """Its path; the file must exist, because `tollway serve` makes it when it starts."""
        if not self.path.exists():
            raise KeyFileError(
                f"There is no {self}: put it back, or if there never was one, run `tollway serve`, "
                "which makes it."
            )
        return self.path

    def fingerprints(self) -> Fingerprints:
        """The fingerprints of its keys; the file is made if there is none."""
        if self.setting == SECRET_FILE:
            return {_ONLY: derived(load_secret(self.path), "key fingerprint")}
        keys, _ = read_keys(self.path)
        return {key_id: derived(key, "key fingerprint") for key_id, key in keys.items()}


def key_file_of(settings: Settings) -> CheckedKeyFile:
    return CheckedKeyFile(KEY_FILE, key_path(settings.database, settings.key_file))


def secret_file_of(settings: Settings) -> CheckedKeyFile:
    return CheckedKeyFile(SECRET_FILE, secret_path(settings.database, settings.secret_file))


def files_of(settings: Settings) -> tuple[CheckedKeyFile, CheckedKeyFile]:
    return key_file_of(settings), secret_file_of(settings)


def refuse_unusable(file: CheckedKeyFile) -> None:
    """Refuses a file that can neither be read nor made, and makes none."""
    if file.path.exists():
        file.fingerprints()
    elif not os.access(file.path.parent, os.W_OK | os.X_OK):
        raise KeyFileError(
            f"There is no {file}, and none can be made in {file.path.parent}: make that folder, "
            f"let user {user_name()} write to it, or set {file.setting} to a file that can be read."
        )


def readable_by_others(settings: Settings) -> list[str]:
    """A sentence for each file of secrets or personal data that other users can read. Only a
    warning, because containers mount secrets that way."""
    paths = [file.path for file in files_of(settings)]
    if not is_shared(settings.database):
        paths.append(Path(sqlite_path(settings.database)))
    return [
        f"Other users of this machine can read {path}: run `chmod 600 {path}`."
        for path in paths
        if path.exists() and path.stat().st_mode & 0o044
    ]


def refuse_other(file: CheckedKeyFile, known: Fingerprints) -> None:
    """Refuses a file that is not the one whose keys have these fingerprints, if there are any."""
    if not known:
        return
    if not file.path.exists():
        raise KeyFileError(
            f"There is no {file}, and the database is used with one already: set {file.setting} "
            f"to the file with its {_named(known)}{_IF_LOST.get(file.setting, '')}."
        )
    fingerprints = file.fingerprints()
    different = [
        key_id
        for key_id, fingerprint in fingerprints.items()
        if known.get(key_id, fingerprint) != fingerprint
    ]
    if different:
        raise KeyFileError(
            f"The {file} has another {_named(different)} than the one that the database is used "
            f"with: set {file.setting} to the right file{_ON_PURPOSE.get(file.setting, '')}."
        )
    if not fingerprints.keys() & known.keys():
        raise KeyFileError(
            f"The {file} does not have {_named(known)}, which the database is used with: set "
            f"{file.setting} to the right file."
        )


async def refuse_others(database: Migratable, files: Sequence[CheckedKeyFile]) -> None:
    """The same for all files of a database, which may still be empty."""
    if await database.schema_revision() is not None:
        known = await _known(database)
        for file in files:
            refuse_other(file, known[file.setting])


async def refuse_without_sealing_keys(
    reader: Reader, files: Sequence[CheckedKeyFile], tables: Iterable[Table]
) -> None:
    """Refuses a key file without the keys of all sealed records: a backup may have some of a key
    that was dropped since."""
    for file in (each for each in files if each.setting == KEY_FILE):
        missing = await _sealing_keys(reader, tables) - file.fingerprints().keys()
        if missing:
            raise KeyFileError(
                f"The {file} does not have {_named(missing)}, which records are encrypted with: "
                f"set {file.setting} to the key file of the time of the backup."
            )


async def settings_of_keys(reader: Reader, tables: Iterable[Table]) -> set[str]:
    """The settings of the files that a database cannot be used without."""
    needed = {setting for setting, fingerprints in (await _known(reader)).items() if fingerprints}
    return needed | {KEY_FILE} if await _is_sealed(reader, tables) else needed


async def use_files(
    database: Database, files: Sequence[CheckedKeyFile], tables: Iterable[Table]
) -> None:
    """Makes files that do not exist, stores the fingerprints of new keys, and refuses files with
    other keys."""
    known = await _known(database)
    for file in files:
        refuse_other(file, known[file.setting])
        if file.setting == KEY_FILE and not known[KEY_FILE] and not file.path.exists():
            await _refuse_sealed(database, file, tables)
    rows = [row for file in files for row in _rows(file)]
    if all(key_id in known[setting] for setting, key_id, _ in rows):
        return
    await database.write(lambda transaction: transaction.execute_many(_ENTER, rows))
    # Another process may have been first.
    known = await _known(database)
    for file in files:
        refuse_other(file, known[file.setting])


async def accept_file(
    database: Database,
    file: CheckedKeyFile,
    record: Callable[[Transaction, list[int]], Awaitable[None]],
) -> list[int]:
    """Uses the database with this file from now on, and makes the file if there is none. Records
    and returns the ids of the keys that are no longer used."""
    rows = _rows(file)
    fingerprints = {key_id: fingerprint for _, key_id, fingerprint in rows}

    async def work(transaction: Transaction) -> list[int]:
        known = (await _known(transaction))[file.setting]
        await transaction.execute(_FORGET, its=file.setting)
        await transaction.execute_many(_ENTER, rows)
        gone = sorted(key_id for key_id in known if fingerprints.get(key_id) != known[key_id])
        await record(transaction, gone)
        return gone

    return await database.write(work)


def _rows(file: CheckedKeyFile) -> list[tuple[str, int, bytes]]:
    return [
        (file.setting, key_id, fingerprint) for key_id, fingerprint in file.fingerprints().items()
    ]


async def _known(reader: Reader) -> dict[str, dict[int, bytes]]:
    known: dict[str, dict[int, bytes]] = {KEY_FILE: {}, SECRET_FILE: {}}
    for setting, key_id, fingerprint in await reader.fetch_all(_READ):
        known[setting][key_id] = fingerprint
    return known


@cache
def has_rows(tables: tuple[Table, ...]) -> Query:
    """Whether one of these tables has a row."""
    return Query(select(or_(*(exists().select_from(table) for table in tables))))


async def _is_sealed(reader: Reader, tables: Iterable[Table]) -> bool:
    """Whether rows of these tables can only be read with keys."""
    row = await reader.fetch_one(has_rows(sealed_tables(tables)))
    return row is not None and bool(row[0])


async def _sealing_keys(reader: Reader, tables: Iterable[Table]) -> set[int]:
    """The ids of the keys that records are sealed with; an erased record has none."""
    found: set[int] = set()
    for table in sealed_tables(tables):
        for column in sealed_columns(table):
            used = select(func.substr(column, 1, 1)).where(func.length(column) > 0).distinct()
            found.update(bytes(row[0])[0] for row in await reader.fetch_all(Query(used)))
    return found


async def _refuse_sealed(reader: Reader, file: CheckedKeyFile, tables: Iterable[Table]) -> None:
    """New keys could not decrypt what is sealed already."""
    if await _is_sealed(reader, tables):
        raise KeyFileError(
            f"There is no {file}, and the database has encrypted data: set {file.setting} to the "
            "file with its keys."
        )


def _named(key_ids: Iterable[int]) -> str:
    named = [f"key {key_id}" for key_id in sorted(key_ids) if key_id != _ONLY]
    return " and ".join(named) or "secret"

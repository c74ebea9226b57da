"""`tollway restore`: a backup becomes the database again, if nothing at all is wrong with it.

It is copied, the copy is checked, and only then does it replace anything.
"""

import errno
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from shutil import disk_usage
from typing import Annotated, NamedTuple

import msgspec
import typer

from tollway.audit.report import CHECKS, AuditReport, audit
from tollway.cli.backup import DIGEST, KeyFile, chunks_of, content_of, ending_with, key_files
from tollway.cli.command import CommandError, Session, all_tables, command, run
from tollway.cli.files import refuse_damaged
from tollway.cli.output import Output, percent_bar, progress_bar
from tollway.cli.parameters import argument, option
from tollway.ledger.trail import note_act
from tollway.settings import Settings
from tollway.store.database import StoreUnavailableError
from tollway.store.durable_files import give_to_owner_of, place_private, to_disk
from tollway.store.key_check import (
    CheckedKeyFile,
    files_of,
    refuse_others,
    refuse_without_sealing_keys,
    settings_of_keys,
)
from tollway.store.migrate import check_known, check_unchanged, migrate, newest_revision
from tollway.store.open import is_shared, sqlite_path
from tollway.store.sqlite.connection import DISK_FULL
from tollway.store.sqlite.files import ServingLock, put_in_place, side_files_of
from tollway.store.sqlite.path_check import check_path

_BREACHES_NAMED_MAX = 5

commands = typer.Typer()


class _Checked(NamedTuple):
    """What was found out about a copy; `needs` are the settings of the key files that it needs."""

    schema: str
    report: AuditReport
    needs: set[str]


class Restored(msgspec.Struct, frozen=True):
    """The database that was restored, what was checked of it, and what it replaced."""

    file: str
    schema: str
    accounts: int
    entries: int
    is_digest_checked: bool
    keys: list[str]
    keys_missing: list[str]
    replaced: str | None


@command(commands, "restore")
def restore(
    session: Session,
    backup: Annotated[Path, argument("BACKUP", "A file of `tollway backup`.")],
    replace: Annotated[
        bool,
        option("Replace a database that is there; it is kept under another name.", "--replace"),
    ] = False,
    should_migrate: Annotated[
        bool, option("Bring the schema of an older backup up to date.", "--migrate")
    ] = False,
) -> Output:
    """Check a backup in full, and make it the database."""
    if is_shared(session.settings.database):
        raise CommandError(
            "A backup becomes a file: name one with --database sqlite:///FILE, and then bring it "
            "to PostgreSQL with `tollway move`. A dump of PostgreSQL is restored with pg_restore."
        )
    path = Path(sqlite_path(session.settings.database))
    if path.is_symlink():
        # Replacing the link by a file would leave the old database in use under its other name.
        path = path.resolve()
    _refuse_wrong_places(backup, path, replace)
    # The lock keeps gateways from starting to serve the database meanwhile.
    lock = ServingLock(str(path))
    try:
        restored = _restore(session, backup, path, should_migrate)
    finally:
        (lock.release if path.exists() else lock.remove)()
    return Output(restored, *_shown(backup, restored))


def _refuse_wrong_places(backup: Path, path: Path, replace: bool) -> None:
    if not backup.is_file():
        raise CommandError(f"There is no file {backup}: name the one that `tollway backup` made.")
    check_path(path)
    if path.exists() and backup.samefile(path):
        raise CommandError(f"{backup} is the database itself: name a backup of it.")
    if not replace and (path.exists() or side_files_of(path)):
        raise CommandError(
            f"{path} exists already: name another database, "
            "or add --replace, which keeps this one under another name."
        )
    for file in side_files_of(backup):
        if file.stat().st_size and file.name.endswith("-wal"):
            raise CommandError(
                f"{backup} is in use, or was not made by `tollway backup`: {file} has a part of it."
            )


def _restore(session: Session, backup: Path, path: Path, should_migrate: bool) -> Restored:
    files = key_files(session.settings)
    keys = keys_to_place(backup, files)
    aside = None
    if path.exists() or side_files_of(path):
        aside = _free_name(path, datetime.fromtimestamp(session.runtime.at_s(), UTC))
    with _copied(backup, path) as copy:
        marked = files_beside(backup, session.settings)
        checked = _check_copy(backup, copy, marked, should_migrate)
        owned = path if path.exists() else None
        if owned is not None:
            give_to_owner_of(owned, copy)
        with placed(keys, owned):
            put_in_place(copy, path, aside)
            to_disk(path.parent)
    return Restored(
        file=str(path),
        schema=checked.schema,
        accounts=checked.report.accounts,
        entries=checked.report.entries,
        is_digest_checked=ending_with(backup, DIGEST).exists(),
        keys=[str(file.path) for file in files if file.beside(backup).exists()],
        keys_missing=[
            str(file.path)
            for file in files_of(session.settings)
            if file.setting in checked.needs and not file.path.exists()
        ],
        replaced=None if aside is None else str(aside),
    )


def _free_name(path: Path, at: datetime) -> Path:
    """What the database is kept as; another name if one was replaced in the same second."""
    name = ending_with(path, f".before-{at.strftime('%Y%m%d-%H%M%S')}")
    tried, number = name, 1
    while tried.exists() or side_files_of(tried):
        number += 1
        tried = ending_with(name, f"-{number}")
    return tried


@contextmanager
def _copied(backup: Path, path: Path) -> Iterator[Path]:
    """A copy beside the path where it is to go; gone at the end, unless it got there."""
    copy = ending_with(path, ".restoring")
    _remove(copy)
    try:
        if disk_usage(path.parent).free < _needed_bytes(backup, path):
            raise OSError(errno.ENOSPC, "")
        _copy(backup, copy)
        yield copy
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        _remove(copy)
        raise _disk_full(backup, path) from error
    finally:
        _remove(copy)


def _needed_bytes(backup: Path, path: Path) -> int:
    """For the copy, and for one of the commits that lie beside the database it replaces."""
    commits = ending_with(path, "-wal")
    return backup.stat().st_size + (commits.stat().st_size if commits.exists() else 0)


def _disk_full(backup: Path, path: Path) -> CommandError:
    folder = path.parent.resolve()
    size, free = _needed_bytes(backup, path), disk_usage(folder).free
    return CommandError(
        f"The disk of {folder} is full: to restore {backup} takes {size:,} bytes and a little "
        f"more, {free:,} are free. Free some space on it, or name a database on another disk. "
        "Nothing was changed."
    )


def _remove(copy: Path) -> None:
    for file in (copy, *side_files_of(copy)):
        file.unlink(missing_ok=True)


def _copy(backup: Path, copy: Path) -> None:
    """Copies the very bytes, and compares them with those that were written by the backup."""
    digest = hashlib.sha256()
    with copy.open("xb") as file, percent_bar("Copying") as progress:
        for chunk in chunks_of(backup, progress):
            file.write(chunk)
            digest.update(chunk)
    written = ending_with(backup, DIGEST)
    line = content_of(written)
    if line is not None and line.decode("utf-8", "replace").split()[:1] != [digest.hexdigest()]:
        raise CommandError(
            f"{backup} is damaged, or was changed since it was made: its digest is not the one in "
            f"{written}."
        )


def _check_copy(
    backup: Path, copy: Path, files: Sequence[CheckedKeyFile], should_migrate: bool
) -> _Checked:
    """Checks all that can be checked of a copy."""
    with progress_bar("Checking", 1 + len(CHECKS)) as advance:
        refuse_damaged(copy, backup)
        advance(1)

        async def work(session: Session) -> _Checked:
            try:
                return await check(session)
            except StoreUnavailableError as error:
                if str(error) == DISK_FULL:
                    raise OSError(errno.ENOSPC, DISK_FULL) from error
                raise

        async def check(session: Session) -> _Checked:
            database = session.open_any()
            schema = await database.schema_revision()
            if schema is None:
                raise CommandError(f"{backup} is not a database of Tollway.")
            check_known(schema)
            if should_migrate:
                _, schema = await migrate(database, is_alone=True)
            elif schema != newest_revision():
                raise CommandError(
                    f"{backup} is at schema {schema}, this version needs {newest_revision()}: "
                    "restore it with --migrate, which leaves the backup itself as it is."
                )
            await check_unchanged(database)
            # The output names the missing files.
            present = [file for file in files if file.path.exists()]
            await refuse_others(database, present)
            await refuse_without_sealing_keys(database, present, all_tables())
            report = await audit(database, session.runtime.at_ms(), advance)
            if not report.damage:
                await note_act(database, session.runtime, "restore", f"backup {backup.name}")
            return _Checked(schema, report, await settings_of_keys(database, all_tables()))

        checked = run(Session({"database": f"sqlite:///{copy}"}), work)
    _refuse_breaches(backup, checked.report)
    if side_files_of(copy):
        # SQLite does not report this: the last writes are missing from the copy, or incomplete.
        raise CommandError(
            f"{copy} could not be written, and {backup} is not restored: is its disk full? "
            "Nothing was changed."
        )
    to_disk(copy)
    return checked


def _refuse_breaches(backup: Path, report: AuditReport) -> None:
    breaches = report.damage
    if not breaches:
        return
    named = "; ".join(
        " ".join(filter(None, (each.name, each.account_id, each.unit))) + f": {each.difference}"
        for each in breaches[:_BREACHES_NAMED_MAX]
    )
    raise CommandError(
        f"{backup} does not pass the audit, breaches found, {len(breaches):,}: {named}."
    )


def keys_to_place(backup: Path, files: tuple[KeyFile, ...]) -> dict[Path, bytes]:
    """The key files that came with a backup and are not at their path yet."""
    placing = {}
    for file in files:
        source = file.beside(backup)
        content, there = content_of(source), content_of(file.path)
        if content is None or content == there:
            continue
        if there is not None:
            raise CommandError(
                f"{file.path} is there already and is not {source}: move one of them away, "
                "and keep both."
            )
        placing[file.path] = content
    return placing


def files_beside(copy: Path, settings: Settings) -> list[CheckedKeyFile]:
    """The files that a copy is going to be used with: those beside it, else those in use."""
    pairs = zip(files_of(settings), key_files(settings), strict=True)
    beside = ((marked, file.beside(copy)) for marked, file in pairs)
    return [marked._replace(path=path) if path.exists() else marked for marked, path in beside]


@contextmanager
def placed(keys: dict[Path, bytes], owner_of: Path | None = None) -> Iterator[None]:
    """Puts key files at their paths, unless what comes after fails; they get the owner of a file if
    one is named."""
    done: list[Path] = []
    try:
        for path, content in keys.items():
            place_private(path, content, owner_of)
            done.append(path)
        yield
    except BaseException:
        for path in done:
            path.unlink()
        raise


def _shown(backup: Path, restored: Restored) -> Iterator[str]:
    yield (
        f"{restored.file} is restored from {backup}: schema {restored.schema}, "
        f"accounts {restored.accounts:,}, entries {restored.entries:,}; it passed the audit."
    )
    if restored.replaced is not None:
        yield f"The database before it is kept as {restored.replaced}."
    if not restored.is_digest_checked:
        yield f"There is no {backup}{DIGEST}: its bytes could not be compared with those written."
    if restored.keys:
        yield f"Its keys are in {' and '.join(restored.keys)}."
    if restored.keys_missing:
        yield (
            f"The keys are not in the backup: put those of its gateway to "
            f"{' and '.join(restored.keys_missing)} before you serve it. With new keys, what was "
            "encrypted or signed before cannot be read."
        )

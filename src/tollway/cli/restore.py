"""`tollway restore`: a backup becomes the database again, if nothing at all is wrong with it."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from tollway.cli.backup_files import DIGEST, ending_with, key_files
from tollway.cli.errors import CommandError
from tollway.cli.options import DatabaseOption, JsonOption
from tollway.cli.output import print_json, print_sentence
from tollway.cli.restoring import check_copy, copied, files_beside, keys_to_place, placed
from tollway.cli.setting_sources import load_settings
from tollway.ledger.runtime import Runtime
from tollway.settings import Settings
from tollway.store.durable_files import to_disk
from tollway.store.open import is_shared, sqlite_path
from tollway.store.sqlite.files import ServingLock, put_in_place, side_files_of

group = typer.Typer()


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


def register(app: typer.Typer) -> None:
    app.add_typer(group)


@group.command("restore")
def restore(
    backup: Annotated[
        Path,
        typer.Argument(metavar="BACKUP", help="A file of `tollway backup`.", show_default=False),
    ],
    replace: Annotated[
        bool,
        typer.Option(
            "--replace", help="Replace a database that is there; it is kept under another name."
        ),
    ] = False,
    should_migrate: Annotated[
        bool,
        typer.Option("--migrate", help="Bring the schema of an older backup up to date."),
    ] = False,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check a backup in full, and make it the database."""
    settings, _ = load_settings({"database": database})
    if is_shared(settings.database):
        raise CommandError(
            "A backup becomes a file: name one with --database sqlite:///FILE, and then bring it "
            "to PostgreSQL with `tollway move`. A dump of PostgreSQL is restored with pg_restore."
        )
    path = Path(sqlite_path(settings.database))
    _refuse_wrong_places(backup, path, replace)
    # Nobody can begin to serve it meanwhile.
    lock = ServingLock(str(path))
    try:
        restored = _restore(backup, path, settings, should_migrate)
    finally:
        lock.release()
    if as_json:
        print_json(restored)
    else:
        _print(backup, restored)


def _refuse_wrong_places(backup: Path, path: Path, replace: bool) -> None:
    if not backup.is_file():
        raise CommandError(f"There is no file {backup}.")
    if not path.parent.is_dir():
        raise CommandError(f"The folder of {path} does not exist: make it first.")
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


def _restore(backup: Path, path: Path, settings: Settings, should_migrate: bool) -> Restored:
    files = key_files(settings)
    keys = keys_to_place(backup, files)
    has_old = path.exists() or bool(side_files_of(path))
    aside = ending_with(path, f".before-{_stamp()}") if has_old else None
    with copied(backup, path) as copy:
        marked = files_beside(backup, settings)
        schema, report = check_copy(backup, copy, marked, should_migrate=should_migrate)
        if path.exists():
            copy.chmod(path.stat().st_mode & 0o777)
        with placed(keys):
            put_in_place(copy, path, aside)
            to_disk(path.parent)
    return Restored(
        file=str(path),
        schema=schema,
        accounts=report.accounts,
        entries=report.entries,
        is_digest_checked=ending_with(backup, DIGEST).exists(),
        keys=[str(file.path) for file in files if file.beside(backup).exists()],
        keys_missing=[str(file.path) for file in files if not file.path.exists()],
        replaced=None if aside is None else str(aside),
    )


def _stamp() -> str:
    return datetime.fromtimestamp(Runtime().at_s(), UTC).strftime("%Y%m%d-%H%M%S")


def _print(backup: Path, restored: Restored) -> None:
    print_sentence(
        f"{restored.file} is restored from {backup}: schema {restored.schema}, "
        f"accounts {restored.accounts:,}, entries {restored.entries:,}; the audit holds."
    )
    if restored.replaced is not None:
        print_sentence(f"The database before it is kept as {restored.replaced}.")
    if not restored.is_digest_checked:
        print_sentence(
            f"There is no {backup}{DIGEST}: its bytes could not be compared with those written."
        )
    if restored.keys:
        print_sentence(f"Its keys are in {' and '.join(restored.keys)}.")
    if restored.keys_missing:
        print_sentence(
            f"Did not come along: {' and '.join(restored.keys_missing)}. Put those of the backup's "
            "gateway there: with new ones nothing can be read that was sealed or signed before."
        )

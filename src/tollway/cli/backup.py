"""`tollway backup`: a copy of the database, with its digest and, if wanted, its keys."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
import typer

from tollway.cli.command import CommandError, Session, command, with_advice
from tollway.cli.files import new_file, write_private
from tollway.cli.output import Output, percent_bar
from tollway.cli.parameters import argument, option
from tollway.settings import Settings
from tollway.store.database import StoreUnavailableError
from tollway.store.key_check import CheckedKeyFile, KeyFileError, files_of, refuse_others
from tollway.store.last_runs import BACKUP, note_run_if_free
from tollway.store.open import OpenDatabase, is_shared, key_path, secret_path, sqlite_path
from tollway.store.sqlite.database import back_up_file

DIGEST = ".sha256"
_CHUNK_BYTES = 1024 * 1024

commands = typer.Typer()


class Backup(msgspec.Struct, frozen=True):
    """The copy that was made, the key files copied beside it, those that were not, and those that
    are not where the settings say."""

    file: str
    bytes: int
    sha256: str
    keys: list[str]
    keys_left_out: list[str]
    keys_missing: list[str]


class KeyFile(NamedTuple):
    """A file that a database is used with: where it is, and how its name ends beside a copy."""

    path: Path
    ending: str

    def beside(self, copy: Path) -> Path:
        return ending_with(copy, self.ending)


@command(commands, "backup")
async def backup(
    session: Session,
    destination: Annotated[
        Path, argument("DESTINATION", "The file to make; it must not exist yet.")
    ],
    with_keys: Annotated[
        bool,
        option("Copy the keys too, to DESTINATION.keys and DESTINATION.secret.", "--with-keys"),
    ] = False,
) -> Output:
    """Copy the database to a file, also while a gateway serves it."""
    if is_shared(session.settings.database):
        # Before looking for its key files, which need not be set here.
        raise CommandError(
            "A PostgreSQL database is copied with its own tools: pg_dump, or the backups of your "
            "database provider."
        )
    database, used = await session.open(), files_of(session.settings)
    if with_keys:
        await refuse_others(database, used)
    source = sqlite_path(session.settings.database)
    there = {
        file: content for file in key_files(session.settings) if (content := content_of(file.path))
    }
    copied = there if with_keys else {}
    digest = _copy(source, destination, copied)
    keys = [str(file.beside(destination)) for file in copied]
    left_out = [str(file.path) for file in there if file not in copied]
    missing = await _missing(database, used)
    # For the alarms. The copy is good even if this write fails.
    is_noted = note_run_if_free(source, BACKUP, session.runtime.at_s())
    size = destination.stat().st_size
    made = Backup(str(destination), size, digest, keys, left_out, list(missing))
    shown = [f"The copy is in {made.file}, {made.bytes:,} bytes."]
    if keys:
        shown.append(f"The keys are in {' and '.join(keys)}: keep them private.")
    if left_out:
        shown.append(
            f"The keys are not in it: keep {' and '.join(left_out)} too, "
            "or the encrypted data of the copy is lost."
        )
    shown += [f"{sentence} The copy needs it too." for sentence in missing.values()]
    if not is_noted:
        shown.append(
            "The copy is good, but the database could not note it: an alert on backups may fire."
        )
    return Output(made, *shown)


async def _missing(database: OpenDatabase, files: Sequence[CheckedKeyFile]) -> dict[str, str]:
    """The files that the database is used with and that are not there, each with a sentence. Only
    their fingerprints are read: a damaged database can be copied too."""
    found = {}
    for file in files:
        if not file.path.exists():
            try:
                await refuse_others(database, [file])
            except KeyFileError as error:
                found[str(file.path)] = str(error)
    return found


def _copy(source: str, destination: Path, keys: dict[KeyFile, bytes]) -> str:
    """Copies the database and the keys; gives the digest of the copy, which is beside it too."""
    with ExitStack() as stack:
        # The copy is renamed last: once it exists, the other files do too.
        path = stack.enter_context(new_file(destination))
        digest_path = stack.enter_context(new_file(ending_with(destination, DIGEST)))
        for file, content in keys.items():
            write_private(stack.enter_context(new_file(file.beside(destination))), content)
        # Where no file can be made, SQLite does not say why.
        path.touch(mode=0o600)
        with percent_bar("Copying") as progress:
            try:
                back_up_file(source, str(path), progress)
            except StoreUnavailableError as error:
                reason = with_advice(error)
                raise CommandError(
                    f"The database cannot be copied to {destination}: {reason}"
                ) from error
        for file, content in keys.items():
            # A record sealed meanwhile with a new key could not be opened with the copied keys.
            if content_of(file.path) != content:
                raise CommandError(f"{file.path} changed while the database was copied: try again.")
        digest = hashlib.sha256()
        for chunk in chunks_of(path, lambda *_: None):
            digest.update(chunk)
        # The format of `sha256sum --check`.
        digest_path.write_text(f"{digest.hexdigest()}  {destination.name}\n", encoding="utf-8")
    return digest.hexdigest()


def key_files(settings: Settings) -> tuple[KeyFile, ...]:
    """Where a gateway with these settings has them, whether they are there or not."""
    url = settings.database
    return (
        KeyFile(key_path(url, settings.key_file), ".keys"),
        KeyFile(secret_path(url, settings.secret_file), ".secret"),
    )


def content_of(path: Path) -> bytes | None:
    """What is in a file; None when there is none."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def ending_with(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


def chunks_of(path: Path, progress: Callable[[int, int], None]) -> Iterator[bytes]:
    """A file's content, piece by piece."""
    total, done = path.stat().st_size, 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            yield chunk
            done += len(chunk)
            progress(done, total)

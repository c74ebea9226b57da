"""The steps of a restore: copy, check, put in place. All is checked before anything is placed."""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tollway.audit.report import CHECKS, AuditReport, audit
from tollway.cli.backup_files import (
    DIGEST,
    KeyFile,
    chunks_of,
    content_of,
    ending_with,
    key_files,
)
from tollway.cli.context import Session, run_on_any_schema
from tollway.cli.errors import CommandError
from tollway.cli.files import refuse_damaged, write_private
from tollway.cli.progress import percent_bar, progress_bar
from tollway.settings import Settings
from tollway.store.durable_files import to_disk
from tollway.store.key_check import CheckedKeyFile, files_of, refuse_others
from tollway.store.migrate import check_known, migrate, newest_revision
from tollway.store.sqlite.files import side_files_of

_BREACHES_NAMED_MAX = 5


@contextmanager
def copied(backup: Path, path: Path) -> Iterator[Path]:
    """A copy beside the place where it is to go; gone at the end, unless it got that place."""
    copy = ending_with(path, ".restoring")
    _remove(copy)
    try:
        _copy(backup, copy)
        yield copy
    finally:
        _remove(copy)


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


def check_copy(
    backup: Path, copy: Path, files: Sequence[CheckedKeyFile], *, should_migrate: bool
) -> tuple[str, AuditReport]:
    """Checks all that can be checked of a copy; gives its schema and the audit's report."""
    with progress_bar("Checking", 1 + len(CHECKS)) as advance:
        refuse_damaged(copy, backup)
        advance(1)

        async def work(at: Session) -> tuple[str, AuditReport]:
            schema = await at.database.schema_revision()
            if schema is None:
                raise CommandError(f"{backup} is not a database of Tollway.")
            check_known(schema)
            if should_migrate:
                _, schema = await migrate(at.database, is_alone=True)
            elif schema != newest_revision():
                raise CommandError(
                    f"{backup} is at schema {schema}, this version needs {newest_revision()}: "
                    "restore it with --migrate, which leaves the backup itself as it is."
                )
            # What did not come along is told of afterwards.
            await refuse_others(at.database, [file for file in files if file.path.exists()])
            return schema, await audit(at.database, at.runtime.at_ms(), advance)

        schema, report = run_on_any_schema(f"sqlite:///{copy}", work)
    _refuse_breaches(backup, report)
    to_disk(copy)
    return schema, report


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
    """The key files that came with a backup and are not at their place yet."""
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
    """The files that a copy is going to be used with: those beside it, else those in place."""
    pairs = zip(files_of(settings), key_files(settings), strict=True)
    beside = ((marked, file.beside(copy)) for marked, file in pairs)
    return [marked._replace(path=path) if path.exists() else marked for marked, path in beside]


@contextmanager
def placed(keys: dict[Path, bytes]) -> Iterator[None]:
    """Puts key files at their place, unless what comes after fails."""
    done: list[Path] = []
    try:
        for path, content in keys.items():
            write_private(path, content)
            done.append(path)
            to_disk(path)
            to_disk(path.parent)
        yield
    except BaseException:
        for path in done:
            path.unlink()
        raise

"""`tollway migrate`, `keys`, `retention` and `settings`: the database itself, and what it is used
with."""

from dataclasses import replace
from typing import Annotated, Literal

import msgspec
import typer

from tollway.cli.command import Session, add_group, command
from tollway.cli.output import Output, Table, counted, spinner
from tollway.cli.parameters import argument, option
from tollway.cli.setting_sources import Origin
from tollway.gateway.retention import Dropped, Retention
from tollway.ledger.trail import note_act, record_act
from tollway.store.database import Transaction
from tollway.store.key_check import SECRET_FILE, accept_file, files_of, key_file_of
from tollway.store.migrate import check_unchanged, newest_revision
from tollway.store.migrate import migrate as migrate_schema
from tollway.store.open import without_password

commands = typer.Typer()
keys = add_group(commands, "keys")
retention = add_group(commands, "retention")


@command(commands, "migrate")
async def migrate(session: Session) -> Output:
    """Create the database, or bring its schema up to date."""
    database = session.open_any()
    before, after = await migrate_schema(database)
    if before not in (None, after):
        change = {"from": before, "to": after}
        await note_act(database, session.runtime, "migrate", "database", change)
    if before is None:
        sentence = f"The database is created, at schema {after}."
    elif after > newest_revision():
        sentence = (
            f"The database is at schema {after}, newer than this version's {newest_revision()}, "
            "which can serve on it: nothing was done."
        )
    elif before == after:
        await check_unchanged(database)
        sentence = f"The database is up to date, at schema {after}."
    else:
        sentence = f"The schema went from {before} to {after}."
    return Output({"before": before, "after": after}, sentence)


@command(keys, "accept")
async def accept(
    session: Session,
    which: Annotated[
        Literal["key_file", "secret_file"],
        argument("FILE", "The setting: key_file or secret_file."),
    ],
) -> Output:
    """Use the database with this key file or secret file from now on, whatever it was before.

    What was encrypted with a key that is in the file no longer cannot be read.
    """
    (file,) = (each for each in files_of(session.settings) if each.setting == which)

    async def record(transaction: Transaction, gone: list[int]) -> None:
        subject = f"setting {which}"
        await record_act(transaction, session.runtime, "keys accept", subject, after={"gone": gone})

    gone = await accept_file(await session.open(), file, record)
    shown = [
        f"The database is used with {file.path} from now on: copy it to every gateway, then "
        "restart them."
    ]
    if gone and which != SECRET_FILE:
        named = " and ".join(f"key {key_id}" for key_id in gone)
        shown.append(f"What was encrypted with {named} as it was before cannot be read any more.")
    return Output({"setting": which, "file": str(file.path), "gone": gone}, *shown)


@command(keys, "rotate")
async def rotate(
    session: Session,
    drop: Annotated[
        bool,
        option(
            "Remove old keys from the key file, once nothing was encrypted with them for 25 hours.",
            "--drop",
        ),
    ] = False,
) -> Output:
    """Go over to a new key, one step at a time: add it, use it, seal all records with it again.

    Gateways need not stop, but must be restarted in between: each run says what to do next. A run
    that was interrupted is simply started again.
    """
    from tollway.gateway.resealing import Rotation

    file = key_file_of(session.settings)
    database = await session.open()
    rotation = Rotation(database, session.settings, session.runtime.at_ms)
    with spinner("Rotating the keys"):
        done = await rotation.go_on(drop=drop)
    await note_act(database, session.runtime, "keys rotate", "setting key_file", done)
    return Output(done, *done.in_words(str(file.path), is_shared=database.is_shared))


@command(retention, "apply")
async def apply(
    session: Session,
    dry_run: Annotated[bool, option("Only show what would be deleted.", "--dry-run")] = False,
) -> Output:
    """Delete old orders, claims, entries, reads and receipts now; a gateway does it by itself."""
    database = await session.open()
    await check_unchanged(database)
    rules = Retention(database, session.settings)
    now_ms = session.runtime.at_ms()
    if dry_run:
        dropped = await rules.plan(now_ms)
    else:
        await note_act(database, session.runtime, "retention apply begin", "database")
        with spinner("Deleting what is too old"):
            dropped = await _apply_all(rules, now_ms)
        await note_act(database, session.runtime, "retention apply", "database", dropped)
    table = Table(
        ("what", "kept", "would be deleted" if dry_run else "deleted"),
        [
            (each.kind, counted(each.keep_days, "day") if each.keep_days else "for ever", each.rows)
            for each in dropped
        ],
    )
    return Output(dropped, table)


@command(commands, "settings")
async def settings(session: Session) -> Output:
    """Show every setting, where its value came from and what it means."""
    origins = [_as_shown(origin) for origin in session.origins]
    table = Table(
        ("setting", "value", "from", "meaning"),
        [(each.name, str(each.value), each.source, each.meaning) for each in origins],
    )
    return Output(origins, table)


async def _apply_all(rules: Retention, now_ms: int) -> list[Dropped]:
    """Applies until nothing more goes."""
    total = more = await rules.apply(now_ms)
    while any(each.rows for each in more):
        more = await rules.apply(now_ms)
        total = [
            msgspec.structs.replace(each, rows=each.rows + further.rows)
            for each, further in zip(total, more, strict=True)
        ]
    return total


def _as_shown(origin: Origin) -> Origin:
    """Without the password that a database URL may have."""
    if origin.name not in ("database", "read_database"):
        return origin
    return replace(origin, value=without_password(str(origin.value)))

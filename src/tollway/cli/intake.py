"""`tollway import`, `records`, `source` and `intake`: data from files, what is kept ready of it,
the sources that push orders, and what they pushed that could not be stored."""

from asyncio import CancelledError
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from tollway.cli.command import Session, add_group, command, confirm
from tollway.cli.files import REJECTED_SHOWN, RejectFile, rejects_beside
from tollway.cli.output import Output, Table, Time, counted, progress_bar, spinner
from tollway.cli.parameters import RejectsOption, YesOption, argument, option
from tollway.consent.owners import credential_of
from tollway.contract.operation import OwnerKind
from tollway.intake.files import read_records
from tollway.intake.loading import CheckedChunk, Loader, LoadResult, RecordKind, Reject, load
from tollway.intake.parallel_reading import file_chunks
from tollway.intake.raw_records import IntakeError
from tollway.intake.rejects import count_rejects, forget_rejects, list_rejected
from tollway.intake.rejects import replay as replay_rejected
from tollway.intake.sources import (
    ALL,
    Source,
    SourceScope,
    SourceSecret,
    add_source,
    list_sources,
    rotate_secret,
    set_source_scope,
)
from tollway.ledger.trail import note_act
from tollway.operations.catalogue import RECORD_KINDS, SUBJECTS
from tollway.operations.remaking import remake as remake_ready
from tollway.store.database import Reader

commands = typer.Typer()
imports = add_group(commands, "import")
records = add_group(commands, "records")
sources = add_group(commands, "source")
intake = add_group(commands, "intake")
rejected = add_group(intake, "rejected", "Records that were rejected.")

# How many records of a file to search for unknown columns.
_LOOKED_AT = 100

FileArgument = Annotated[
    Path, argument("FILE", "A .csv, .jsonl or .json file, each also as .gz, or .xlsx.")
]
SourceArgument = Annotated[str, argument("NAME", "The source's name.")]
ShopsOption = Annotated[
    list[str] | None,
    option("A shop whose orders it pushes, * for all; may be repeated.", metavar="OWNER_ID"),
]
ChannelsOption = Annotated[
    list[str] | None,
    option("A channel whose claims it pushes, * for all; may be repeated.", metavar="SID"),
]


def _add_import(kind: RecordKind) -> None:
    async def load_file(
        session: Session, file: FileArgument, rejects: RejectsOption = None
    ) -> Output:
        settings = session.settings
        chunks = file_chunks(kind, file, settings.database, settings.key_file, settings.zone)
        await session.open()
        loader = kind.make_loader(await session.sealer() if kind.is_sealed else None)
        return await _import(session, kind, loader, chunks, file, rejects)

    load_file.__doc__ = kind.help
    command(imports, kind.name)(load_file)


for _kind in RECORD_KINDS.values():
    _add_import(_kind)


@command(records, "remake")
async def remake(session: Session) -> Output:
    """Make all records that are kept ready again, after a change of what they show."""
    database, sealer = await session.open(), await session.sealer()
    subject = "records kept ready"
    await note_act(database, session.runtime, "records remake begin", subject)
    found = []
    for each in SUBJECTS:
        if each.records is None:
            continue
        with spinner(f"Preparing {each.records.name} again"):
            if each.ready is not None:
                made = await remake_ready(database, sealer, each.ready)
            elif each.remake is not None:
                made = await each.remake(database)
            else:
                continue
        found.append((each.records.name, made.read, made.changed))
    columns = ("records", "read", "changed")
    value = [dict(zip(columns, each, strict=True)) for each in found]
    await note_act(database, session.runtime, "records remake", subject, value)
    return Output(value, Table(columns, found))


@command(sources, "add")
async def add(
    session: Session, name: SourceArgument, shop: ShopsOption = None, channel: ChannelsOption = None
) -> Output:
    """Add a source. Its secret is shown this once."""
    database, sealer = await session.open(), await session.sealer()
    speaks_for = SourceScope(tuple(shop or ()), tuple(channel or ()))
    added = await add_source(database, sealer, name, speaks_for, session.runtime)
    return _secret_output(added, *await _not_known(database, speaks_for))


@command(sources, "set")
async def set_source(
    session: Session, name: SourceArgument, shop: ShopsOption = None, channel: ChannelsOption = None
) -> Output:
    """Change which shops and channels a source speaks for; name all of them."""
    speaks_for = SourceScope(tuple(shop or ()), tuple(channel or ()))
    database = await session.open()
    changed = await set_source_scope(database, name, speaks_for, session.runtime)
    return Output(
        changed,
        f"Source {name} speaks for {_named(changed)} from now on.",
        *await _not_known(database, speaks_for),
    )


@command(sources, "rotate")
async def rotate(session: Session, name: SourceArgument) -> Output:
    """Make a new secret. The one before it is accepted until the next rotation."""
    database, sealer = await session.open(), await session.sealer()
    return _secret_output(await rotate_secret(database, sealer, name, session.runtime))


@command(sources, "list")
async def list_of_sources(session: Session) -> Output:
    """List the sources."""
    found = await list_sources(await session.open())
    table = Table(
        ("source", "speaks for", "added", "rotated"),
        [
            (each.name, _named(each), Time(each.added_at_s), Time(each.rotated_at_s))
            for each in found
        ],
        empty="There are no sources: `tollway source add NAME` adds one.",
    )
    return Output(found, table)


@command(rejected, "list")
async def list_of_rejected(session: Session) -> Output:
    """List the rejected records and their reasons, the oldest first."""
    found = await list_rejected(await session.open())
    table = Table(
        ("record", "source", "kind", "received", "reason"),
        [
            (each.id, each.source, each.kind, Time(each.received_at_s), each.reason)
            for each in found
        ],
        empty="No record was rejected.",
    )
    return Output(found, table)


@command(rejected, "replay")
async def replay(
    session: Session,
    record: Annotated[
        str | None, argument("RECORD", "The record's id; all of them if left out.")
    ] = None,
) -> Output:
    """Try rejected records again: those that are good by now are stored."""
    database, sealer = await session.open(), await session.sealer()
    subject = f"record {record}" if record else "rejected records"
    await note_act(database, session.runtime, "record replay begin", subject)
    result = await replay_rejected(database, sealer, RECORD_KINDS, record)
    await note_act(database, session.runtime, "record replay", subject, result)
    return Output(
        result,
        f"{result.stored:,} stored, {result.unchanged:,} known already or older, "
        f"{result.rejected:,} still rejected.",
    )


@command(rejected, "drop")
async def drop(session: Session, source: SourceArgument, yes: YesOption = False) -> Output:
    """Drop all rejected records of a source, such as those that it has sent again corrected."""
    database = await session.open()
    if not yes and (count := await count_rejects(database, source)):
        confirm(f"Drop {counted(count, 'rejected record')} of {source}? It cannot be undone.")
    dropped = await forget_rejects(database, source, session.runtime)
    return Output(
        {"source": source, "dropped": dropped},
        f"{counted(dropped, 'rejected record')} of {source} dropped.",
    )


async def _import(
    session: Session,
    kind: RecordKind,
    loader: Loader,
    chunks: Iterable[CheckedChunk],
    file: Path,
    rejects: Path | None,
) -> Output:
    database = await session.open()
    subject = f"records {kind.name}"
    reasons: list[str] = []
    with ExitStack() as stack:
        reject_file = RejectFile(rejects or rejects_beside(file), file, stack)

        def on_reject(reject: Reject) -> None:
            if len(reasons) < REJECTED_SHOWN:
                reasons.append(f"  Line {reject.line}: {reject.reason}")
            reject_file.write(reject)

        await note_act(database, session.runtime, "import begin", subject, {"file": str(file)})
        progress = stack.enter_context(_progress(file))
        result = LoadResult()
        try:
            await load(database, loader, chunks, on_reject, progress, result)
        except BaseException as error:
            note = (
                f"{result.stored:,} of its records are stored; load all of it again: those stay as "
                "they are."
            )
            if result.stored and isinstance(error, CancelledError):
                # Ctrl+C ends a command with one word.
                typer.echo(note, err=True)
            elif result.stored:
                error.add_note(note)
            raise
    done = {"file": str(file), **msgspec.to_builtins(result)}
    await note_act(database, session.runtime, "import", subject, done)
    shown = [
        f"{counted(result.read, 'record')} read, {result.stored:,} stored "
        f"({result.changed:,} of them new or changed), {result.rejected:,} rejected.",
        *reasons,
    ]
    if not result.read:
        # As where the first is an explanation, and the records are on the second.
        is_sheet = file.suffix.lower() == ".xlsx"
        shown.append(f"There is no record {'on its first visible sheet' if is_sheet else 'in it'}.")
    if ignored := _ignored_columns(kind, file):
        shown.append(f"Not used, because no such column is known: {', '.join(ignored)}.")
    if reject_file.written:
        shown.append(f"The rejected ones and their reasons are in {reject_file.written}.")
    value = {**msgspec.to_builtins(result), "rejects": reject_file.written}
    return Output(value, *shown, failure="" if result.rejected else None)


def _ignored_columns(kind: RecordKind, file: Path) -> list[str]:
    """What the first records have that is no column: a misspelled one would go unnoticed."""
    known = {name for each in kind.record_types for name in _columns_of(each)}
    if not known or not file.is_file():
        return []
    found: dict[str, None] = {}
    # The file was already loaded: if it is gone by now, that is no failure.
    with suppress(IntakeError):
        for record in islice(read_records(file), _LOOKED_AT):
            found.update(dict.fromkeys(record.values or ()))
    ignored = [name for name in found if name not in known]
    shown = [
        name if name and name.isprintable() else repr(name) for name in ignored[:REJECTED_SHOWN]
    ]
    return [*shown, f"and {more} more"] if (more := len(ignored) - len(shown)) else shown


def _columns_of(record_type: type[msgspec.Struct]) -> list[str]:
    tag = record_type.__struct_config__.tag_field
    return [*record_type.__struct_encode_fields__, *([tag] if tag else [])]


@contextmanager
def _progress(file: Path) -> Iterator[Callable[[LoadResult, int], None]]:
    with progress_bar(
        f"Loading {file.name}", file.stat().st_size if file.is_file() else 0, is_bytes=True
    ) as advance:
        reached = 0

        def show(_: LoadResult, at_byte: int) -> None:
            nonlocal reached
            advance(at_byte - reached)
            reached = at_byte

        yield show


def _named(source: Source) -> str:
    """The shops and channels that a source speaks for."""
    shops = [f"shop {each}" for each in source.speaks_for.shop]
    return ", ".join([*shops, *(f"channel {each}" for each in source.speaks_for.channel)])


async def _not_known(reader: Reader, speaks_for: SourceScope) -> list[str]:
    """A line on shops that no call can name yet: they are to come, or were misspelled."""
    unknown = [
        each
        for each in speaks_for.shop
        if each != ALL and await credential_of(reader, OwnerKind.SHOP, each) is None
    ]
    if not unknown:
        return []
    more = f" and {len(unknown) - 3:,} more" if len(unknown) > 3 else ""
    return [
        f"Not known yet: shop {', '.join(unknown[:3])}{more}. "
        "Their orders are stored, and can be asked for after `tollway shop add`."
    ]


def _secret_output(made: SourceSecret, *notes: str) -> Output:
    return Output(
        made,
        made.secret,
        f"Keep it now, it is not shown again. Pushes of {made.source.name} use it.",
        *notes,
    )

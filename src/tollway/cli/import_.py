"""`tollway import`: loading data from files."""

from collections.abc import Awaitable, Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, BinaryIO

import msgspec
import typer

from tollway.cli.context import Session, run
from tollway.cli.options import DatabaseOption, JsonOption
from tollway.cli.output import print_json, print_sentence
from tollway.cli.progress import progress_bar
from tollway.intake.loading import CheckedChunk, Loader, LoadResult, RecordKind, load
from tollway.intake.parallel_reading import file_chunks
from tollway.operations.catalogue import RECORD_KINDS

FileArgument = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="A .csv, .jsonl or .json file, each also as .gz, or .xlsx.",
        show_default=False,
    ),
]
RejectsOption = Annotated[
    Path | None,
    typer.Option(
        help="Where to write the records that are wrong; else FILE.rejected.jsonl.",
        show_default=False,
    ),
]

# What stores the records of a file, and the records.
Loading = tuple[Loader, Iterable[CheckedChunk]]

_commands = typer.Typer(no_args_is_help=True, help="Load data from files.")


def register(commands: typer.Typer) -> None:
    commands.add_typer(_commands, name="import")


def _add(kind: RecordKind) -> None:
    @_commands.command(kind.name, help=kind.help)
    def load_file(
        file: FileArgument,
        rejects: RejectsOption = None,
        database: DatabaseOption = None,
        as_json: JsonOption = False,
    ) -> None:
        async def start(at: Session) -> Loading:
            sealer = await at.sealer() if kind.is_sealed else None
            url, key_file = at.settings.database, at.settings.key_file
            return kind.make_loader(sealer), file_chunks(kind, file, url, key_file)

        _import(start, file, rejects, database, as_json=as_json)


for _kind in RECORD_KINDS.values():
    _add(_kind)


def _import(
    start: Callable[[Session], Awaitable[Loading]],
    file: Path,
    rejects: Path | None,
    database: str | None,
    *,
    as_json: bool,
) -> None:
    rejects_path = rejects or file.with_name(f"{file.name}.rejected.jsonl")
    size = file.stat().st_size if file.is_file() else 0

    async def work(session: Session) -> LoadResult:
        # Those of an earlier load would be taken for this one's.
        rejects_path.unlink(missing_ok=True)
        with ExitStack() as stack:
            aside = RejectFile(rejects_path, stack)
            advance = stack.enter_context(progress_bar(f"Loading {file.name}", size))
            reached = 0

            def progress(_: LoadResult, at_byte: int) -> None:
                nonlocal reached
                advance(at_byte - reached)
                reached = at_byte

            loader, chunks = await start(session)
            return await load(session.database, loader, chunks, aside.write, progress)

    result = run(database, work)
    shown_rejects = str(rejects_path) if result.rejected else None
    if as_json:
        print_json({**msgspec.to_builtins(result), "rejects": shown_rejects})
    else:
        print_sentence(
            f"{result.read:,} records read, {result.stored:,} stored "
            f"({result.changed:,} of them new or changed), {result.rejected:,} rejected."
        )
        if result.rejected:
            print_sentence(f"The rejected ones and their reasons are in {shown_rejects}.")
    if result.rejected:
        raise typer.Exit(1)


class RejectFile:
    """Opened with the first record that is wrong, so that a clean file leaves none behind."""

    def __init__(self, path: Path, stack: ExitStack) -> None:
        self._path = path
        self._stack = stack
        self._file: BinaryIO | None = None

    def write(self, reject: msgspec.Struct) -> None:
        if self._file is None:
            self._file = self._stack.enter_context(self._path.open("wb"))
        self._file.write(msgspec.json.encode(reject) + b"\n")

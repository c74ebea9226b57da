"""`tollway backup`: a copy of the database, with its digest and, if wanted, its keys."""

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from tollway.cli.backup_files import (
    DIGEST,
    KeyFile,
    content_of,
    digest_line,
    digest_of,
    ending_with,
    key_files,
)
from tollway.cli.context import Session, run
from tollway.cli.errors import CommandError
from tollway.cli.files import new_file, write_private
from tollway.cli.options import DatabaseOption, JsonOption
from tollway.cli.output import print_json, print_sentence
from tollway.cli.progress import percent_bar

group = typer.Typer()


class Backup(msgspec.Struct, frozen=True):
    """The copy that was made, the key files copied beside it, and those that were not."""

    file: str
    bytes: int
    sha256: str
    keys: list[str]
    keys_left_out: list[str]


def register(app: typer.Typer) -> None:
    app.add_typer(group)


@group.command("backup")
def backup(
    destination: Annotated[
        Path,
        typer.Argument(
            metavar="DESTINATION",
            help="The file to make; it must not exist yet.",
            show_default=False,
        ),
    ],
    with_keys: Annotated[
        bool,
        typer.Option(
            "--with-keys",
            help="Copy the keys too, to DESTINATION.keys and DESTINATION.secret.",
        ),
    ] = False,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Copy the database to a file while it goes on being used."""

    async def work(at: Session) -> Backup:
        return _back_up(at, destination, with_keys)

    made = run(database, work)
    if as_json:
        print_json(made)
        return
    print_sentence(f"The copy is in {made.file}, {made.bytes:,} bytes.")
    if made.keys:
        print_sentence(f"The keys are in {' and '.join(made.keys)}: let nobody else read them.")
    if made.keys_left_out:
        print_sentence(
            f"The keys are not in it: keep {' and '.join(made.keys_left_out)} too, "
            "or the copy's sealed data is lost."
        )


def _back_up(at: Session, destination: Path, with_keys: bool) -> Backup:
    there = {file: content for file in key_files(at.settings) if (content := content_of(file.path))}
    copied = there if with_keys else {}
    with ExitStack() as stack:
        # The copy comes last to its name: where it is, the others are.
        path = stack.enter_context(new_file(destination))
        digest_path = stack.enter_context(new_file(ending_with(destination, DIGEST)))
        for file, content in copied.items():
            write_private(stack.enter_context(new_file(file.beside(destination))), content)
        with percent_bar("Copying") as progress:
            at.database.back_up(str(path), progress)
        _refuse_other_keys(copied)
        digest = digest_of(path)
        digest_path.write_text(digest_line(digest, destination), encoding="utf-8")
    return Backup(
        str(destination),
        destination.stat().st_size,
        digest,
        [str(file.beside(destination)) for file in copied],
        [str(file.path) for file in there if file not in copied],
    )


def _refuse_other_keys(copied: dict[KeyFile, bytes]) -> None:
    """What was sealed meanwhile, with a key that came meanwhile, could not be opened."""
    for file, content in copied.items():
        if content_of(file.path) != content:
            raise CommandError(f"{file.path} changed while the database was copied: try again.")

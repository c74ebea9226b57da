"""`tollway keys`: which keys a database is used with."""

from typing import Annotated, Literal

import msgspec
import typer

from tollway.cli.context import Session, run
from tollway.cli.options import DatabaseOption, JsonOption
from tollway.cli.output import print_json, print_sentence
from tollway.store.key_check import SECRET_FILE, accept_file, files_of

group = typer.Typer(help="Say which keys a database is used with.", no_args_is_help=True)


class Accepted(msgspec.Struct, frozen=True):
    """A file that the database is used with from now on, and the ids of keys that are gone."""

    setting: str
    file: str
    gone: list[int]


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="keys")


@group.command("accept")
def accept(
    which: Annotated[
        Literal["key_file", "secret_file"],
        typer.Argument(
            metavar="FILE", help="The setting: key_file or secret_file.", show_default=False
        ),
    ],
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Use the database with this key file or secret file from now on, whatever it was before.

    What was sealed with a key that is in the file no longer cannot be read.
    """

    async def work(at: Session) -> Accepted:
        (file,) = (each for each in files_of(at.settings) if each.setting == which)
        return Accepted(which, str(file.path), await accept_file(at.database, file))

    accepted = run(database, work)
    if as_json:
        print_json(accepted)
        return
    print_sentence(
        f"The database is used with {accepted.file} from now on: let every gateway have it, then "
        "start them anew."
    )
    if accepted.gone and which != SECRET_FILE:
        gone = " and ".join(f"key {key_id}" for key_id in accepted.gone)
        print_sentence(f"What was sealed with {gone} as it was before cannot be read any more.")

"""The secret of a carrier's link: from a file, standard input or a prompt, never from an argument,
which other people of the machine could see."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from tollway.cli.errors import UsageError

_STDIN = Path("-")

SecretFileOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="The file with the secret that signs messages, - for standard input; else it is "
        "asked for.",
        show_default=False,
    ),
]


def read_secret(file: Path | None) -> str:
    """The secret as the carrier gave it, without the end of its line."""
    if file is None:
        if not sys.stdin.isatty():
            raise UsageError("There is no terminal to ask for the secret: use --secret-file.")
        secret: str = typer.prompt("Secret", hide_input=True, err=True, type=str)
        return secret
    raw = sys.stdin.buffer.read() if file == _STDIN else file.read_bytes()
    try:
        return raw.decode().strip("\r\n")
    except UnicodeDecodeError:
        raise UsageError("The secret is not a text in UTF-8.") from None

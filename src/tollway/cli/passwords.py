"""A password for a command: from standard input or a prompt, never from an argument, which other
people of the machine could see."""

import sys
from typing import Annotated

import typer

from tollway.cli.errors import UsageError

PasswordStdinOption = Annotated[
    bool,
    typer.Option(
        "--password-stdin", help="Read the password from standard input instead of asking for it."
    ),
]


def read_password(*, from_stdin: bool) -> str:
    if from_stdin:
        return sys.stdin.readline().rstrip("\r\n")
    if not sys.stdin.isatty():
        raise UsageError("There is no terminal to ask for the password: use --password-stdin.")
    password: str = typer.prompt(
        "Password", hide_input=True, confirmation_prompt=True, err=True, type=str
    )
    return password

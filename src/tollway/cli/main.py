"""The command `tollway`: all groups of commands, and where every error ends."""

import os
import sys
from collections.abc import Sequence
from functools import cache
from typing import Annotated, NoReturn

import typer

from tollway import __version__
from tollway.cli import (
    account,
    audit,
    backup,
    carrier,
    client,
    consent,
    credit,
    demo,
    grant,
    import_,
    intake,
    keys,
    ledger,
    migrate,
    move,
    operation,
    pool,
    receipt,
    reconcile,
    restore,
    retention,
    serve,
    settings,
    shop,
    source,
    token,
    waybill,
)
from tollway.cli.errors import EXPECTED, sentence_of, sentence_of_usage

# In the order in which `tollway --help` lists them.
_GROUPS = (
    serve.register,
    demo.register,
    account.register,
    token.register,
    client.register,
    credit.register,
    grant.register,
    shop.register,
    consent.register,
    operation.register,
    ledger.register,
    receipt.register,
    import_.register,
    carrier.register,
    pool.register,
    waybill.register,
    reconcile.register,
    source.register,
    intake.register,
    migrate.register,
    backup.register,
    restore.register,
    move.register,
    keys.register,
    retention.register,
    audit.register,
    settings.register,
)

app = typer.Typer(
    help="Tollway: a self-hosted, paid gateway for merchant data and tools.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for register in _GROUPS:
    register(app)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"tollway {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    _: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Tollway: a self-hosted, paid gateway for merchant data and tools."""


# Made of the groups once, however often a process runs commands.
_command = cache(lambda: typer.main.get_command(app))


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs one command and exits with its status: 0, 1 for an error, 2 for wrong usage."""
    try:
        status = _command()(arguments, standalone_mode=False, prog_name="tollway")
        sys.stdout.flush()
    except typer.TyperException as error:
        _end(sentence_of_usage(error), error.exit_code)
    except typer.Abort:
        _end("Stopped.", 130)
    except BrokenPipeError:
        # Whoever read the output has had enough of it. What is still buffered goes nowhere, lest
        # the interpreter complain about it when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _end("", 1)
    except EXPECTED as error:
        _end(sentence_of(error), 1)
    sys.exit(status or 0)


def _end(sentence: str, status: int) -> NoReturn:
    if sentence:
        typer.echo(sentence, err=True)
    sys.exit(status)

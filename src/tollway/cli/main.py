"""The command `tollway`: the list of its commands, and what becomes of an error."""

import os
import sys
from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any, NoReturn

import typer
from typer.main import get_command

from tollway import __version__
from tollway.cli.lazy import Entry, lazy_group

# In the order in which `tollway --help` lists them.
_ENTRIES = {
    "serve": Entry("serve", "Serve the paid operations until stopped (Ctrl+C)."),
    "demo": Entry(
        "serve", "Fill a database with a demo world, once, and print what is needed to try it."
    ),
    "account": Entry("account", "Open, list, show and close accounts."),
    "token": Entry("token", "Issue, list and revoke access tokens."),
    "client": Entry("token", "Add, list and revoke clients, which obtain tokens at /oauth/token."),
    "credit": Entry("permission", "Add credits, or calls of an operation."),
    "permission": Entry("permission", "Say which account may call which operation."),
    "shop": Entry("consent", "Add and list the shops and users whose data callers ask for."),
    "consent": Entry("consent", "List, give and revoke the consents of shops and users."),
    "operation": Entry("permission", "List, open and close operations."),
    "price": Entry("permission", "List and set the common prices."),
    "ledger": Entry("ledger", "Show and export the ledger."),
    "receipt": Entry("ledger", "Show what one call was answered, what it was charged, and why."),
    "import": Entry("intake", "Load data from files."),
    "carrier": Entry("carrier", "Add, connect and list carriers."),
    "pool": Entry("pool", "Load and count waybill numbers."),
    "waybill": Entry("waybill", "List, show, print and cancel waybills."),
    "reconcile": Entry(
        "reconcile", "Ask the carriers about waybills without an answer, and settle them."
    ),
    "hold": Entry("reconcile", "Show credits that are held."),
    "source": Entry("intake", "Add and list the sources of pushed orders."),
    "intake": Entry("intake", "Look after what was pushed."),
    "migrate": Entry("database", "Create the database, or bring its schema up to date."),
    "backup": Entry("backup", "Copy the database to a file while it goes on being used."),
    "restore": Entry("restore", "Check a backup in full, and make it the database."),
    "move": Entry(
        "move", "Move a database to PostgreSQL; broken off, it goes on where it was when run again."
    ),
    "keys": Entry("database", "Say which keys a database is used with."),
    "retention": Entry("database", "Drop what is older than the settings say."),
    "audit": Entry("audit", "Check the ledger, consents, waybills and counts from their rows."),
    "settings": Entry(
        "database", "Show every setting, where its value came from and what it means."
    ),
}


app = typer.Typer(
    cls=lazy_group(_ENTRIES),
    help="Tollway: a self-hosted, paid gateway for merchant data and tools.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


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
    """Has the options of `tollway` itself."""


@cache
def _command() -> Any:
    """Made once, however often a process runs commands."""
    return get_command(app)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs one command and exits with its status: 0, 1 for an error, 2 for wrong usage."""
    try:
        status = _command()(arguments, standalone_mode=False, prog_name="tollway")
        sys.stdout.flush()
    except typer.TyperException as error:
        _end(_usage_sentence(error), error.exit_code)
    except typer.Abort:
        _end("Stopped.", 130)
    except BrokenPipeError:
        # The reader of the output has closed it. What is still buffered is dropped, or the
        # interpreter would complain about it when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _end("", 1)
    except Exception as error:
        if not isinstance(error, _expected_errors()):
            raise
        _end(_sentence(error), 1)
    sys.exit(status or 0)


def _expected_errors() -> tuple[type[Exception], ...]:
    """What can go wrong without Tollway being wrong. Anything else is a bug and shows itself."""
    # Imported here: without an error, what raises them need not be loaded.
    from tollway.carriers import CarrierError  # noqa: PLC0415
    from tollway.intake.files import IntakeError  # noqa: PLC0415
    from tollway.ledger import LedgerError  # noqa: PLC0415
    from tollway.settings import SettingsError  # noqa: PLC0415
    from tollway.store.database import StoreError  # noqa: PLC0415

    ours = (CarrierError, IntakeError, LedgerError, SettingsError, StoreError)
    return (*ours, OSError, UnicodeEncodeError)


def _sentence(error: Exception) -> str:
    if isinstance(error, UnicodeEncodeError):
        return "A text cannot be encoded: give valid UTF-8, and use a terminal that can show it."
    if isinstance(error, OSError):
        subject = f"{error.filename}: " if error.filename else ""
        return f"{subject}{error.strerror or error}."
    return str(error)


def _usage_sentence(error: typer.TyperException) -> str:
    """What is wrong with a command line, and where its help is."""
    message = error.format_message()
    context = getattr(error, "ctx", None)
    if not message or context is None or message.endswith("?"):
        # One that ends so already says what may have been meant.
        return message
    return f"{message.rstrip('.')}: see `{context.command_path} --help`."


def _end(sentence: str, status: int) -> NoReturn:
    if sentence:
        typer.echo(sentence, err=True)
    sys.exit(status)

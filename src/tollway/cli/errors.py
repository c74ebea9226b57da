"""What becomes of an error: one sentence on stderr and an exit status, never a traceback."""

import typer

from tollway.carriers import CarrierError
from tollway.intake.files import IntakeError
from tollway.ledger import LedgerError
from tollway.settings import SettingsError
from tollway.store.database import StoreError

# What can go wrong without Tollway itself being wrong. Anything else is a bug and shows itself.
EXPECTED = (
    LedgerError,
    CarrierError,
    StoreError,
    SettingsError,
    IntakeError,
    OSError,
    UnicodeEncodeError,
)


class CommandError(typer.TyperException):
    """A command cannot do what was asked; the text is one sentence."""


class UsageError(CommandError):
    """A command was called in a way that it cannot be."""

    exit_code = 2


def sentence_of(error: Exception) -> str:
    """What to tell of an error that was expected."""
    if isinstance(error, UnicodeEncodeError):
        return "A text cannot be encoded: give valid UTF-8, and use a terminal that can show it."
    if isinstance(error, OSError):
        subject = f"{error.filename}: " if error.filename else ""
        return f"{subject}{error.strerror or error}."
    return str(error)


def sentence_of_usage(error: typer.TyperException) -> str:
    """What to tell of a command line that cannot be understood, and where help is."""
    message = error.format_message()
    context = getattr(error, "ctx", None)
    if not message or context is None:
        return message
    if message.endswith("?"):
        # It already says what may have been meant.
        return message
    return f"{message.rstrip('.')}: see `{context.command_path} --help`."

"""Runs the command `tollway`, and turns an error into one sentence and an exit status."""

import errno
import gc
import os
import signal
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any, NoReturn

# While modules load, Ctrl+C ends the command without a word, and not with a trace of an import.
_interrupt = signal.getsignal(signal.SIGINT)
if _interrupt is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
# What loads now lives until the process ends, so nothing is collected meanwhile or ever looked at.
gc.disable()

import typer  # noqa: E402
from typer.main import get_command  # noqa: E402

from tollway.cli.arguments import usage_sentence  # noqa: E402
from tollway.cli.main import app  # noqa: E402

gc.freeze()
gc.enable()
signal.signal(signal.SIGINT, _interrupt)

_INTERRUPTED = 130
# As a shell reports a program that SIGPIPE ended: a script can tell it from a failure.
_PIPE_CLOSED = 128 + signal.SIGPIPE
# What to do about an error of the system whose own words do not say it.
_ADVICE = {
    errno.EACCES: " Change its rights or those of its folder, or run this as another user.",
    errno.EROFS: " Choose a place that can be written to.",
    errno.ENOENT: " Check its name.",
    errno.EISDIR: " Name a file.",
    errno.ENAMETOOLONG: " Choose a shorter name.",
    errno.ENOSPC: " Free some space on this disk.",
}


@cache
def _command() -> Any:
    """Made once, however often a process runs commands."""
    return get_command(app)


def _open_closed_streams() -> None:
    """What is opened next would get the number of one that was closed, and be written to."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # For as long as the process runs.
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs one command and exits with its status: 0, 1 for an error, 2 for wrong usage."""
    # What is made here has personal data or keys: databases, backups, labels, rejected records.
    os.umask(0o077)
    _open_closed_streams()
    try:
        status = _command()(arguments, standalone_mode=False, prog_name="tollway")
        sys.stdout.flush()
    except typer.TyperException as error:
        _end(usage_sentence(error), error.exit_code)
    except (typer.Abort, KeyboardInterrupt):
        status = _INTERRUPTED
    except (BrokenPipeError, SystemExit) as ended:
        # Typer makes a SystemExit of it.
        if not isinstance(ended.__context__ or ended, BrokenPipeError):
            raise
        # The reader of the output has closed it. What is still buffered is dropped, or the
        # interpreter would complain about it when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _end("", _PIPE_CLOSED)
    except Exception as error:
        if not isinstance(error, _expected_errors()):
            raise
        # A command notes what it had done by then.
        _end(" ".join([_sentence(error), *getattr(error, "__notes__", ())]), 1)
    # Typer turns Ctrl+C into this status, without a word.
    _end("Stopped." if status == _INTERRUPTED else "", status or 0)


def _expected_errors() -> tuple[type[Exception], ...]:
    """What can go wrong without Tollway being wrong. Anything else is a bug and shows itself."""
    # Imported here: without an error, what raises them need not be loaded.
    from tollway.carriers import CarrierError
    from tollway.intake.raw_records import IntakeError
    from tollway.ledger import LedgerError
    from tollway.settings import SettingsError
    from tollway.store.database import StoreError

    ours = (CarrierError, IntakeError, LedgerError, SettingsError, StoreError)
    return (*ours, OSError, UnicodeEncodeError)


def _sentence(error: Exception) -> str:
    if isinstance(error, UnicodeEncodeError):
        return "A text cannot be encoded: give valid UTF-8, and use a terminal that can show it."
    if isinstance(error, OSError):
        subject = f"{error.filename}: " if error.filename else ""
        return f"{subject}{error.strerror or error}.{_ADVICE.get(error.errno or 0, '')}"
    return str(error)


def _end(sentence: str, status: int) -> NoReturn:
    if sentence:
        # Imported here: without an error, what prints tables need not be loaded.
        from tollway.cli.output import printable

        typer.echo(printable(sentence), err=True)
    sys.exit(status)


if __name__ == "__main__":
    main()

"""One way to declare a command.

A command is a function over a `Session` that does its work and returns an `Output`: a value for
`--json`, and the same for people. Here it gets its options `--database` and `--json`, its event
loop, its settings, a database that is opened on first use and closed at the end, and the sentences
of what can go wrong with it.

    @command(group, "open")
    async def open_(session: Session, name: NameArgument) -> Output:
        "Open an account."
        account = await open_account(await session.open(), session.runtime, name)
        return Output(account, f"Account {account.name} is open; its id is {account.id}.")
"""

import asyncio
import inspect
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import typer

from tollway.cli.lazy import Command, Group
from tollway.cli.output import Output, local_time
from tollway.cli.parameters import DatabaseOption, JsonOption
from tollway.cli.setting_sources import Origin, load_settings
from tollway.demo.world_file import saved_world, world_path
from tollway.ledger.runtime import Runtime
from tollway.settings import Settings
from tollway.store.clock import common_ms
from tollway.store.database import (
    CommitUnknownError,
    NoTimings,
    StoreBusyError,
    StoreError,
    StoreUnavailableError,
)
from tollway.store.migrate import check_current
from tollway.store.open import (
    OpenDatabase,
    is_shared,
    open_database,
    open_sealer,
    sqlite_path,
    unfinished_file,
    without_password,
)
from tollway.store.serving_nodes import all_nodes
from tollway.store.sqlite.connection import DISK_FULL
from tollway.store.sqlite.path_check import user_name, why_unusable

# Few commands seal anything: only those load the cryptography.
if TYPE_CHECKING:
    from sqlalchemy import Table

    from tollway.store.sealing import Sealer

# The demo world that `make run` serves, in the folder of the project.
_MADE_BY_RUN = "data/demo.db"

P = ParamSpec("P")
T = TypeVar("T")
Work = Callable[Concatenate["Session", P], Awaitable[Output | None] | Output | None]


class CommandError(typer.TyperException):
    """A command cannot do what was asked; the text is one sentence."""


class UsageError(CommandError):
    """A command was called with arguments that do not go together."""

    exit_code = 2


def confirm(question: str) -> None:
    """Asks before an act that cannot be undone; a script says `--yes` instead."""
    if not sys.stdin.isatty():
        raise UsageError("There is no terminal to ask whether you are sure: use --yes.")
    typer.confirm(question, abort=True, err=True)


def all_tables() -> "Iterator[Table]":
    """Those of all operations too, which are loaded when the first is asked for."""
    from tollway.operations.catalogue import ALL_TABLES

    yield from ALL_TABLES


class PageAddress(NamedTuple):
    """The address that links begin with, and what to say if it is not known to be right."""

    url: str
    doubt: str = ""


class Session:
    """What one command works with: its settings, its database, the clock and random ids."""

    def __init__(self, options: Mapping[str, object], *, as_json: bool = False) -> None:
        self._options = options
        self._database: OpenDatabase | None = None
        self.as_json = as_json
        # The person who runs the command, as the trail of acts names them.
        self.runtime = Runtime(by=f"{user_name()}@{socket.gethostname()}")

    def with_options(self, **options: object) -> "Session":
        """A session with more settings from the command line."""
        return Session({**self._options, **options}, as_json=self.as_json)

    @cached_property
    def _loaded(self) -> tuple[Settings, tuple[Origin, ...]]:
        return load_settings(self._options)

    @property
    def settings(self) -> Settings:
        return self._loaded[0]

    @property
    def origins(self) -> tuple[Origin, ...]:
        """Each setting with where its value came from."""
        return self._loaded[1]

    async def page_address(self) -> PageAddress:
        """Where people reach the gateway: as it is set, where the demo world was served last, or,
        as a guess, where a gateway of this machine serves now."""
        chosen = {each.name for each in self.origins if each.source != "default"}
        if chosen & {"host", "port", "public_url"}:
            return PageAddress(self.settings.public_address)
        world = saved_world(world_path(self.settings))
        if world is not None:
            return PageAddress(world.base_url)
        database = await self.open()
        now_ms = await common_ms(database, self.runtime.at_ms())
        alive = {each.name for each in await all_nodes(database) if each.is_alive(now_ms)}
        # The names of nodes on one machine differ only by port.
        machine, _, port = alive.pop().rpartition(":") if len(alive) == 1 else ("", "", "")
        is_here = machine == socket.gethostname() and port.isdecimal()
        # Only the port of that node is known, not its host or the name that people use.
        near = replace(self.settings, port=int(port)) if is_here else self.settings
        return PageAddress(
            near.public_address,
            "This address is a guess: set public_url to the one that people reach the gateway "
            "under, as in https://gateway.example.",
        )

    async def open(self) -> OpenDatabase:
        """The database, which must be there and up to date."""
        if self._database is None:
            _check_file(self.settings.database)
            await check_current(self.open_any())
        return self.open_any()

    def open_any(self) -> OpenDatabase:
        """The database as it is, whatever its schema; a file is made when there is none."""
        if self._database is None:
            self._database = open_database(self.settings.database, NoTimings())
        return self._database

    @asynccontextmanager
    async def new_file(self) -> AsyncIterator[bool]:
        """While this is entered, the database is a file that is made now; whether it is, and not
        one that was there before."""
        url = self.settings.database
        if self._database is not None or not _is_missing(url):
            yield False
            return
        async with unfinished_file(url, NoTimings()) as made:
            self._database = made
            try:
                yield True
            finally:
                self._database = None

    async def sealer(self) -> "Sealer":
        """Only where it is needed: it makes the key file if there is none."""
        await self.use_key_file()
        return open_sealer(self.settings.database, self.settings.key_file)

    async def use_key_file(self) -> None:
        """Refuses a key file that is not the one of the database."""
        from tollway.store.key_check import key_file_of, use_files

        await use_files(self.open_any(), [key_file_of(self.settings)], all_tables())

    def local_time(self, at_s: float | None) -> str | None:
        return local_time(at_s, self.settings.zone)

    async def close(self) -> None:
        if self._database is not None:
            await self._database.close()


def add_group(commands: typer.Typer, name: str, meaning: str | None = None) -> typer.Typer:
    """A group of commands; those of `tollway` itself have their help in the list of `main.py`."""
    group = typer.Typer(cls=Group, help=meaning, no_args_is_help=True)
    commands.add_typer(group, name=name)
    return group


def command(
    group: typer.Typer, name: str, *, has_database: bool = True
) -> Callable[[Work[P]], Work[P]]:
    """Makes a function a command of a group; its docstring is the help.

    A function that is not `async` runs outside of any event loop and opens nothing.
    """

    def declare(work: Work[P]) -> Work[P]:
        def run_command(
            *, database: str | None = None, as_json: bool = False, **arguments: Any
        ) -> None:
            session = Session({"database": database}, as_json=as_json)
            bound: Callable[[Session], Any] = partial(work, **arguments)
            output = run(session, bound) if inspect.iscoroutinefunction(work) else bound(session)
            if output is not None:
                _print(output, session)

        run_command.__doc__ = work.__doc__
        run_command.__signature__ = _signature(work, has_database)  # type: ignore[attr-defined]
        group.command(name, cls=Command)(run_command)
        return work

    return declare


def _print(output: Output, session: Session) -> None:
    try:
        output.print(as_json=session.as_json, zone=session.settings.zone)
    except BrokenPipeError:
        raise
    except OSError as error:
        # A person who takes this for a failure may run it again, and credit an account twice.
        raise CommandError(
            "The command did its work, but its output could not be written: "
            f"{error.strerror or error}."
        ) from None


def run(session: Session, work: Callable[[Session], Awaitable[T]]) -> T:
    """Runs work in a session and closes it."""

    async def whole() -> T:
        try:
            return await work(session)
        finally:
            await session.close()

    try:
        return asyncio.run(whole())
    except StoreError as error:
        explained = _explained(error, session)
        for note in getattr(error, "__notes__", ()) if explained is not error else ():
            explained.add_note(note)
        raise explained from None
    except Exception as error:
        if not _lacks_part(error):
            raise
        raise StoreError(
            f"The database {without_password(session.settings.database)} lacks a part that is "
            f"needed ({error}): it was changed by another program, or is of a development "
            "version. Undo that, or restore a backup."
        ) from error


def _lacks_part(error: Exception) -> bool:
    """Whether a driver says so; by the names of its errors, because neither need be loaded."""
    name = type(error).__name__
    if name == "SQLError":
        return str(error).startswith("no such ")
    return name in ("UndefinedTableError", "UndefinedColumnError", "UndefinedFunctionError")


def _signature(work: Callable[..., Any], has_database: bool) -> inspect.Signature:
    """What typer reads: the parameters after the session, and those that all commands have."""
    _, *own = inspect.signature(work).parameters.values()
    common = {"database": (DatabaseOption, None), "as_json": (JsonOption, False)}
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (kind, default) in common.items()
        if has_database or name != "database"
    ]
    return inspect.Signature(
        [*(each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own), *added]
    )


def _is_missing(url: str) -> bool:
    return not is_shared(url) and not Path(sqlite_path(url)).exists()


def _check_file(url: str) -> None:
    # Opening would create the file, and a mistyped name would look like an empty gateway.
    if _is_missing(url):
        demo = f" That of `make run` is {_MADE_BY_RUN}." if Path(_MADE_BY_RUN).is_file() else ""
        raise StoreError(
            f"There is no database file {sqlite_path(url)}: name yours with --database "
            f"sqlite:///FILE, run `tollway migrate` to create it, or `tollway serve --demo` to try "
            f"Tollway out.{demo}"
        )


def _explained(error: StoreError, session: Session) -> StoreError:
    """What an error of the database means to the person who ran the command."""
    if not isinstance(error, StoreBusyError | StoreUnavailableError):
        return error
    shown = without_password(session.settings.database)
    if isinstance(error, StoreBusyError):
        return StoreError(
            f"The database {shown} is busy: another program has been using it "
            "for a long time. Try again."
        )
    if isinstance(error, CommitUnknownError):
        # A person who takes this for a failure may run it again, and credit an account twice.
        return StoreError(
            f"The database {shown} was lost during the commit ({error}), so it is not known "
            "whether the change was made: look, for instance with `tollway ledger show`, before "
            "you run the command again."
        )
    url = session.settings.database
    refusal = None if is_shared(url) else why_unusable(Path(sqlite_path(url)))
    reason = f", because {refusal} ({error})" if refusal else f": {with_advice(error)}"
    return StoreError(f"The database {shown} cannot be read or written{reason}")


def with_advice(error: StoreError) -> str:
    """An error of the database as a sentence; of a full disk it also says what to do."""
    return f"{error}. Free some space on this disk." if str(error) == DISK_FULL else f"{error}."

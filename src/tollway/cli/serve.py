"""`tollway serve` and `tollway demo`: the gateway itself, and a demo world to try everything in."""

import logging
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from tollway.cli.command import CommandError, Session, all_tables, command, run
from tollway.cli.operator import LINK_MINUTES, operator_url
from tollway.cli.output import Output, encodable, progress_bar
from tollway.cli.parameters import option
from tollway.demo.world_file import (
    DemoWorld,
    curl_line,
    making_alone,
    note_address,
    saved_world,
    world_path,
)
from tollway.identity.people import an_operator_has_a_password
from tollway.identity.sign_in_links import ensure_operator, new_link
from tollway.ledger.accounts import has_accounts
from tollway.ledger.runtime import UNATTENDED
from tollway.settings import Settings, SettingsError
from tollway.store.key_check import (
    files_of,
    readable_by_others,
    refuse_others,
    refuse_unusable,
    use_files,
)
from tollway.store.migrate import check_current, check_unchanged, migrate
from tollway.store.open import check_file, is_shared, sqlite_path, unverified_links
from tollway.store.sqlite.files import ServingLock, remove_abandoned_backups
from tollway.store.sqlite.write_ahead_log import rewrite_left_log
from tollway.telemetry.logs import configure_logging

if TYPE_CHECKING:
    from tollway.gateway.listening import PassedSocket

logger = logging.getLogger("tollway.serving")

commands = typer.Typer()

_NEW = (
    "This gateway is new and has no data: its database was made now, {file}. If you expected "
    "another one, stop, and start it in the folder of your settings, or with --database."
)
_FIRST_STEPS = (
    "Next: `tollway account open NAME`, then `tollway permission add`, `tollway credit add` and",
    "`tollway token issue` for it.",
    "",
)
_NOT_EMPTY = (
    "This database has accounts or shops already, and the demo world would be mixed with them: "
    "name another one, as in `tollway demo --database sqlite:///demo.db`."
)
_WAITING = "Another command is making the demo world of this database: waiting for it."


@command(commands, "serve")
def serve(
    session: Session,
    host: Annotated[str | None, option("The address to listen on.")] = None,
    port: Annotated[int | None, option("The port to listen on.")] = None,
    workers: Annotated[int | None, option("How many processes serve.")] = None,
    with_demo: Annotated[
        bool, option("Load the demo world first, if it is not there yet.", "--demo")
    ] = False,
) -> None:
    """Serve the paid operations until stopped (Ctrl+C)."""
    from tollway.gateway.connections import within_open_files
    from tollway.gateway.listening import free_address, passed_socket
    from tollway.gateway.supervisor import serve_http

    session = session.with_options(host=host, port=port, workers=workers)
    passed = passed_socket()
    if passed is not None:
        session = _at_passed_socket(session, passed)
    if with_demo and _serves_agents(session):
        session = session.with_options(mcp="on")
    settings, few_files = within_open_files(session.settings)
    _check_engine(settings)
    # These checks come before anything is created or changed.
    check_file(settings.database)
    if passed is None:
        free_address(settings.host, settings.port)
    for file in files_of(settings):
        refuse_unusable(file)
    new_file = _new_file(settings)
    lock = _serving_lock(settings)
    warnings = [*few_files, *unverified_links(settings), *readable_by_others(settings)]
    next_lines = [] if new_file is None else [_NEW.format(file=new_file), ""]

    async def prepare(session: Session) -> tuple[DemoWorld | None, str]:
        if lock is not None:
            rewrite_left_log(sqlite_path(settings.database))
        if not with_demo:
            warnings.extend(await _prepare(session, is_alone=lock is not None))
            note_address(world_path(settings), settings.address)
            if not await has_accounts(session.open_any()):
                next_lines.extend(_FIRST_STEPS)
            return None, await _operator_link(session, is_demo=False)
        with _making_alone(settings):
            async with session.new_file() as is_new:
                warnings.extend(await _prepare(session, is_alone=lock is not None))
                world = await _ensure_world(session, settings.address, is_new=is_new)
            return world, await _operator_link(session, is_demo=True)

    world, link = run(session, prepare)
    if session.as_json:
        content = {"address": settings.address, "demo": world, "operator_link": link or None}
        greeting = f"{msgspec.json.encode(content).decode()}\n"
    else:
        greeting = _greeting(settings.address, world, warnings, link, next_lines)
    configure_logging(settings.log_level, settings.port)
    for warning in warnings:
        logger.warning(warning)
    serve_http(settings, encodable(greeting), passed)
    if lock is not None:
        lock.release()


@command(commands, "demo")
async def demo(session: Session) -> Output:
    """Fill a database with a demo world, once, and print what is needed to try it."""
    check_file(session.settings.database)
    # Locked before the database is opened: two processes that open a new file would collide.
    with _making_alone(session.settings):
        async with session.new_file() as is_new:
            await migrate(session.open_any())
            world = await _ensure_world(session, _chosen_address(session), is_new=is_new)
    return Output(
        world,
        "The demo world is ready. Start it with `tollway serve`, then paste:",
        curl_line(world, world.base_url),
    )


def _at_passed_socket(session: Session, passed: "PassedSocket") -> Session:
    """A session whose settings have the address of this socket."""
    from tollway.gateway.listening import refuse_another_address

    chosen = {each.name for each in session.origins if each.source != "default"}
    host = session.settings.host if "host" in chosen else None
    port = session.settings.port if "port" in chosen else None
    refuse_another_address(passed, host, port)
    return session.with_options(host=passed.host, port=passed.port)


def _serves_agents(session: Session) -> bool:
    """Whether the demo world has /mcp: if its package is installed and the operator has not set
    `mcp`."""
    is_undecided = all(each.source == "default" for each in session.origins if each.name == "mcp")
    return is_undecided and find_spec("mcp") is not None


def _check_engine(settings: Settings) -> None:
    if settings.read_database and not is_shared(settings.read_database):
        raise SettingsError("Setting read_database must be a postgresql:// URL.")
    if is_shared(settings.database):
        return
    if settings.read_database:
        raise SettingsError(
            "A SQLite file has no replica: leave read_database empty, or set database to a "
            "postgresql:// URL."
        )


async def _prepare(session: Session, *, is_alone: bool) -> list[str]:
    """Brings the database up to date and enters its keys; gives what to warn of."""
    database, settings = session.open_any(), session.settings
    files = files_of(settings)
    await refuse_others(database, files)
    await migrate(database, is_alone=is_alone)
    await check_current(database)
    await check_unchanged(database)
    await use_files(database, files, all_tables())
    if not database.is_shared:
        return []
    # Imported here, so that the driver is loaded only for PostgreSQL.
    from tollway.store.postgresql.durability import durability_risks
    from tollway.store.postgresql.pool import crowding

    now_ms = session.runtime.at_ms()
    crowded = await crowding(database, settings.workers, settings.database_connections, now_ms)
    return [*await durability_risks(database), *crowded]


async def _operator_link(session: Session, *, is_demo: bool) -> str:
    """A link that signs the operator in, as long as none has a password; always in the demo."""
    database, runtime = session.open_any(), session.runtime
    found = await ensure_operator(database, runtime)
    if not is_demo and await an_operator_has_a_password(database):
        return ""
    # Not recorded as an act, because every start makes a link. Earlier links stay valid, because
    # another node may start at the same moment.
    made = await new_link(database, UNATTENDED, found.id, LINK_MINUTES * 60, ends_earlier=False)
    return operator_url(session.settings.public_address, made)


def _serving_lock(settings: Settings) -> ServingLock | None:
    """Held until this process ends. A shared database may have any number of gateways."""
    if is_shared(settings.database):
        return None
    path = sqlite_path(settings.database)
    lock = ServingLock(path)
    remove_abandoned_backups(Path(path))
    return lock


def _greeting(
    base_url: str,
    world: DemoWorld | None,
    warnings: Sequence[str],
    link: str,
    next_lines: Sequence[str],
) -> str:
    lines = [f"Tollway is serving on {base_url}", ""]
    for warning in warnings:
        lines += [warning, ""]
    if link:
        lines += ["Sign in as the operator, once, within the hour:", "", f"  {link}", ""]
    if world is None:
        lines += next_lines
    else:
        lines += ["Try a paid call:", "", f"  {curl_line(world, world.base_url)}", ""]
    return "\n".join([*lines, "Stop with Ctrl+C.", ""])


def _new_file(settings: Settings) -> Path | None:
    """The file that will be made; None if it is there, or is none."""
    if is_shared(settings.database):
        return None
    path = Path(sqlite_path(settings.database)).resolve()
    return None if path.exists() else path


async def _ensure_world(session: Session, address: str | None, *, is_new: bool) -> DemoWorld:
    """The demo world of this database, made now if it was not made before, and up to date.

    It keeps the address under which it was last served, unless there is another.
    """
    # Imported here: otherwise only the workers load these.
    from tollway.consent.owners import list_owners
    from tollway.demo.world import continue_world, make_world, world_records

    database, settings = session.open_any(), session.settings
    path = world_path(settings)
    # A file beside a new database belongs to an earlier one, and is ignored.
    made, sealer = None if is_new else saved_world(path), await session.sealer()
    if made is not None:
        return await continue_world(
            database,
            sealer,
            made,
            database_path=path,
            base_url=address or made.base_url,
            site=settings.public_address if address else made.site,
            now_s=session.runtime.at_s(),
            zone=settings.zone,
        )
    if await has_accounts(database) or await list_owners(database):
        raise CommandError(_NOT_EMPTY)
    with progress_bar("Making the demo world", world_records(), has_lines=True) as advance:
        return await make_world(
            database,
            sealer,
            session.runtime,
            database_path=path,
            base_url=settings.address,
            site=settings.public_address,
            zone=settings.zone,
            progress=advance,
        )


def _chosen_address(session: Session) -> str | None:
    """The address of the settings, if they name one."""
    chosen = {each.name for each in session.origins if each.source != "default"}
    return session.settings.address if chosen & {"host", "port"} else None


def _making_alone(settings: Settings) -> AbstractContextManager[None]:
    path = world_path(settings)
    if not Path(path).resolve().parent.is_dir():
        # Opening the database will report the problem.
        return nullcontext()
    return making_alone(path, lambda: typer.echo(_WAITING, err=True))

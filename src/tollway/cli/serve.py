"""`tollway serve`: the main job."""

import logging
from collections.abc import Sequence
from typing import Annotated

import typer

from tollway.cli.context import Session, run_on_any_schema
from tollway.cli.demo import curl_line, ensure_world
from tollway.cli.options import DatabaseOption, JsonOption
from tollway.cli.output import as_json_line
from tollway.cli.setting_sources import load_settings
from tollway.demo.world import DemoWorld
from tollway.ledger.runtime import Runtime
from tollway.operations.catalogue import ALL_TABLES
from tollway.settings import Settings, SettingsError
from tollway.store.key_check import files_of, refuse_others, refuse_unusable, use_files
from tollway.store.migrate import check_current, migrate
from tollway.store.open import is_shared, sqlite_path, unverified_links
from tollway.store.postgresql.pool import crowding
from tollway.store.sqlite.files import ServingLock
from tollway.telemetry.logs import configure_logging

logger = logging.getLogger("tollway.serving")


def register(commands: typer.Typer) -> None:
    commands.command()(serve)


def serve(
    database: DatabaseOption = None,
    host: Annotated[
        str | None, typer.Option(help="The address to listen on.", show_default=False)
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="The port to listen on.", show_default=False)
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(help="How many processes serve; needs PostgreSQL.", show_default=False),
    ] = None,
    with_demo: Annotated[
        bool, typer.Option("--demo", help="Load the demo world first, if it is not there yet.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Serve the paid operations until stopped (Ctrl+C)."""
    # Imported here: every other command would pay for loading the HTTP server.
    from tollway.gateway.server import free_address, serve_http

    options = {"database": database, "host": host, "port": port, "workers": workers}
    settings, _ = load_settings(options)
    _check_engine(settings)
    warnings = unverified_links(settings)
    # Asked before anything is made or changed.
    free_address(settings.host, settings.port)
    files = files_of(settings)
    for file in files:
        refuse_unusable(file)
    # Held until this process ends. A shared database may have any number of gateways.
    lock = None if is_shared(settings.database) else ServingLock(sqlite_path(settings.database))

    async def work(session: Session) -> DemoWorld | None:
        await refuse_others(session.database, files)
        await migrate(session.database, is_alone=lock is not None)
        await check_current(session.database)
        await use_files(session.database, files, ALL_TABLES)
        warnings.extend(
            await crowding(
                session.database, settings.workers, settings.database_connections, Runtime().at_ms()
            )
        )
        return await ensure_world(session) if with_demo else None

    world = run_on_any_schema(database, work, options)
    if as_json:
        greeting = as_json_line({"address": settings.address, "demo": world})
    else:
        greeting = _greeting(settings.address, world, warnings)
    configure_logging(settings.log_level)
    for warning in warnings:
        logger.warning(warning)
    serve_http(settings, greeting)
    if lock is not None:
        lock.release()


def _check_engine(settings: Settings) -> None:
    if settings.read_database and not is_shared(settings.read_database):
        raise SettingsError("Setting read_database must be a postgresql:// URL.")
    if is_shared(settings.database):
        return
    if settings.workers > 1:
        raise SettingsError(
            f"A SQLite file is served by one process, and workers is {settings.workers}: it has a "
            "single writer, so more would only wait for each other. Set workers to 1, or set "
            "database to a postgresql:// URL."
        )
    if settings.read_database:
        raise SettingsError(
            "A SQLite file has no replica: leave read_database empty, or set database to a "
            "postgresql:// URL."
        )


def _greeting(base_url: str, world: DemoWorld | None, warnings: Sequence[str]) -> str:
    lines = [f"Tollway is serving on {base_url}", ""]
    for warning in warnings:
        lines += [warning, ""]
    if world is None:
        lines += [
            "Next: `tollway account open NAME`, then `tollway grant`, `tollway credit add` and",
            "`tollway token issue` for it.",
        ]
    else:
        lines += ["Try a paid call:", "", f"  {curl_line(world)}"]
    return "\n".join([*lines, "", "Stop with Ctrl+C.", ""])

"""`tollway demo`: a world to try everything in."""

from datetime import date, datetime

import msgspec
import typer

from tollway.cli.context import Session, run_on_any_schema
from tollway.cli.options import DatabaseOption, JsonOption
from tollway.cli.output import print_json, print_sentence
from tollway.cli.progress import progress_bar
from tollway.demo.world import (
    DemoWorld,
    continue_world,
    make_world,
    saved_world,
    world_records,
)
from tollway.settings import Settings
from tollway.store.migrate import migrate
from tollway.store.open import is_shared, key_path, sqlite_path


def register(commands: typer.Typer) -> None:
    commands.command()(demo)


def demo(database: DatabaseOption = None, as_json: JsonOption = False) -> None:
    """Fill a database with a demo world, once, and print what is needed to try it."""

    async def work(session: Session) -> DemoWorld:
        await migrate(session.database)
        return await ensure_world(session)

    world = run_on_any_schema(database, work)
    if as_json:
        print_json(world)
    else:
        print_sentence("The demo world is ready. Start it with `tollway serve`, then paste:")
        print_sentence(curl_line(world))


async def ensure_world(session: Session) -> DemoWorld:
    """The demo world of this database, made now if it was not made before."""
    path = _place(session.settings)
    base_url, today = session.settings.address, _today(session.settings)
    world = saved_world(path)
    if world is None:
        with progress_bar("Making the demo world", world_records()) as advance:
            return await make_world(
                session.database,
                await session.sealer(),
                session.runtime,
                database_path=path,
                base_url=base_url,
                today=today,
                zone=session.settings.zone,
                progress=advance,
            )
    sealer = await session.sealer()
    await continue_world(session.database, sealer, world, today, session.settings.zone)
    return msgspec.structs.replace(world, base_url=base_url)


def _place(settings: Settings) -> str:
    """The file that the demo world is written down beside."""
    if is_shared(settings.database):
        return str(key_path(settings.database, settings.key_file))
    return sqlite_path(settings.database)


def curl_line(world: DemoWorld) -> str:
    query = f"product_id={world.product_id}&query_date={world.query_date}"
    return (
        f"curl -H 'Authorization: Bearer {world.token}' "
        f"'{world.base_url}/papi/tool/accounts/goods-analysis?{query}'"
    )


def _today(settings: Settings) -> date:
    return datetime.now(settings.zone).date()

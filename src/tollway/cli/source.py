"""`tollway source`: who may push orders."""

from typing import Annotated
from zoneinfo import ZoneInfo

import typer

from tollway.cli.context import Session, run
from tollway.cli.options import DatabaseOption, JsonOption
from tollway.cli.output import print_json, print_sentence, print_table, shown_time
from tollway.intake.sources import Source, SourceSecret, add_source, list_sources, rotate_secret

NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="The source's name.", show_default=False)
]

group = typer.Typer(help="Add and list the sources of pushed orders.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="source")


@group.command("add")
def add(name: NameArgument, database: DatabaseOption = None, as_json: JsonOption = False) -> None:
    """Add a source. Its secret is shown this once."""

    async def work(at: Session) -> SourceSecret:
        return await add_source(at.database, await at.sealer(), name, at.runtime.at_s())

    made = run(database, work)
    _print_secret(made, as_json=as_json)


@group.command("rotate")
def rotate(
    name: NameArgument, database: DatabaseOption = None, as_json: JsonOption = False
) -> None:
    """Make a new secret. The one before it is accepted until the next rotation."""

    async def work(at: Session) -> SourceSecret:
        return await rotate_secret(at.database, await at.sealer(), name, at.runtime.at_s())

    made = run(database, work)
    _print_secret(made, as_json=as_json)


@group.command("list")
def list_(database: DatabaseOption = None, as_json: JsonOption = False) -> None:
    """List the sources."""

    async def work(at: Session) -> tuple[ZoneInfo, list[Source]]:
        return at.settings.zone, await list_sources(at.database)

    zone, sources = run(database, work)
    if as_json:
        print_json(sources)
        return
    print_table(
        ("source", "added", "rotated"),
        [
            (each.name, shown_time(each.added_at_s, zone), shown_time(each.rotated_at_s, zone))
            for each in sources
        ],
        empty="There are no sources: `tollway source add NAME` adds one.",
        times_in=zone,
    )


def _print_secret(made: SourceSecret, *, as_json: bool) -> None:
    if as_json:
        print_json(made)
        return
    print_sentence(made.secret)
    print_sentence(f"Keep it now, it is not shown again. Pushes of {made.source.name} use it.")

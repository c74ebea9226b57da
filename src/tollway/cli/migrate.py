"""`tollway migrate`: the database's schema."""

import msgspec
import typer

from tollway.cli.context import Session, run_on_any_schema
from tollway.cli.options import DatabaseOption, JsonOption
from tollway.cli.output import print_json, print_sentence
from tollway.store.migrate import migrate as migrate_schema
from tollway.store.migrate import newest_revision

group = typer.Typer()


class Migration(msgspec.Struct, frozen=True):
    """The schema's revision before and after."""

    before: str | None
    after: str


def register(app: typer.Typer) -> None:
    app.add_typer(group)


@group.command("migrate")
def migrate(database: DatabaseOption = None, as_json: JsonOption = False) -> None:
    """Create the database, or bring its schema up to date."""

    async def work(at: Session) -> Migration:
        return Migration(*await migrate_schema(at.database))

    migration = run_on_any_schema(database, work)
    if as_json:
        print_json(migration)
    elif migration.before is None:
        print_sentence(f"The database is created, at schema {migration.after}.")
    elif migration.after > newest_revision():
        print_sentence(
            f"The database is at schema {migration.after}, newer than this version's "
            f"{newest_revision()}, which can serve on it: nothing was done."
        )
    elif migration.before == migration.after:
        print_sentence(f"The database is up to date, at schema {migration.after}.")
    else:
        print_sentence(f"The schema went from {migration.before} to {migration.after}.")

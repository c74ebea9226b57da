"""`tollway settings`: every setting, where its value came from and what it means."""

from dataclasses import replace

import typer

from tollway.cli.options import DatabaseOption, JsonOption
from tollway.cli.output import print_json, print_table
from tollway.cli.setting_sources import Origin, load_settings
from tollway.store.open import without_password

group = typer.Typer()


def register(app: typer.Typer) -> None:
    app.add_typer(group)


@group.command("settings")
def settings(database: DatabaseOption = None, as_json: JsonOption = False) -> None:
    """Show every setting, where its value came from and what it means."""
    _, found = load_settings({"database": database})
    origins = [_as_shown(origin) for origin in found]
    if as_json:
        print_json(origins)
    else:
        print_table(
            ("setting", "value", "from", "meaning"),
            [
                (origin.name, _as_written(origin.value), origin.source, origin.meaning)
                for origin in origins
            ],
            empty="There are no settings.",
        )


def _as_shown(origin: Origin) -> Origin:
    """Without the password that a database URL may have."""
    if origin.name not in ("database", "read_database"):
        return origin
    return replace(origin, value=without_password(str(origin.value)))


def _as_written(value: str | int) -> str:
    """As it would stand in tollway.toml, but for the quotes."""
    return str(value).lower() if isinstance(value, bool) else str(value)

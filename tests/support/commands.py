"""All commands of `tollway`, loaded."""

from collections.abc import Iterator

from typer.main import get_command

from tollway.cli.lazy import Command, Group, LazyCommand
from tollway.cli.main import app


def all_commands() -> dict[str, Command]:
    """Each by its name, such as `account open`."""
    return dict(_commands(get_command(app), ""))


def _commands(of: object, path: str) -> Iterator[tuple[str, Command]]:
    assert isinstance(of, Group)
    for name, entry in of.commands.items():
        command = entry.load() if isinstance(entry, LazyCommand) else entry
        here = f"{path} {name}".strip()
        if isinstance(command, Command):
            yield here, command
        else:
            yield from _commands(command, here)

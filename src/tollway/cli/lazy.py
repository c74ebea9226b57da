"""Commands that load no more than they need: `--version` and `--help` answer without any of them,
and a command without the others."""

import gc
import re
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from typer._coercion import build_runtime_param
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

_PLAIN_NUMBER = re.compile(r"[0-9]{1,9}")
_NEGATIVE = re.compile(r"-[0-9].*")


class Entry(NamedTuple):
    """A command or a group of commands: the module of this folder that has it, and its help."""

    module: str
    help: str


class _PlainNumber:
    """Reads plain numbers; typer converts, or refuses, what is none."""

    def coerce(self, value: Any, *, param: Any, ctx: Any) -> Any:
        if value is None or isinstance(value, int):
            return value
        if isinstance(value, str) and _PLAIN_NUMBER.fullmatch(value):
            return int(value)
        return build_runtime_param(param.type_descriptor).coerce(value, param=param, ctx=ctx)


class _PlainPath:
    """A path as it was given: what can be done with its file is found out by who uses it."""

    def coerce(self, value: Any, **_: Any) -> Any:
        return Path(value) if isinstance(value, str) else value


class _WithoutPydantic:
    """Takes texts, flags and paths as they were given, and reads plain numbers itself.

    Typer converts them with pydantic, to the same outcome, and pydantic alone takes longer to load
    than typer. It still converts choices and numbers with limits.
    """

    def get_params(self, ctx: Any) -> list[Any]:
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for each in parameters:
            kind, info = each.type_descriptor.annotation, each.type_descriptor.parameter_info
            if kind in (str, bool):
                each._runtime_param = self
            elif kind is Path:
                each._runtime_param = _PlainPath()
            elif kind is int and info.min is None and info.max is None:
                each._runtime_param = _PlainNumber()
        return parameters

    def coerce(self, value: Any, *, param: Any, **_: Any) -> Any:
        parser = param.type_descriptor.parameter_info.parser
        return value if parser is None or value is None else parser(value)


class Command(_WithoutPydantic, TyperCommand):
    """A command that is loaded."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        # Only what looks like a negative number may be no option: a mistyped one is called so.
        if not any(map(_NEGATIVE.fullmatch, args)):
            ctx.ignore_unknown_options = False
        return super().parse_args(ctx, args)


class Group(_WithoutPydantic, TyperGroup):
    """A group of commands that is loaded."""


class LazyCommand(TyperCommand):
    """A command or a group, known by its name and help, that is loaded when it is called."""

    def __init__(self, name: str, entry: Entry) -> None:
        super().__init__(name, help=entry.help)
        self._module = entry.module

    def load(self) -> Command | Group:
        """The command itself; a group gets its help here, where it is written."""
        command = _commands_of(self._module)[self.name or ""]
        assert isinstance(command, Command | Group)
        if isinstance(command, Group):
            command.help = self.help
        return command

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        return self.load().make_context(info_name, args, parent, **extra)


def lazy_group(entries: Mapping[str, Entry]) -> type[Group]:
    """The group of these commands, none of them loaded."""

    class LazyGroup(Group):
        def __init__(self, **attributes: Any) -> None:
            super().__init__(**attributes)
            self.commands = {name: LazyCommand(name, entry) for name, entry in entries.items()}

    return LazyGroup


@cache
def _commands_of(module: str) -> Mapping[str, object]:
    # What is loaded stays until the process ends: looking for garbage in it, meanwhile and at the
    # end, would take a third of the time of a short command.
    gc.disable()
    try:
        return get_group(import_module(f"tollway.cli.{module}").commands).commands
    finally:
        gc.freeze()
        gc.enable()

"""Commands that load no more than they need: `--version` and `--help` answer without any of them,
and a command without the others. So functions import what most commands do not need."""

import gc
from collections.abc import Mapping
from functools import cache, partial
from importlib import import_module
from typing import Any, NamedTuple

from typer._click.exceptions import UsageError
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from tollway.cli.arguments import (
    Values,
    WrongUsageError,
    kind_shown,
    refuse_missing_values,
    span_shown,
    too_many,
    unknown,
    usage_shown,
    with_negatives,
)

_VALUES = Values()
_OBJECTS_BETWEEN_COLLECTIONS = 10_000


class Entry(NamedTuple):
    """A command or a group of commands: the module of this folder that has it, and its help."""

    module: str
    help: str


class _WithOurValues:
    """A command or a group whose parameters are read by `Values`."""

    def get_params(self, ctx: Any) -> list[Any]:
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for each in parameters:
            each._runtime_param = _VALUES
            each.display_type_rich = partial(kind_shown, each)
            each._get_number_range_help_str = partial(span_shown, each)
            if each.param_type_name == "argument":
                each._usage_display_name = partial(usage_shown, each)
        return parameters


class Command(_WithOurValues, TyperCommand):
    """A command that is loaded."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        parameters = self.get_params(ctx)
        arguments = [each for each in parameters if each.param_type_name == "argument"]
        options = [each for each in parameters if each.param_type_name == "option"]
        if not ctx.resilient_parsing:
            refuse_missing_values(args, options, ctx)
        if any(each.type_descriptor.annotation is int for each in arguments):
            args = with_negatives(args, options)
        # Extra arguments are refused below, in our own words.
        ctx.allow_extra_args = True
        try:
            surplus = super().parse_args(ctx, args)
        except UsageError as error:
            # For an option without a value, the parser does not say which command it belongs to.
            error.ctx = error.ctx or ctx
            raise
        if surplus and not ctx.resilient_parsing:
            raise WrongUsageError(too_many(arguments, surplus), ctx)
        return surplus


class Group(_WithOurValues, TyperGroup):
    """A group of commands that is loaded."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if self.get_command(ctx, args[0]) is None and not ctx.resilient_parsing:
            raise WrongUsageError(unknown("command", args[0], self.commands), ctx)
        return super().resolve_command(ctx, args)


class LazyCommand(TyperCommand):
    """A command or a group, known by its name and help, that is loaded when it is called."""

    def __init__(self, name: str, entry: Entry, heading: str) -> None:
        super().__init__(name, help=entry.help, rich_help_panel=heading)
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


def lazy_group(commands: Mapping[str, Mapping[str, Entry]]) -> type[Group]:
    """The group of these commands, by the headings of its help, none of them loaded."""

    class LazyGroup(Group):
        def __init__(self, **attributes: Any) -> None:
            super().__init__(**attributes)
            self.commands = {
                name: LazyCommand(name, entry, heading)
                for heading, entries in commands.items()
                for name, entry in entries.items()
            }

    return LazyGroup


@cache
def _commands_of(module: str) -> Mapping[str, object]:
    # Loaded modules live until the process ends: collecting garbage among them, now and at exit,
    # would take a third of the time of a short command.
    gc.disable()
    try:
        return get_group(import_module(f"tollway.cli.{module}").commands).commands
    finally:
        gc.freeze()
        # Few commands leave cycles, and what some load later is no garbage either.
        gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
        gc.enable()

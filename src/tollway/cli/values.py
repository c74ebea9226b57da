"""How the values of arguments and options are read, refused and shown in the help.

Typer reads them with pydantic, which takes longer to load than typer, and has words of its own for
what is wrong.
"""

import re
from collections.abc import Sequence
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any

from tollway.cli.usage_errors import WrongUsageError, choices_of, name_of, wrong_value

_NUMBER = re.compile(r"[+-]?[0-9]+(_[0-9]+)*")
# More than any limit has: parsing a longer number is slow.
_DIGITS_MAX = 40
_NEGATIVE = re.compile(r"-[0-9]")


class Values:
    """Reads what was given for one parameter, as typer calls it."""

    def coerce(self, value: Any, *, param: Any, ctx: Any) -> Any:
        if value is None or param.type_descriptor.annotation is bool:
            return value
        if param.multiple:
            return [_read(each, param, ctx) for each in value]
        return _read(value, param, ctx)


def _read(value: Any, parameter: Any, context: Any) -> Any:
    if not isinstance(value, str):
        # A default.
        return value
    descriptor = parameter.type_descriptor
    kind, info = descriptor.annotation, descriptor.parameter_info
    if kind is int:
        return _number(value, parameter, context)
    choices = choices_of(parameter)
    if choices:
        if value not in choices:
            raise wrong_value(parameter, context, value, f"one of {', '.join(choices)}")
        return choices[value]
    # A blank value is most often an unset shell variable. Only a text whose default is blank may be
    # blank.
    if not value.strip() and parameter.default != "":
        raise wrong_value(parameter, context, value, "")
    if kind is Path:
        return Path(value)
    return value if info.parser is None else info.parser(value)


def _number(text: str, parameter: Any, context: Any) -> int:
    info = parameter.type_descriptor.parameter_info
    if _NUMBER.fullmatch(text.strip()) and len(text) <= _DIGITS_MAX:
        number = int(text)
        if (info.min is None or number >= info.min) and (info.max is None or number <= info.max):
            return number
    span = span_shown(parameter)
    wanted = f"a whole number from {span}" if span else "a whole number"
    raise wrong_value(parameter, context, text, wanted)


def span_shown(parameter: Any) -> str:
    """The limits of a number, for people."""
    info = parameter.type_descriptor.parameter_info
    if info.min is None:
        return ""
    return f"{info.min:,} on" if info.max is None else f"{info.min:,} to {info.max:,}"


def usage_shown(argument: Any) -> str:
    """An argument in the line of usage; typer has required ones in braces, as if to choose from."""
    name = name_of(argument)
    return name if argument.required else f"[{name}]"


def kind_shown(parameter: Any, **_: Any) -> str | None:
    """What the help says that a parameter takes: not how Python calls it, and nothing of a flag,
    which takes no value."""
    kind = parameter.type_descriptor.annotation
    if kind is bool:
        return None
    if kind is int:
        return "NUMBER"
    choices = choices_of(parameter)
    if choices:
        return "|".join(choices)
    if parameter.param_type_name == "argument":
        return None
    return parameter.metavar or ("FILE" if kind is Path else "TEXT")


def refuse_missing_values(arguments: Sequence[str], options: Sequence[Any], context: Any) -> None:
    """An option that takes a value would take the option after it for that value."""
    names = {name for each in options for name in each.opts}
    with_value = _with_value(options)
    for before, after in pairwise(takewhile(lambda each: each != "--", arguments)):
        if before in with_value and after in names:
            raise WrongUsageError(f"{before} needs a value", context)


def with_negatives(arguments: Sequence[str], options: Sequence[Any]) -> list[str]:
    """The same arguments, but with a space before each negative number that is not the value of an
    option: it must not be taken for an option itself."""
    with_value = _with_value(options)
    return [
        f" {each}" if _NEGATIVE.match(each) and before not in with_value else each
        for before, each in zip(["", *arguments], arguments, strict=False)
    ]


def _with_value(options: Sequence[Any]) -> set[str]:
    return {name for each in options if not each.is_flag for name in each.opts}

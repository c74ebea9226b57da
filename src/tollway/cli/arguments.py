"""How the arguments and options of a command line are read and shown in the help, and in one
sentence what is wrong with them: the argument, what is wrong with it, and where its help is.

Typer reads them with pydantic, which takes longer to load than typer, and has words of its own for
what is wrong.
"""

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any

import typer
from typer._click.exceptions import (
    BadOptionUsage,
    MissingParameter,
    NoArgsIsHelpError,
    NoSuchOption,
    UsageError,
)

_NUMBER = re.compile(r"[+-]?[0-9]+(_[0-9]+)*")
# More than any limit has: parsing a longer number is slow.
_DIGITS_MAX = 40
_NEGATIVE = re.compile(r"-[0-9]")
# A longer value is shortened in a message.
_SHOWN_MAX = 60
# The least similarity of two names, by difflib: below it, the name is another word, and no typo.
_LIKENESS_MIN = 0.75
# Options that every command takes, and no group of commands.
_OF_COMMANDS = ("--database", "--json")


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
            raise _wrong_value(parameter, context, value, f"one of {', '.join(choices)}")
        return choices[value]
    # A blank value is most often an unset shell variable. Only a text whose default is blank may be
    # blank.
    if not value.strip() and parameter.default != "":
        raise _wrong_value(parameter, context, value, "")
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
    raise _wrong_value(parameter, context, text, wanted)


def span_shown(parameter: Any) -> str:
    """The limits of a number, for people."""
    info = parameter.type_descriptor.parameter_info
    if info.min is None:
        return ""
    return f"{info.min:,} on" if info.max is None else f"{info.min:,} to {info.max:,}"


def usage_shown(argument: Any) -> str:
    """An argument in the line of usage; typer has required ones in braces, as if to choose from."""
    name = _name_of(argument)
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


class WrongUsageError(UsageError):
    """An argument is wrong; the text is the sentence, without where the help is."""


def _wrong_value(parameter: Any, context: Any, value: str, wanted: str) -> WrongUsageError:
    if not value.strip():
        return WrongUsageError(f"{_name_of(parameter)} is empty", context)
    shown = value if len(value) <= _SHOWN_MAX else f"{value[:_SHOWN_MAX]}…"
    return WrongUsageError(
        f"{_name_of(parameter)} must be {wanted}, and not {shown.strip()}", context
    )


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """There is no such command or option; says also which one may have been meant."""
    known = list(known)
    begun = [each for each in known if each.startswith(name)]
    near = begun or get_close_matches(name, known, n=2, cutoff=_LIKENESS_MIN)
    return f"There is no {kind} {name}" + (f". Did you mean {' or '.join(near)}?" if near else "")


def too_many(arguments: Sequence[Any], surplus: Sequence[str]) -> str:
    texts = " ".join(each.strip() for each in surplus)
    if not arguments:
        return f"No argument is expected: leave out {texts}"
    return (
        f"Nothing is expected after {_name_of(arguments[-1])}: leave out {texts}, or put a text "
        "with spaces in quotes"
    )


def choices_of(parameter: Any) -> dict[str, Any]:
    """What a parameter takes, by its text, if it takes only this."""
    return {
        str(getattr(each, "value", each)): each for each in parameter.type_descriptor.choices or ()
    }


def _name_of(parameter: Any) -> str:
    """As a person writes it: options by their name, arguments as the help shows them."""
    is_option = parameter.param_type_name == "option"
    return str(parameter.opts[0] if is_option else parameter.display_name_raw)


def usage_sentence(error: typer.TyperException) -> str:
    message = _in_our_words(error)
    context = getattr(error, "ctx", None)
    if isinstance(error, NoArgsIsHelpError) or context is None or message.endswith("?"):
        # The help itself, or a sentence that already suggests what may have been meant.
        return message
    return f"{message.rstrip('.')}: see `{context.command_path} --help`."


def _in_our_words(error: typer.TyperException) -> str:
    """What the parser found, which has words of its own for it."""
    if isinstance(error, NoSuchOption):
        assert error.ctx is not None
        if error.option_name in _OF_COMMANDS and isinstance(
            error.ctx.command, typer.core.TyperGroup
        ):
            return f"{error.option_name} goes after the command"
        known = (name for each in error.ctx.command.get_params(error.ctx) for name in each.opts)
        return unknown("option", error.option_name, known)
    if isinstance(error, BadOptionUsage):
        is_flag = "does not take" in error.message
        return f"{error.option_name} {'takes no value' if is_flag else 'needs a value'}"
    if isinstance(error, MissingParameter):
        choices = ", ".join(choices_of(error.param))
        return f"{_name_of(error.param)} is missing" + (f", one of {choices}" if choices else "")
    return error.format_message()

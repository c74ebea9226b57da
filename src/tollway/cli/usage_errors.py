"""What is wrong with a command line, in one sentence: the argument, what is wrong with it, and
where its help is."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any

import typer
from typer._click.exceptions import (
    BadOptionUsage,
    MissingParameter,
    NoArgsIsHelpError,
    NoSuchOption,
    UsageError,
)

# A longer value is shortened in a message.
_SHOWN_MAX = 60
# The least similarity of two names, by difflib: below it, the name is another word, and no typo.
_LIKENESS_MIN = 0.75


class WrongUsageError(UsageError):
    """An argument is wrong; the text is the sentence, without where the help is."""


def wrong_value(parameter: Any, context: Any, value: str, wanted: str) -> WrongUsageError:
    if not value.strip():
        return WrongUsageError(f"{name_of(parameter)} is empty", context)
    shown = value if len(value) <= _SHOWN_MAX else f"{value[:_SHOWN_MAX]}…"
    return WrongUsageError(
        f"{name_of(parameter)} must be {wanted}, and not {shown.strip()}", context
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
        f"Nothing is expected after {name_of(arguments[-1])}: leave out {texts}, or put a text "
        "with spaces in quotes"
    )


def choices_of(parameter: Any) -> dict[str, Any]:
    """What a parameter takes, by its text, if it takes only this."""
    return {
        str(getattr(each, "value", each)): each for each in parameter.type_descriptor.choices or ()
    }


def name_of(parameter: Any) -> str:
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
        known = (name for each in error.ctx.command.get_params(error.ctx) for name in each.opts)
        return unknown("option", error.option_name, known)
    if isinstance(error, BadOptionUsage):
        is_flag = "does not take" in error.message
        return f"{error.option_name} {'takes no value' if is_flag else 'needs a value'}"
    if isinstance(error, MissingParameter):
        choices = ", ".join(choices_of(error.param))
        return f"{name_of(error.param)} is missing" + (f", one of {choices}" if choices else "")
    return error.format_message()

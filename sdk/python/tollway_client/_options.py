"""The options of `tollway-call`: those of a command are the parameters of a method."""

import argparse
import inspect
import math
import re
import sys
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, Callable

# Where a docstring begins to say what a parameter means.
_PARAMETER = re.compile(r"^(\w+): ", re.MULTILINE)
_NOT_OPTIONS = ("self", "idempotency_key", "headers")


class Parser(argparse.ArgumentParser):
    """Takes each option as it is shown, and as its parameter is named; both may be cut short."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        given = list(sys.argv[1:] if args is None else args)
        if self._subparsers is None:
            ends = given.index("--") if "--" in given else len(given)
            given[:ends] = map(self._named, given[:ends])
        known, unknown = super().parse_known_args(given, namespace)
        if unknown:
            option = unknown[0].partition("=")[0]
            is_option = option[:1] == "-"
            self.error(
                no_such("option", option, self._option_string_actions)
                if is_option
                else f"nothing is expected at {option}"
            )
        return known, unknown

    def _named(self, argument: str) -> str:
        option, equals, value = argument.partition("=")
        if option[:2] != "--" or option in self._option_string_actions:
            return argument
        names = [each for each in self._option_string_actions if each[:2] == "--"]
        meant = [each for each in names if _bare(each) == _bare(option)]
        meant = meant or [each for each in names if _bare(each).startswith(_bare(option))]
        if len(meant) > 1:
            self.error(f"ambiguous option: {option} could match {', '.join(meant)}")
        return meant[0] + equals + value if meant else argument

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            raise argparse.ArgumentError(None, no_such("command", value, action.choices))


def no_such(kind: str, name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name, list(known), n=1)
    return f"there is no {kind} {name}" + (f": did you mean {near[0]}?" if near else "")


def seconds(text: str) -> float:
    """The value of an option that is a time to wait."""
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise argparse.ArgumentTypeError(f"a number of seconds is expected, not {text}")
    return found


def _bare(option: str) -> str:
    return option.replace("-", "").replace("_", "").lower()


def _shown(parameter: str) -> str:
    """`pageSize` and `page_size` are both `--page-size`."""
    return "--" + re.sub("(?<=[a-z])(?=[A-Z])", "-", parameter).replace("_", "-").lower()


def add_options(parser: argparse.ArgumentParser, function: Callable[..., Any]) -> None:
    parser.description, meanings = _described(function)
    for name, parameter in inspect.signature(function).parameters.items():
        if name not in _NOT_OPTIONS:
            is_required = parameter.default is inspect.Parameter.empty
            is_whole = "int" in str(parameter.annotation) and "str" not in str(parameter.annotation)
            parser.add_argument(
                _shown(name),
                dest=name,
                required=is_required,
                type=int if is_whole else str,
                metavar="NUMBER" if is_whole else "TEXT",
                help=meanings.get(name, "").replace("%", "%%"),
            )


def _described(function: Callable[..., Any]) -> "tuple[str, dict[str, str]]":
    """What a method says of itself, and of each of its parameters."""
    said, *parts = _PARAMETER.split(inspect.getdoc(function) or "")
    meanings = {name: " ".join(text.split()) for name, text in zip(parts[::2], parts[1::2])}
    return " ".join(said.split()), meanings

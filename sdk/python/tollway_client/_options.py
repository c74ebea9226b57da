"""The options of `tollway-call`: those of a command are the parameters of a method."""

import argparse
import inspect
import re
import sys
from typing import Any, Callable

# Where a docstring begins to say what a parameter means.
_PARAMETER = re.compile(r"^(\w+): ", re.MULTILINE)
_NOT_OPTIONS = ("self", "idempotency_key", "headers")


class Parser(argparse.ArgumentParser):
    """Takes each option as its parameter is named, and as options are usually written."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        given = sys.argv[1:] if args is None else args
        return super().parse_known_args([self._named(each) for each in given], namespace)

    def _named(self, argument: str) -> str:
        option, equals, value = argument.partition("=")
        names = {_bare(each): each for each in self._option_string_actions if each[:2] == "--"}
        is_option = option[:2] == "--" and option not in names.values()
        return names.get(_bare(option), option) + equals + value if is_option else argument


def _bare(option: str) -> str:
    return option.replace("-", "").replace("_", "").lower()


def add_options(parser: argparse.ArgumentParser, function: Callable[..., Any]) -> None:
    parser.description, meanings = _described(function)
    for name, parameter in inspect.signature(function).parameters.items():
        if name not in _NOT_OPTIONS:
            is_required = parameter.default is inspect.Parameter.empty
            is_whole = "int" in str(parameter.annotation) and "str" not in str(parameter.annotation)
            parser.add_argument(
                f"--{name}",
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

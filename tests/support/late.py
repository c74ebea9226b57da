"""Modules that few tests use, and that take long to load.

Each test process collects all tests, and would load them for its own few.
"""

from importlib import import_module
from typing import Any


class late:  # noqa: N801 - used like `import`
    """A module that is loaded when something of it is first used. Not to be changed by a test."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        # pytest looks at all that a test module has, for marks of its own.
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(import_module(self._name), name)

"""A query written once as a SQLAlchemy Core expression and compiled once per dialect.

Only the text is used: it runs on the raw driver, because executing through SQLAlchemy would cost
more than most of the queries themselves.
"""

from collections.abc import Mapping
from functools import cache, cached_property
from typing import Any

from sqlalchemy.engine import Dialect
from sqlalchemy.sql import ClauseElement
from sqlalchemy.sql.compiler import SQLCompiler


class CompiledQuery:
    """The text of a query in one dialect, and the order of its parameters."""

    def __init__(self, statement: ClauseElement, dialect: str) -> None:
        compiled = statement.compile(dialect=_dialect(dialect))
        assert isinstance(compiled, SQLCompiler)
        self.text = str(compiled)
        self._names = tuple(compiled.positiontup or ())
        self._fixed = {name: value for name, value in compiled.params.items() if value is not None}

    def arguments(self, values: Mapping[str, Any] | tuple[Any, ...]) -> tuple[Any, ...]:
        """The parameters in the order the driver wants them; a tuple is in that order already."""
        if isinstance(values, tuple):
            return values
        if self._fixed:
            values = {**self._fixed, **values}
        return tuple([values[name] for name in self._names])


class Query:
    """One query, in every dialect it is asked for."""

    def __init__(self, statement: ClauseElement) -> None:
        self._statement = statement

    @cached_property
    def sqlite(self) -> CompiledQuery:
        return CompiledQuery(self._statement, "sqlite")

    @cached_property
    def postgresql(self) -> CompiledQuery:
        return CompiledQuery(self._statement, "postgresql")


@cache
def _dialect(name: str) -> Dialect:
    """Loaded when it is first compiled for: a program uses one of them."""
    if name == "sqlite":
        from sqlalchemy.dialects import sqlite  # noqa: PLC0415

        return sqlite.dialect(paramstyle="qmark")
    from sqlalchemy.dialects import postgresql  # noqa: PLC0415

    return postgresql.dialect(paramstyle="numeric_dollar")  # type: ignore[no-untyped-call]

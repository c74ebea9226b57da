"""Queries: written once as a SQLAlchemy Core expression, compiled once per dialect.

Only the text is used: it runs on the raw driver, because executing through SQLAlchemy would cost
more than most of the queries themselves. `upsert` makes the query that most loaders use.
"""

import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import cache, cached_property
from itertools import chain, repeat
from operator import itemgetter
from typing import Any

from sqlalchemy import BindParameter, ColumnElement, FromClause, Table, and_, bindparam, or_, text

# INSERT with ON CONFLICT, for both dialects: SQLite's loads in a quarter of the time.
from sqlalchemy.dialects.sqlite import Insert as Insert  # noqa: PLC0414 - imported from here
from sqlalchemy.dialects.sqlite import insert as insert  # noqa: PLC0414
from sqlalchemy.dialects.sqlite.dml import OnConflictClause
from sqlalchemy.engine import Dialect
from sqlalchemy.sql import ClauseElement
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.types import NullType, TypeEngine

_PLAIN_WORD = re.compile("[a-z0-9_]*")
_PARAMETER = re.compile(r"\$(\d+)")
# A query that skips more rows is sent alone: the server reads the rows that it skips, and the other
# calls would wait for that.
_SKIPPED_MAX = 500


class CompiledQuery:
    """The text of a query in one dialect, and the order of its parameters."""

    def __init__(self, statement: ClauseElement, dialect: str) -> None:
        compiled = statement.compile(dialect=_dialect(dialect))
        assert isinstance(compiled, SQLCompiler)
        self.text = str(compiled)
        self._names = tuple(compiled.positiontup or ())
        self._fixed = {name: value for name, value in compiled.params.items() if value is not None}
        if dialect == "sqlite":
            self._write_out_constants(compiled)
        # With a single name, itemgetter would return a value instead of a tuple.
        self._pick = itemgetter(*self._names) if len(self._names) > 1 else self._pick_few

    def _write_out_constants(self, compiled: SQLCompiler) -> None:
        """Puts the constants of the expression into the text. The planner then sees them, as it
        must to use a partial index, and no execution has to pass them."""
        first, *others = self.text.split("?")
        if len(others) != len(self._names):
            return  # The text has a question mark of its own.
        text, names = first, []
        for name, following in zip(self._names, others, strict=True):
            constant = _written(self._fixed.get(name)) if compiled.binds[name].unique else None
            if constant is not None:
                text += constant + following
            else:
                text += f"?{following}"
                names.append(name)
        self.text, self._names = text, tuple(names)
        self._fixed = {name: value for name, value in self._fixed.items() if name in names}

    def arguments(self, values: Mapping[str, Any] | tuple[Any, ...]) -> tuple[Any, ...]:
        """The parameters in the order the driver wants them; a tuple is in that order already."""
        if isinstance(values, tuple):
            return values
        if self._fixed:
            values = {**self._fixed, **values}
        return self._pick(values)

    def _pick_few(self, values: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple([values[name] for name in self._names])


def _written(value: object) -> str | None:
    """A constant as SQL; None if it is no number and no plain word."""
    if isinstance(value, int):
        return f"{value:d}"
    return f"'{value}'" if isinstance(value, str) and _PLAIN_WORD.fullmatch(value) else None


# A statement, or what makes it.
Statement = ClauseElement | Callable[[], ClauseElement]


class Query:
    """One query, compiled for each dialect on first use.

    Modules pass a function that builds the statement, because a process uses few of the queries
    that it loads.
    """

    def __init__(self, statement: Statement) -> None:
        self._source = statement

    @property
    def _statement(self) -> ClauseElement:
        source = self._source
        return source if isinstance(source, ClauseElement) else source()

    @cached_property
    def sqlite(self) -> CompiledQuery:
        return CompiledQuery(self._statement, "sqlite")

    @cached_property
    def postgresql(self) -> CompiledQuery:
        return CompiledQuery(self._statement, "postgresql")


class RecordQuery(Query):
    """A query of data that charges do not change (`Transaction.keeps_records`): records, versions.
    An embedded database answers it from its page cache while only charges are committed."""


class JointQuery(RecordQuery):
    """A query that a server answers for many waiting calls by one statement. Its rows have no
    order."""

    @staticmethod
    def is_shared(values: Mapping[str, Any]) -> bool:
        """Whether a call with these values shares its statement."""
        return bool(values.get("skip", 0) <= _SKIPPED_MAX)

    @cached_property
    def together_postgresql(self) -> str:
        """The statement for many: each parameter is a list with a value for each call, and each row
        begins with the position of its call, from 1 on."""
        compiled = self._statement.compile(dialect=_dialect("postgresql"))
        assert isinstance(compiled, SQLCompiler)
        names = compiled.positiontup or ()
        types = [_server_type(compiled.binds[name].type) for name in names]
        lists = ", ".join(f"CAST(${number} AS {type_}[])" for number, type_ in enumerate(types, 1))
        columns = ", ".join(f"p{number}" for number, _ in enumerate(names, 1))
        one = _PARAMETER.sub(r"asked.p\1", str(compiled))
        # OFFSET 0 makes the planner run the subquery once per call, with the values as parameters;
        # without it, the planner might join a whole table with the values.
        return (
            f"SELECT asked.position, answer.* FROM unnest({lists}) WITH ORDINALITY "  # noqa: S608
            f"AS asked({columns}, position) "
            f"CROSS JOIN LATERAL (SELECT * FROM ({one}) AS one OFFSET 0) AS answer"
        )


def _server_type(type_: TypeEngine[Any]) -> str:
    """Only the parameters of LIMIT and OFFSET have no type."""
    return "BIGINT" if isinstance(type_, NullType) else type_.compile(_dialect("postgresql"))


class EngineQuery(Query):
    """A query whose text differs per engine, because one lacks the syntax of the other."""

    def __init__(self, sqlite: str, postgresql: str) -> None:
        self._texts = {"sqlite": sqlite, "postgresql": postgresql}

    @cached_property
    def sqlite(self) -> CompiledQuery:
        return CompiledQuery(text(self._texts["sqlite"]), "sqlite")

    @cached_property
    def postgresql(self) -> CompiledQuery:
        return CompiledQuery(text(self._texts["postgresql"]), "postgresql")


def of_many(query: str) -> EngineQuery:
    """A query of many keys, given as one JSON list, whose members are `{wanted}`. It can return all
    its rows as one JSON list, `{all}({one}(...))`: between two rows, the driver of an embedded
    database would let other threads run."""
    sqlite = {
        "wanted": "json_each(:wanted) AS wanted",
        "all": "json_group_array",
        "one": "json_array",
    }
    postgresql = {
        "wanted": "json_array_elements(CAST(:wanted AS json)) AS wanted(value)",
        "all": "json_agg",
        "one": "json_build_array",
    }
    return EngineQuery(query.format(**sqlite), query.format(**postgresql))


@cache
def _dialect(name: str) -> Dialect:
    """Loaded on first use: a program needs only one of them."""
    if name == "sqlite":
        from sqlalchemy.dialects import sqlite  # noqa: PLC0415

        return sqlite.dialect(paramstyle="qmark")
    from sqlalchemy.dialects import postgresql  # noqa: PLC0415

    # Both dialects write ON CONFLICT alike, but this one also reads the name of a constraint.
    OnConflictClause.constraint_target = None  # type: ignore[attr-defined]
    return postgresql.dialect(paramstyle="numeric_dollar")  # type: ignore[no-untyped-call]


# Yields a query and its values, is sent its rows, and returns rows in the end.
Steps = Generator[tuple[Query, Mapping[str, object]], list[Any], list[Any]]


class StepsQuery(Query):
    """A query that an embedded database answers in steps, in one snapshot, and a server in one
    statement: a statement costs next to nothing on the former, and a round trip on the latter."""

    def __init__(self, at_once: Query, steps: Callable[[Mapping[str, Any]], Steps]) -> None:
        self._at_once = at_once
        self.steps = steps

    @cached_property
    def sqlite(self) -> CompiledQuery:
        return self._at_once.sqlite

    @cached_property
    def postgresql(self) -> CompiledQuery:
        return self._at_once.postgresql


def equals(table: FromClause, **parameters: str) -> ColumnElement[bool]:
    """That columns of a table have the values of these parameters."""
    return and_(*(table.c[name] == bindparam(wanted) for name, wanted in parameters.items()))


def alike(one: FromClause, other: FromClause, *names: str) -> ColumnElement[bool]:
    """That these columns have the same values in both."""
    return and_(*(one.c[name] == other.c[name] for name in names))


def listed(most: int) -> list[BindParameter[str]]:
    """The parameters of a query for up to so many texts: `pieces` has their values."""
    return [bindparam(f"listed{number}") for number in range(most)]


def pieces(
    wanted: Sequence[str], parameters: Sequence[BindParameter[str]]
) -> Iterator[dict[str, str]]:
    """The values of the executions that find all that is wanted. Unused parameters are empty, so
    that one prepared statement finds any number."""
    for start in range(0, len(wanted), len(parameters)):
        texts = chain(wanted[start : start + len(parameters)], repeat(""))
        yield {each.key: text for each, text in zip(parameters, texts, strict=False)}


def contains_pattern(text: str) -> str:
    """The LIKE pattern for a text, in lower case, with a backslash as the escape."""
    escaped = text.lower().replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"


def insert_row(table: Table) -> Insert:
    """Stores a new row. Its parameters are the table's columns, in their order."""
    return insert(table).values({column.name: bindparam(column.name) for column in table.c})


def upsert(table: Table) -> Query:
    """Stores a row, or replaces the one with the same key if it differs.

    Its parameters are the table's columns, in their order.
    """

    def statement() -> Insert:
        added = insert_row(table)
        said = [column for column in table.c if not column.primary_key]
        new = added.excluded
        return added.on_conflict_do_update(
            index_elements=list(table.primary_key.columns),
            set_={column.name: new[column.name] for column in said},
            where=or_(*(column.is_distinct_from(new[column.name]) for column in said)),
        )

    return Query(statement)

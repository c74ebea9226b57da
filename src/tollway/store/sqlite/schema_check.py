"""The revision of a file's schema, and whether the schema is the one that Tollway made.

A file is copied, kept and restored, and more than its rows can be changed on the way: an added
trigger runs with the next write, a view answers in place of a table, and without its unique index a
table takes a number twice. SQLite keeps the SQL text of every part, so the texts are compared.
"""

import hashlib
from collections.abc import Iterator
from functools import cache

import apsw

from tollway.store.migrations import baseline, changes

_Schema = dict[tuple[str, str], tuple[str, str]]
# All but the table of Alembic, which no migration makes.
_READ = """
SELECT type, name, tbl_name, sql FROM sqlite_schema
WHERE sql IS NOT NULL AND NOT (type = 'table' AND name = 'alembic_version')
"""
# Of the schema that the migrations make. A file that has it need not be compared with one that is
# made for this, which takes a fiftieth of a start.
MADE_DIGEST = "2ffc0e9c816ad5d2c9f86413e8ca92d3622eaba39cafc0e0c92b013ad3617f0a"
_CAN_ACT = ("trigger", "view")


def revision_of(connection: apsw.Connection) -> str | None:
    """The last migration of a file; None if it has none, or one of another program's."""
    table = "SELECT 1 FROM sqlite_schema WHERE name = 'alembic_version'"
    if not connection.execute(table).fetchall():
        return None
    row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    return str(row[0]) if row and str(row[0]).isdecimal() else None


def differences(connection: apsw.Connection) -> list[str]:
    """What was added, and what is missing or changed."""
    found = _parts(connection)
    return [] if _digest(found) == MADE_DIGEST else [*_added(found), *_changed(found)]


def made_digest() -> str:
    """What `MADE_DIGEST` has to be."""
    return _digest(_made())


def _digest(parts: _Schema) -> str:
    return hashlib.sha256(repr(sorted(parts.items())).encode()).hexdigest()


def added_parts(connection: apsw.Connection) -> list[str]:
    """Triggers and views that no migration made, and such indexes on tables of ours."""
    return list(_added(_parts(connection)))


def changed_parts(connection: apsw.Connection) -> list[str]:
    """Parts that the migrations made and that are missing or changed."""
    return list(_changed(_parts(connection)))


def _added(found: _Schema) -> Iterator[str]:
    made = _made()
    tables = {name for kind, name in made if kind == "table"}
    for (kind, name), (table, _) in found.items():
        is_active = kind in _CAN_ACT or (kind == "index" and table in tables)
        if is_active and (kind, name) not in made:
            yield f"it has the {kind} {name!r}, which Tollway did not make"


def _changed(found: _Schema) -> Iterator[str]:
    for (kind, name), made in _made().items():
        if (kind, name) not in found:
            yield f"the {kind} {name!r} is missing"
        elif found[kind, name] != made:
            yield f"the {kind} {name!r} is not as Tollway made it"


def schema_parts() -> int:
    """How many parts there are to compare."""
    return len(_made())


@cache
def _made() -> _Schema:
    """Every part by its kind and name, from a database that is made for this and thrown away."""
    connection = apsw.Connection(":memory:")
    # Not through Alembic, which takes longer to load than a start.
    for text in (*baseline("sqlite"), *changes("sqlite")):
        connection.execute(text).fetchall()
    made = _parts(connection)
    connection.close()
    return made


def _parts(connection: apsw.Connection) -> _Schema:
    rows = [map(str, row) for row in connection.execute(_READ).fetchall()]
    return {
        (kind, name): (table, " ".join(text.split()).replace('"', ""))
        for kind, name, table, text in rows
    }

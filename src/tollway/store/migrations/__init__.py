"""Alembic's migrations. They only write SQL text, which the engine then runs itself.

The text is in the files of `baseline/`, the first schema, and of `changes/`, and stays as it is
when the tables change.
"""

from collections.abc import Iterator
from pathlib import Path

_FOLDER = Path(__file__).parent


def baseline(dialect: str) -> Iterator[str]:
    """The tables are written once, as SQLite takes them; what PostgreSQL has besides follows."""
    for path in _sql_files("baseline"):
        yield _translated(path.read_text(encoding="utf-8"), dialect)
    for path in _sql_files(f"baseline/{dialect}"):
        yield path.read_text(encoding="utf-8")


def changes() -> Iterator[str]:
    """What later migrations do, in SQL that both engines take."""
    for path in _sql_files("changes"):
        yield path.read_text(encoding="utf-8")


def _sql_files(folder: str) -> list[Path]:
    return sorted(_FOLDER.joinpath(folder).glob("*.sql"))


def _translated(text: str, dialect: str) -> str:
    """A line that begins with an engine's name is for that engine alone."""
    other = "sqlite" if dialect == "postgresql" else "postgresql"
    lines = [
        line.removeprefix(f"/*{dialect}*/")
        for line in text.splitlines()
        if not line.startswith(f"/*{other}*/")
    ]
    text = "\n".join(lines)
    if dialect == "sqlite":
        return text
    # Text is ordered by its bytes, as in SQLite, whatever the language of the server.
    text = text.replace("VARCHAR", 'VARCHAR COLLATE "C"')
    return text.replace("BLOB", "BYTEA").replace(") WITHOUT ROWID;", ");")

"""Alembic's migrations. They only write SQL text, which the engine then runs itself.

The text is in the files of `baseline/`, the first schema, and of `changes/`, and stays as it is
when the tables change.
"""

from pathlib import Path

_FOLDER = Path(__file__).parent


def baseline(dialect: str) -> list[str]:
    """The tables are written once, as SQLite takes them; what PostgreSQL has besides follows."""
    besides = [path.read_text(encoding="utf-8") for path in _sql_files(f"baseline/{dialect}")]
    return [*_translated_files("baseline", dialect), *besides]


def changes(dialect: str, revision: str = "") -> list[str]:
    """What later migrations do, or only this one; written once, too."""
    return _translated_files("changes", dialect, revision)


def _sql_files(folder: str, revision: str = "") -> list[Path]:
    return sorted(_FOLDER.joinpath(folder).glob(f"{revision}*.sql"))


def _translated_files(folder: str, dialect: str, revision: str = "") -> list[str]:
    files = _sql_files(folder, revision)
    return [_translated(path.read_text(encoding="utf-8"), dialect) for path in files]


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

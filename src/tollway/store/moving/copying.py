"""Copying what the target has not got yet."""

from collections.abc import Callable
from itertools import islice

from tollway.store.database import StoreError
from tollway.store.migrate import check_known, newest_revision
from tollway.store.moving.source import Source
from tollway.store.moving.tables import MOVED_TABLES
from tollway.store.moving.target import Target

_CHUNK_ROWS = 5000


def refuse_other_schema(which: str, revision: str | None) -> None:
    """Both sides must be at the schema of this version, or a row is another thing there."""
    if revision != newest_revision():
        check_known(revision)
        raise StoreError(
            f"The {which} is at schema {revision or 'none'}, this version needs "
            f"{newest_revision()}: run `tollway migrate` on it first."
        )


async def copy_rows(source: Source, target: Target, progress: Callable[[int], None]) -> None:
    """Copies all tables, each from where the target's rows end."""
    for table in MOVED_TABLES:
        there, last = await target.reached(table)
        progress(there)
        rows = source.rows(table, last)
        while chunk := list(islice(rows, _CHUNK_ROWS)):
            await target.add(table, chunk)
            progress(len(chunk))

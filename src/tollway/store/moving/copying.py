"""Copying all rows, then comparing both sides row by row; few rows are in memory at once."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from itertools import islice

import msgspec
from sqlalchemy import Table

from tollway.store.database import Row, StoreError
from tollway.store.migrate import check_known, newest_revision
from tollway.store.moving.source import Source, columns_of, key_positions
from tollway.store.moving.target import Target, shown_key

# A wrong copy may have millions of differences: the first ones show what happened.
DIFFERENCES_SHOWN_MAX = 100
_PROGRESS_ROWS = 1000
_CHUNK_ROWS = 5000


class Difference(msgspec.Struct, frozen=True):
    """A row that is not the same on both sides. Its content may be personal, and is not shown."""

    table: str
    key: str
    what: str


def refuse_other_schema(which: str, revision: str | None) -> None:
    """Both sides must be at the schema of this version, or their rows differ in meaning."""
    if revision != newest_revision():
        check_known(revision)
        raise StoreError(
            f"The {which} is at schema {revision or 'none'}, this version needs "
            f"{newest_revision()}: run `tollway migrate` on it first."
        )


async def copy_rows(source: Source, target: Target, progress: Callable[[int], None]) -> None:
    """Copies all tables, each from where the target's rows end."""
    for table in source.tables:
        there, last = await target.reached(table)
        progress(there)
        rows = source.rows(table, last)
        while chunk := list(islice(rows, _CHUNK_ROWS)):
            await target.add(table, chunk)
            progress(len(chunk))


async def differences(
    source: Source, target: Target, progress: Callable[[int], None]
) -> list[Difference]:
    """The first rows that differ; none when both sides are the same."""
    found: list[Difference] = []
    for table in source.tables:
        seen = 0
        async with aclosing(_compare(source, target, table)) as compared:
            async for difference in compared:
                seen += 1
                if seen % _PROGRESS_ROWS == 0:
                    progress(_PROGRESS_ROWS)
                if difference is not None:
                    found.append(difference)
                    if len(found) == DIFFERENCES_SHOWN_MAX:
                        return found
        progress(seen % _PROGRESS_ROWS)
    return found


async def _compare(
    source: Source, target: Target, table: Table
) -> AsyncGenerator[Difference | None, None]:
    """Reads both sides in the order of the key, and yields each difference."""
    positions = key_positions(table)

    def key(row: Row) -> Row:
        return tuple([row[position] for position in positions])

    moved = source.rows(table)
    here = next(moved, None)
    async with aclosing(target.rows(table)) as arrived:
        async for there in arrived:
            while here is not None and key(here) < key(there):
                yield _different(table, here, "is missing in the target")
                here = next(moved, None)
            if here is None or key(here) != key(there):
                yield _different(table, there, "is not in the source")
                continue
            yield None if here == there else _different(table, here, _other(table, here, there))
            here = next(moved, None)
    while here is not None:
        yield _different(table, here, "is missing in the target")
        here = next(moved, None)


def _different(table: Table, row: Row, what: str) -> Difference:
    return Difference(str(table.name), shown_key(table, row), what)


def _other(table: Table, here: Row, there: Row) -> str:
    names = [
        name
        for name, mine, other in zip(columns_of(table), here, there, strict=True)
        if mine != other
    ]
    return f"has another {' and '.join(names)}"

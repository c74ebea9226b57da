"""Makes ready records again from the originals beside them, after a change in what is shown.

It runs beside the traffic: a few hundred records at a time, each replaced only if it has not
changed since it was read.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import msgspec
from sqlalchemy import Table, bindparam, select

from tollway.store.database import Database, Row, Transaction
from tollway.store.query import Query
from tollway.store.sealing import Sealer
from tollway.store.small_commits import RowPieces


class ReadyRecords(msgspec.Struct, frozen=True):
    """A table whose last column, `ready`, is the record as it is answered; `make` computes it from
    the row, together with the other columns that are derived from the original."""

    table: Table
    make: Callable[[Row, Sealer], tuple[object, ...]]
    columns: tuple[str, ...] = ("ready",)
    # Called in a transaction that changes records, if gateways keep them in memory.
    changed: Callable[[Transaction], Awaitable[None]] | None = None


class Remade(msgspec.Struct):
    """How many records were read, and how many of them changed."""

    read: int = 0
    changed: int = 0


async def remake(database: Database, sealer: Sealer, records: ReadyRecords) -> Remade:
    """Makes all ready records of a table again."""
    table, result = records.table, Remade()
    key = list(table.primary_key.columns)
    assert [*table.c][: len(key)] == key and [*table.c][-1] is table.c.ready
    width, replace = len(key), _replacement(records)
    made_at = [table.c.keys().index(name) for name in records.columns]
    async for rows in RowPieces(select(*table.c), width).read(database):
        result.read += len(rows)
        changed = []
        for row in rows:
            made = records.make(row, sealer)
            if made != tuple([row[at] for at in made_at]):
                changed.append((*made, *row[:width], row[-1]))
        if changed:
            result.changed += await database.write(partial(_put, records, replace, changed))
    return result


async def _put(
    records: ReadyRecords, query: Query, changed: Sequence[Row], transaction: Transaction
) -> int:
    async with transaction.with_new_plan():
        count = await transaction.execute_many(query, changed)
    if count and records.changed is not None:
        await records.changed(transaction)
    return count


def _replacement(records: ReadyRecords) -> Query:
    """Replaces a row that has not changed."""
    table = records.table
    same = [column == bindparam(f"old_{column.name}") for column in table.primary_key.columns]
    return Query(
        table.update()
        .values({name: bindparam(f"new_{name}") for name in records.columns})
        .where(*same, table.c.ready == bindparam("old_ready"))
    )

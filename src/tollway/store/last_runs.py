"""When each occasional job last ran, and how it ended: audits, backups, imports, and the pushes of
a source. Only the last run of each is kept."""

from typing import NamedTuple

from sqlalchemy import select

from tollway.store.database import Database, Reader, Transaction
from tollway.store.query import Query, upsert
from tollway.store.schema.database import last_run
from tollway.store.sqlite.database import write_if_free

AUDIT, BACKUP = "audit", "backup"
PUSH_PREFIX, IMPORT_PREFIX = "push ", "import "


class LastRun(NamedTuple):
    """The last run of one job; `result` is JSON."""

    name: str
    at_s: int
    is_good: bool
    result: str


_NOTE = upsert(last_run)
_ALL = Query(
    lambda: select(
        last_run.c.name, last_run.c.at_s, last_run.c.is_good, last_run.c.result
    ).order_by(last_run.c.name)
)
_OUTCOMES = Query(lambda: select(last_run.c.name, last_run.c.at_s, last_run.c.is_good))


async def note_run(
    database: Database, name: str, at_s: int, *, is_good: bool = True, result: str = "{}"
) -> None:
    await database.write(
        lambda transaction: note_run_in(transaction, name, at_s, is_good=is_good, result=result)
    )


async def note_run_in(
    transaction: Transaction, name: str, at_s: int, *, is_good: bool, result: str
) -> None:
    """The same within a transaction, for a caller that decides there whether the job may run."""
    await transaction.execute(_NOTE, name=name, at_s=at_s, is_good=int(is_good), result=result)


def note_run_if_free(path: str, name: str, at_s: int) -> bool:
    """Notes a good run in a SQLite file, unless the file cannot be written or another program
    keeps it locked; returns whether it did."""
    return write_if_free(path, _NOTE, name=name, at_s=at_s, is_good=1, result="{}")


async def last_outcomes(reader: Reader) -> dict[str, tuple[int, bool]]:
    """When each job last ran and whether that run was good, by name, without the results."""
    return {
        name: (int(at_s), bool(is_good))
        for name, at_s, is_good in await reader.fetch_all(_OUTCOMES)
    }


async def last_runs(reader: Reader) -> dict[str, LastRun]:
    """The last run of every job, by name."""
    return {
        name: LastRun(name, int(at_s), bool(is_good), result)
        for name, at_s, is_good, result in await reader.fetch_all(_ALL)
    }

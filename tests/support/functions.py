"""The functions in a PostgreSQL database, changed for a test: a clock it can move, or a fault."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import text

from tests.support.stores import Store
from tollway.store.database import Database
from tollway.store.query import Query


def change_function(store: Store, name: str, *replacements: tuple[str, str]) -> None:
    """Replaces parts of a function's text, each of which must be there."""
    ((body,),) = store.run(f"SELECT pg_get_functiondef('{name}'::regproc)")
    for before, after in replacements:
        assert before in body, f"{name} has no {before}"
        body = body.replace(before, after)
    store.run(body)


# What decides that a call is over the limit; and what puts that out of force.
NO_LIMIT = ("admitted[w] >= limits[i]", "admitted[w] < 0")
CLOCK = "test_clock"
_SET = Query(text(f"UPDATE {CLOCK} SET now_us = :now_us"))


@contextmanager
def without_limit(store: Store) -> Iterator[None]:
    """The sabotage: nodes do not count for each other."""
    change_function(store, "tollway_charge", NO_LIMIT)
    try:
        yield
    finally:
        change_function(store, "tollway_charge", NO_LIMIT[::-1])


_CLOCK_READ = ("clock_timestamp()", f"to_timestamp((SELECT now_us / 1000000.0 FROM {CLOCK}))")


def hold_clock(store: Store, now_us: int = 1_000_000_000) -> None:
    """From now on the clock of charging is a row that the test changes."""
    store.run(f"CREATE TABLE {CLOCK} AS SELECT {now_us}::bigint AS now_us")
    change_function(store, "tollway_charge", _CLOCK_READ)


@contextmanager
def held_clock(store: Store) -> Iterator[None]:
    """For charging, no time passes meanwhile."""
    hold_clock(store, int(time.time() * 1_000_000))
    try:
        yield
    finally:
        change_function(store, "tollway_charge", _CLOCK_READ[::-1])
        store.run(f"DROP TABLE {CLOCK}")


async def set_clock(database: Database, now_us: int) -> None:
    await database.write(lambda transaction: transaction.execute(_SET, now_us=now_us))

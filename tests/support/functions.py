"""The functions in a PostgreSQL database, changed for a test: a clock it can move, or a fault."""

import asyncpg

from tests.support.stores import Store


def change_function(store: Store, name: str, *replacements: tuple[str, str]) -> None:
    """Replaces parts of a function's text, each of which must be there."""
    ((text,),) = store.run(f"SELECT pg_get_functiondef('{name}'::regproc)")
    for before, after in replacements:
        assert before in text, f"{name} has no {before}"
        text = text.replace(before, after)
    store.run(text)


# What decides that a call is over the limit; put out of force by `NO_LIMIT`.
NO_LIMIT = ("admitted[w] >= limits[i]", "false")
CLOCK = "test_clock"


def hold_clock(store: Store) -> None:
    """From now on the settlement's clock is a row that the test changes."""
    store.run(f"CREATE TABLE {CLOCK} AS SELECT 1000000000::bigint AS now_us")
    clock = f"to_timestamp((SELECT now_us / 1000000.0 FROM {CLOCK}))"
    change_function(store, "tollway_settle", ("clock_timestamp()", clock))


async def move_clock(connection: "asyncpg.Connection[asyncpg.Record]", us: int) -> None:
    await connection.execute(f"UPDATE {CLOCK} SET now_us = now_us + $1", us)

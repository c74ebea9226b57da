"""Migrating makes exactly the schema that the table definitions declare, on either engine."""

import asyncio
import re
from collections import defaultdict
from pathlib import Path

import apsw
import asyncpg
import pytest
from sqlalchemy import create_mock_engine, text

from tests.support.postgresql import new_database, run_on
from tests.support.stores import Store
from tollway.operations.catalogue import ALL_TABLES
from tollway.store.schema import WHERE_ON_SERVER, metadata
from tollway.store.sqlite.schema_check import MADE_DIGEST, made_digest

# What PostgreSQL has besides: the revision, and the rate limit that all nodes share.
UNDECLARED = {"alembic_version", "admission"}
NAMES = ", ".join(f"'{table.name}'" for table in ALL_TABLES)

TABLES = """
SELECT relname::text FROM pg_class
WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition"""
COLUMNS = f"""
SELECT attrelid::regclass::text, row_number() OVER (PARTITION BY attrelid ORDER BY attnum),
    attname::text, format_type(atttypid, atttypmod), attnotnull, attidentity::text,
    pg_get_expr(adbin, adrelid)
FROM pg_attribute LEFT JOIN pg_attrdef ON (adrelid, adnum) = (attrelid, attnum)
WHERE attrelid::regclass::text IN ({NAMES}) AND attnum > 0 AND NOT attisdropped"""
CHECKS = f"""
SELECT conrelid::regclass::text, conname::text, pg_get_constraintdef(oid) FROM pg_constraint
WHERE conrelid::regclass::text IN ({NAMES}) AND contype IN ('c', 'f')"""
# Of a partitioned table, those of each partition.
INDEXES = """
SELECT coalesce(inhparent, indrelid)::regclass::text, owner.relname::text, index.relname::text,
    indisprimary, indisunique, pg_get_expr(indpred, indrelid),
    ARRAY(SELECT pg_get_indexdef(indexrelid, n, true) FROM generate_series(1, indnatts) AS n)
FROM pg_index
JOIN pg_class AS index ON index.oid = indexrelid
JOIN pg_class AS owner ON owner.oid = indrelid AND owner.relkind = 'r'
LEFT JOIN pg_inherits ON inhrelid = indrelid
WHERE owner.relnamespace = 'public'::regnamespace"""


def declared(dialect: str) -> list[str]:
    """The statements that SQLAlchemy would make the tables with."""
    statements: list[str] = []
    engine = create_mock_engine(
        f"{dialect}://",
        lambda made, *_: statements.append(str(made.compile(dialect=engine.dialect))),
    )
    for index in (each for table in ALL_TABLES for each in table.indexes):
        if WHERE_ON_SERVER in index.info:
            where = text(index.info[WHERE_ON_SERVER])
            index.dialect_options["postgresql"]["where"] = where
    metadata.create_all(engine, list(ALL_TABLES), checkfirst=False)
    return statements


def sqlite_schema(path: Path) -> set[tuple[str, str, str]]:
    """Every table and index with its text, but for white space and quotes."""
    with apsw.Connection(str(path)) as connection:
        rows = connection.execute(
            "SELECT name, tbl_name, sql FROM sqlite_schema WHERE type IN ('table', 'index')"
        ).fetchall()
    return {
        (name, table, _normal(text or ""))
        for name, table, text in rows
        if table != "alembic_version"
    }


def _normal(text: str) -> str:
    return re.sub(r"\s*([(),])\s*", r"\1", re.sub(r"\s+", " ", text.replace('"', ""))).strip()


@pytest.fixture
def declared_sqlite(tmp_path: Path) -> set[tuple[str, str, str]]:
    path = tmp_path / "declared.db"
    connection = apsw.Connection(str(path))
    for statement in declared("sqlite"):
        connection.execute(statement)
    connection.close()
    return sqlite_schema(path)


@pytest.mark.sqlite
def test_sqlite_has_exactly_the_declared_tables(
    store: Store, declared_sqlite: set[tuple[str, str, str]]
) -> None:
    assert sqlite_schema(store.path) == declared_sqlite


@pytest.mark.sqlite
def test_the_schema_that_migrations_make_has_the_known_digest() -> None:
    assert made_digest() == MADE_DIGEST


@pytest.mark.sqlite
@pytest.mark.parametrize(
    "change",
    ["ALTER TABLE account ADD COLUMN extra VARCHAR", "DROP INDEX hold_open", "DROP TABLE hold"],
)
def test_a_difference_in_sqlite_is_found(
    store: Store, declared_sqlite: set[tuple[str, str, str]], change: str
) -> None:
    store.run(change)
    assert sqlite_schema(store.path) != declared_sqlite


@pytest.mark.sqlite
def test_no_insert_makes_a_table_to_compare_with(store: Store) -> None:
    """SQLite makes one for `IN` with more than two values, in every statement."""
    for table in ALL_TABLES:
        values = ", ".join("1" * len(table.c))
        steps = store.run(f"EXPLAIN INSERT INTO {table.name} VALUES ({values})")
        assert "OpenEphemeral" not in {step[1] for step in steps}, table.name


@pytest.fixture(scope="module")
def declared_postgresql() -> str:
    url = new_database(is_migrated=False)

    async def make() -> None:
        connection = await asyncpg.connect(url)
        await connection.execute(";".join(declared("postgresql")))
        await connection.close()

    asyncio.run(make())
    return url


def assert_same(url: str, declared_url: str) -> None:
    """Columns, types, NOT NULL, defaults, checks, and then keys and indexes."""
    for query in (COLUMNS, CHECKS):
        assert set(run_on(url, query)) == set(run_on(declared_url, query))
    wanted, found = indexes(declared_url), indexes(url)
    for table in ALL_TABLES:
        ((_, of_table),) = wanted[table.name].items()
        if table.name in found[table.name]:
            assert found[table.name] == wanted[table.name]
            continue
        # A key of a partitioned table can be one of its partitions alone, and its name always is.
        assert len(found[table.name]) > 3
        for of_partition in found[table.name].values():
            assert {each[2:] for each in of_partition} == {each[2:] for each in of_table}


def indexes(url: str) -> dict[str, dict[str, set[tuple[object, ...]]]]:
    """The keys and indexes of each table, by the partition that they are of or by itself."""
    found: dict[str, dict[str, set[tuple[object, ...]]]] = defaultdict(lambda: defaultdict(set))
    for table, owner, *index, columns in run_on(url, INDEXES):
        assert isinstance(columns, list)
        found[str(table)][str(owner)].add((*index, *columns))
    return found


@pytest.mark.postgresql
def test_postgresql_has_exactly_the_declared_tables(store: Store, declared_postgresql: str) -> None:
    tables = {table.name for table in ALL_TABLES}
    assert {name for (name,) in store.run(TABLES)} == tables | UNDECLARED
    assert_same(store.url, declared_postgresql)


@pytest.mark.postgresql
@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE account ADD COLUMN extra varchar",
        "ALTER TABLE account ALTER COLUMN opened_at_s TYPE integer",
        "ALTER TABLE account ALTER COLUMN opened_at_s SET DEFAULT 0",
        "ALTER TABLE shop_order ALTER COLUMN town DROP NOT NULL",
        "ALTER TABLE balance DROP CONSTRAINT balance_held",
        "ALTER TABLE owner DROP CONSTRAINT owner_login_key",
        "ALTER TABLE hold DROP CONSTRAINT hold_pkey",
        "DROP INDEX hold_open",
        "DROP INDEX shop_order_tag",
        "DROP INDEX entry_rest_account_id_unit_number_idx",
    ],
)
def test_a_difference_in_postgresql_is_found(
    store: Store, declared_postgresql: str, change: str
) -> None:
    store.run(change)
    with pytest.raises(AssertionError):
        assert_same(store.url, declared_postgresql)

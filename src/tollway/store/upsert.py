"""Storing a row, or replacing the one with the same key."""

from sqlalchemy import Table, bindparam, or_
from sqlalchemy.dialects.postgresql import insert

from tollway.store.query import Query


def upsert(table: Table) -> Query:
    """Stores a row, or replaces one with the same key if it says something else.

    Its parameters are the table's columns, in their order.
    """
    statement = insert(table).values({column.name: bindparam(column.name) for column in table.c})
    said = [column for column in table.c if not column.primary_key]
    new = statement.excluded
    return Query(
        statement.on_conflict_do_update(
            index_elements=list(table.primary_key.columns),
            set_={column.name: new[column.name] for column in said},
            where=or_(*(column.is_distinct_from(new[column.name]) for column in said)),
        )
    )

"""Many rows at once: as a statement for each of them would store them, on either engine."""

import pytest

from tests.support.stores import Store
from tollway.operations.product_analysis.schema import product
from tollway.store.database import DuplicateKeyError, Row, StoreError, Transaction
from tollway.store.many_rows import upserts

# More than one statement takes, and some left over.
MANY = 517


def row(number: int, title: str = "杯") -> Row:
    return (f"p{number:04}", f"{title} {number}", "", "店")


def stored(store: Store) -> list[Row]:
    return store.run("SELECT product_id, title, picture_url, shop_name FROM product ORDER BY 1")


def test_new_rows_are_stored_whole(store: Store) -> None:
    rows = [row(number) for number in range(MANY)]

    async def work(transaction: Transaction) -> None:
        await transaction.insert_rows(product, [])
        await transaction.insert_rows(product, rows)

    store.do(lambda database: database.write(work))
    assert stored(store) == rows


def test_a_new_row_that_is_known_ends_the_work_and_nothing_of_it_stays(store: Store) -> None:
    async def work(transaction: Transaction, numbers: range) -> None:
        await transaction.insert_rows(product, [row(number) for number in numbers])

    store.do(lambda database: database.write(lambda tx: work(tx, range(MANY - 1, MANY))))
    with pytest.raises((DuplicateKeyError, StoreError)):
        store.do(lambda database: database.write(lambda tx: work(tx, range(MANY))))
    assert stored(store) == [row(MANY - 1)]


def test_known_rows_change_where_they_differ_and_are_counted(store: Store) -> None:
    changes = []

    async def put(transaction: Transaction, rows: list[Row]) -> None:
        changes.append(await transaction.put_rows(upserts(product), rows))

    def write(rows: list[Row]) -> None:
        store.do(lambda database: database.write(lambda tx: put(tx, rows)))

    first = [row(number) for number in range(MANY)]
    later = [row(number, "壶" if number % 2 else "杯") for number in range(MANY + 3)]
    for rows in ([], first, first, later):
        write(rows)
    assert changes == [0, MANY, 0, MANY // 2 + 3]
    assert stored(store) == later

"""How full the pools are, for pages: at a cost that does not grow with the numbers ever taken."""

from pathlib import Path

import pytest

from tests.support.stores import Store
from tests.support.waybills import load_numbers, new_carrier
from tests.support.work import work_of
from tollway.carriers import pool_levels
from tollway.carriers.pools import Pool, list_pools, take_numbers
from tollway.store.open import OpenDatabase

MOST = 500
TAKEN = 20_000
SHOPS = 30


@pytest.fixture
def empty_store(tmp_path: Path) -> Store:
    return Store(tmp_path / "levels.db")


@pytest.fixture
def counted_few(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COUNTED_MAX", "_COUNTED_MIN"):
        monkeypatch.setattr(pool_levels, name, MOST)


def _take(store: Store, wp_code: str, begin: int, count: int, owner_id: str = "") -> None:
    """Numbers that were issued long ago."""
    store.run(
        "INSERT INTO waybill_number (wp_code, number, owner_id, is_taken) WITH RECURSIVE n (i) AS "
        f"(SELECT {begin} UNION ALL SELECT i + 1 FROM n WHERE i < {begin + count - 1}) "
        f"SELECT '{wp_code}', 'YT' || (1000000000000 + i), '{owner_id}', 1 FROM n"
    )


def test_all_pools_are_found_with_what_they_have(empty_store: Store) -> None:
    assert empty_store.do(pool_levels.pool_levels).pools == []
    carriers = [new_carrier(empty_store, count) for count in (0, 3, 5)]
    # Shops with a pool of each carrier, of one, and one that comes before and after the others.
    for shop, codes in (("7", carriers), ("0", carriers[:1]), ("店", carriers[1:2])):
        for wp_code in codes:
            load_numbers(empty_store, wp_code, [f"YT8{ord(shop[0]):012d}"], shop)
    empty_store.do(
        lambda database: database.write(lambda part: take_numbers(part, [(carriers[2], "9")] * 2))
    )
    found = empty_store.do(pool_levels.pool_levels).pools
    assert found == empty_store.do(list_pools)
    assert Pool(carriers[2], None, 3, 2) in found and len(found) == 7


def test_as_many_of_a_large_pool_are_counted_as_are_needed_of_it(
    empty_store: Store, counted_few: None
) -> None:
    """Of a pool that is emptied fast it must be known whether it lasts."""
    large, small = new_carrier(empty_store, MOST + 100), new_carrier(empty_store, 3)
    asked: list[dict[str, float]] = [{}, {large: MOST + 50.5, small: 7}, {large: MOST + 1000}]
    found = [
        empty_store.do(lambda database, of=needed: pool_levels.numbers_left(database, of))
        for needed in asked
    ]
    assert [each[large] for each in found] == [MOST, MOST + 51, MOST + 100]
    assert {each[small] for each in found} == {3}


def test_of_a_large_pool_not_all_numbers_are_counted(empty_store: Store, counted_few: None) -> None:
    wp_code = new_carrier(empty_store, MOST + 1)
    _take(empty_store, wp_code, 1, MOST - 1)
    found = empty_store.do(pool_levels.pool_levels)
    assert (found.pools, found.most) == ([Pool(wp_code, None, MOST, MOST - 1)], MOST)


@pytest.mark.parametrize("is_analyzed", [False, True])
def test_what_was_taken_in_years_costs_nothing(
    empty_store: Store, counted_few: None, is_analyzed: bool
) -> None:
    wp_code = new_carrier(empty_store, 50)
    for shop in range(SHOPS):
        _take(empty_store, wp_code, shop, 1, str(shop))

    def work() -> int:
        if is_analyzed:
            empty_store.run("ANALYZE")

        async def ask(database: OpenDatabase) -> int:
            return await work_of(database, lambda: pool_levels.pool_levels(database))

        return empty_store.do(ask)

    _take(empty_store, wp_code, SHOPS, TAKEN)
    before = work()
    _take(empty_store, wp_code, SHOPS + TAKEN, 4 * TAKEN)
    # A deeper index has one more block for each step.
    assert work() <= 2 * before

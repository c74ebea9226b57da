"""Orders that are stored together, arranged beforehand, in the second process if one reads them."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, repeat
from typing import Any, Self

import msgspec

from tollway.operations.orders.counts import Place
from tollway.operations.orders.records import OrderRow
from tollway.store.many_rows import FlatRows

_COLUMNS = len(OrderRow._fields)
_CHANGE_NO = OrderRow._fields.index("change_no")
_PLACE = [
    OrderRow._fields.index(name) for name in ("newest_first", "remark_tag", "remark_tag_name")
]


class OrderBatch(msgspec.Struct, array_like=True):
    """Rows of orders, end to end in one list, from which a statement gets slices.

    If the batch is arranged, it has no order twice and its rows are in key order, which halves the
    engine's work; `owners` are the shops in that order, each with its number of orders. Otherwise
    the rows are in the order in which they came: of two equal versions, the first one counts.
    """

    values: list[Any]
    owners: list[tuple[str, int]]
    is_arranged: bool

    @classmethod
    def of(cls, orders: Sequence[OrderRow]) -> Self:
        by_owner: defaultdict[str, list[OrderRow]] = defaultdict(list)
        for row in orders:
            by_owner[row.owner_id].append(row)
        if any(len({row.order_sn for row in its}) < len(its) for its in by_owner.values()):
            return cls(_end_to_end(orders), [], False)
        # Sorted shop by shop: within a shop, most files are already in order of time, and sorting
        # only reverses that run.
        owners = sorted(by_owner)
        rows = chain.from_iterable(sorted(by_owner[owner]) for owner in owners)
        return cls(_end_to_end(rows), [(each, len(by_owner[each])) for each in owners], True)

    def __len__(self) -> int:
        return len(self.values) // _COLUMNS

    def __iter__(self) -> Iterator[OrderRow]:
        # The class's own constructor takes three times as long.
        return map(tuple.__new__, repeat(OrderRow), self.rows)

    @property
    def rows(self) -> FlatRows:
        return FlatRows(self.values, _COLUMNS)

    def number(self, numbers: Sequence[int]) -> None:
        """Gives each order its change number."""
        self.rows.set_column(_CHANGE_NO, numbers)

    def places(self) -> Iterator[tuple[str, list[Place]]]:
        """The fields of each shop's orders that decide where they are counted."""
        places = zip(*map(self.rows.column, _PLACE), strict=True)
        return ((owner, list(islice(places, orders))) for owner, orders in self.owners)


def _end_to_end(orders: Iterable[OrderRow]) -> list[Any]:
    return list(chain.from_iterable(orders))

"""Any page at the cost of the first.

Skipping to a page far back costs as much as all the rows before it, and so does counting them. So
what is listed keeps a count per bucket of time, written in the same transaction as its rows: the
total is a sum of counts, and a page begins in the bucket that the counts name.
"""

from collections.abc import Iterable
from typing import NamedTuple


class Slice(NamedTuple):
    """The part of a page that lies in one bucket: skip so many of its rows, then take so many."""

    bucket: int
    skip: int
    take: int


def page_slices(counts: Iterable[tuple[int, int]], offset: int, size: int) -> list[Slice]:
    """Where a page lies, given (bucket, count) in the order of listing."""
    slices: list[Slice] = []
    for bucket, count in counts:
        if offset >= count:
            offset -= count
            continue
        take = min(size, count - offset)
        slices.append(Slice(bucket, offset, take))
        size -= take
        offset = 0
        if size == 0:
            break
    return slices

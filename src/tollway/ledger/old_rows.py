"""Which of the oldest rows are old, although some were dated by a clock that was ahead.

Rows are dropped in the order of their numbers, so one that is dated in ten years would keep all
later ones until then. But it is as old as the row after it. This holds for dates in the future
alone: a clock that was behind for a moment must not make all rows before it old.
"""

from collections.abc import Callable, Sequence
from itertools import takewhile

from tollway.store.database import Row

# Then no date is in the future.
NO_END_MS = 2**62


def old_rows(
    rows: Sequence[Row],
    column: int,
    before_ms: int,
    now_ms: int,
    is_kept: Callable[[Row], bool],
) -> tuple[list[Row], list[Row]]:
    """The rows that are old, from the first on, and those after them that are old if the next row
    is. `column` has their dates."""

    def may_go(row: Row) -> bool:
        return not before_ms <= row[column] <= now_ms and not is_kept(row)

    old, ahead = list(takewhile(may_go, rows)), list[Row]()
    while old and old[-1][column] > now_ms:
        ahead.insert(0, old.pop())
    return old, ahead

"""What the checks of counts by hour and day share.

Each count is compared with a count of the rows in its span, found by their key; and each row must
have a count for its span. Both together leave no row uncounted and none counted twice.
"""

from collections.abc import Callable, Iterator
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, and_, cast, null

from tollway.audit.check import Breach
from tollway.store.database import Row

# With its type, which an engine could not guess from the other half of the statement.
NO_COUNT = cast(null(), BigInteger)


def within(
    newest_first: ColumnElement[int], bucket: ColumnElement[int], span: int
) -> ColumnElement[bool]:
    """Whether a time, which is stored negated, falls into a bucket."""
    return and_(newest_first > -(bucket + 1) * span, newest_first <= -bucket * span)


def bucket_of(newest_first: ColumnElement[int], span: int) -> ColumnElement[Any]:
    """The bucket that a time falls into. No time is before 1970, so that / rounds down."""
    return -newest_first // span


def told_by(what: str, subject_of: Callable[[Row], str]) -> Callable[[Row], Iterator[Breach]]:
    """Tells of a bucket whose row ends with its count, None where it has none, and the truth."""

    def tell(row: Row) -> Iterator[Breach]:
        *bucket, counted, there = row
        if counted is None:
            difference = f"{subject_of(tuple(bucket))}: there are {what}, but no count of them"
        else:
            difference = (
                f"{subject_of(tuple(bucket))}: {counted} {what} are counted, {there} are there"
            )
        yield Breach(f"{what}_miscounted", None, None, difference)

    return tell

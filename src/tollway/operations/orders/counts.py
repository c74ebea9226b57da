"""How many orders of each facet every hour and day has: totals and pages are computed from it."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Protocol

from sqlalchemy import text

from tollway.operations.orders.schema import (
    ALL,
    ALL_BY_DAY,
    DAY_HOURS,
    DAY_MS,
    EVERY_OWNER,
    HOUR_MS,
    facets_of,
    order_count,
    order_version,
)
from tollway.store.database import Transaction
from tollway.store.paging import BucketCounts
from tollway.store.query import Query

Bucket = tuple[str, str, int, int]  # owner, facet, hours, number of the span
Place = tuple[int, int | None, str | None]  # newest first, tag, name of the tag


class Counted(Protocol):
    """The fields of an order that decide where it is counted."""

    @property
    def owner_id(self) -> str: ...
    @property
    def newest_first(self) -> int: ...
    @property
    def remark_tag(self) -> int | None: ...
    @property
    def remark_tag_name(self) -> str | None: ...


place_of = attrgetter("newest_first", "remark_tag", "remark_tag_name")

_COUNTS = BucketCounts(order_count.c.orders, order_version)

# Literals, not parameters: otherwise the planner does not use the partial index.
_OF_DAYS = f"{ALL_BY_DAY} AND bucket >= :first_day AND bucket < :end_day"
_TOTAL_TEXT = f"SELECT sum(orders) FROM order_count WHERE {_OF_DAYS}"  # noqa: S608
# The key begins with the owner and the facet. So the query first finds the owners that have such
# days, by the index of days, and then their facets one by one. The counts of each are then a range
# of the key, and those of all other days are not read.
_FORGET_TEXT = f"""
WITH RECURSIVE its_owner (owner_id, facet) AS MATERIALIZED (
    SELECT DISTINCT owner_id, facet FROM order_count WHERE {_OF_DAYS}
), its_facet (owner_id, facet) AS (
    SELECT owner_id, facet FROM its_owner
    UNION ALL
    SELECT owner_id, (
        SELECT min(later.facet) FROM order_count AS later
        WHERE later.owner_id = its_facet.owner_id AND later.facet > its_facet.facet
    )
    FROM its_facet WHERE facet IS NOT NULL
), span (hours, first_bucket, end_bucket) AS MATERIALIZED (
    SELECT {DAY_HOURS}, CAST(:first_day AS BIGINT), CAST(:end_day AS BIGINT)
    UNION ALL
    SELECT 1, CAST(:first_day AS BIGINT) * {DAY_HOURS}, CAST(:end_day AS BIGINT) * {DAY_HOURS}
)
DELETE FROM order_count WHERE (owner_id, facet, hours, bucket) IN (
    SELECT found.owner_id, found.facet, found.hours, found.bucket
    FROM its_facet CROSS JOIN span CROSS JOIN order_count AS found
    WHERE found.owner_id = its_facet.owner_id AND found.facet = its_facet.facet
    AND found.hours = span.hours
    AND found.bucket >= span.first_bucket AND found.bucket < span.end_bucket
)"""  # noqa: S608
_DAYS_TOTAL, _FORGET_DAYS = Query(lambda: text(_TOTAL_TEXT)), Query(lambda: text(_FORGET_TEXT))


def counted(orders: Iterable[Counted]) -> Counter[Bucket]:
    """How many orders fall into each bucket."""
    # Orders are mostly sorted by owner, so only hours are left to count, in half the time.
    by_owner = groupby(orders, attrgetter("owner_id"))
    return counted_places((owner, list(map(place_of, its))) for owner, its in by_owner)


def counted_places(shops: Iterable[tuple[str, Sequence[Place]]]) -> Counter[Bucket]:
    """The same, given the places of each shop's orders."""
    hours: Counter[tuple[str, str, int]] = Counter()
    for owner, places in shops:
        of_all = Counter([-newest_first // HOUR_MS for newest_first, _, _ in places])
        hours.update({(owner, ALL, hour): count for hour, count in of_all.items()})
        # Few orders have a tag.
        hours.update(
            (owner, facet, -newest_first // HOUR_MS)
            for newest_first, tag, tag_name in places
            if tag is not None or tag_name is not None
            for facet in facets_of(tag, tag_name)
            if facet != ALL
        )
    counts: dict[Bucket, int] = {}
    for (owner, facet, hour), count in hours.items():
        counts[owner, facet, 1, hour] = count
        day = (owner, facet, DAY_HOURS, hour // DAY_HOURS)
        counts[day] = counts.get(day, 0) + count
    return Counter(counts)


async def recount(
    transaction: Transaction, counts: Counter[Bucket], moved: Iterable[str] = ()
) -> None:
    """Changes the counts, and the versions of the owners whose counts change, and of those in
    `moved`, whose lists change only their order."""
    await _COUNTS.change(transaction, counts)
    changed = {bucket[0] for bucket, count in counts.items() if count}
    owners = [(owner,) for owner in changed.union(moved)]
    await _COUNTS.give_versions(transaction, owners)


async def forget_days(transaction: Transaction, start_ms: int, end_ms: int) -> int:
    """Removes the counts of whole days, of every owner; returns how many orders they had."""
    days = {"first_day": start_ms // DAY_MS, "end_day": end_ms // DAY_MS}
    total = await transaction.fetch_one(_DAYS_TOTAL, **days)
    await transaction.execute(_FORGET_DAYS, **days)
    await _COUNTS.give_versions(transaction, [(EVERY_OWNER,)])
    return int(total[0] or 0) if total else 0

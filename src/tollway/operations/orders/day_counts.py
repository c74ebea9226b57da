"""The cached counts of a shop's days and hours, and where a page begins by them."""

from array import array
from typing import NamedTuple

from tollway.operations.orders.counted_hours import (
    SKIPPED_MAX,
    Hours,
    KnownPositions,
    Start,
    start_in,
)
from tollway.operations.orders.schema import HOUR_MS
from tollway.store.paging import RunningCounts

# What entries of the cache take, in units of 16 bytes; the overheads are estimates.
_KEPT_OF_DAY, _KEPT_OF_HOUR, _KEPT_OF_WINDOW = 14, 1, 64
# For how many days of a shop the hours are cached: ten years, so that a caller that asks for pages
# at random seldom waits for hours.
_HOURS_OF_DAYS_MAX = 4000
# How many windows of a shop are cached, each for the pages of one caller.
_WINDOWS_MAX = 16
# Later than any order.
_NOWHERE = 1

# A part of an hour at an end of a window: negated times, the first of which is not in it.
Part = tuple[int, int]


class Window(NamedTuple):
    """The orders of a window: those in hours that are newer than its whole days, those in these
    days, and those in older hours. An hour may be a part of one."""

    newer: Hours
    # The positions of the days.
    days: tuple[int, int]
    older: Hours
    in_newer: int
    before_older: int
    total: int
    # The parts of hours at its ends that are not counted yet, and missing in all of the above.
    to_count: tuple[Part, ...] = ()

    def with_counts(self, counts: tuple[int, int]) -> "Window":
        """The same with the parts that were counted."""
        (newest, _), (oldest, _) = self.to_count
        in_newest, in_oldest = counts
        newer = array("q", (newest, in_newest)) + self.newer
        older = self.older + array("q", (oldest, in_oldest))
        return Window(
            newer,
            self.days,
            older,
            self.in_newer + in_newest,
            self.before_older + in_newest,
            self.total + in_newest + in_oldest,
        )


class DayCounts(RunningCounts):
    """How many orders of one facet the days of a shop have, the newest first."""

    def __init__(self, version: object, days: list[tuple[int, int]]) -> None:
        super().__init__(days)
        self.version = version
        # The hours of the days that were asked for.
        self.hours: dict[int, Hours] = {}
        # The windows that were asked for, by their start and end.
        self.windows: dict[tuple[int, int], Window] = {}
        # For the busy hours in which pages began or ended, by the time after which an hour comes.
        self.marks: dict[int, KnownPositions] = {}
        # The size of what is cached that the cache's total does not include yet.
        self.uncounted = 0

    def keep_hours(self, day: int, hours: Hours) -> None:
        # Drops only the oldest entry, not all: a reader may go through more days than fit.
        self.hours.pop(day, None)
        if len(self.hours) >= _HOURS_OF_DAYS_MAX:
            del self.hours[next(iter(self.hours))]
        self.hours[day] = hours
        self.uncounted += _KEPT_OF_DAY + _KEPT_OF_HOUR * len(hours) // 2

    def keep_window(self, span: tuple[int, int], window: Window) -> None:
        if span not in self.windows:
            if len(self.windows) >= _WINDOWS_MAX:
                del self.windows[next(iter(self.windows))]
            else:
                self.uncounted += _KEPT_OF_WINDOW
        self.windows[span] = window

    def day_of(self, window: Window, offset: int) -> tuple[int, int] | None:
        """The day in which a page begins, and how many of its orders come before; None if the page
        begins in newer or older hours."""
        if window.in_newer <= offset < window.before_older:
            return self.locate(window.days, offset - window.in_newer)
        return None

    def start(self, window: Window, offset: int) -> Start | None:
        """Where a page begins; None if the hours of its day are not cached."""
        total = window.total
        if offset >= total:
            return Start(total, _NOWHERE, 0, 0)
        if offset < window.in_newer:
            return Start(total, *start_in(window.newer, offset))
        if offset >= window.before_older:
            return Start(total, *start_in(window.older, offset - window.before_older))
        day, skip = self.locate(window.days, offset - window.in_newer)
        hours = self.hours.get(day)
        return None if hours is None else Start(total, *start_in(hours, skip))

    def guess(self, window: Window, offset: int) -> "Guess | None":
        """Where a page begins, from the nearest mark in its hour, if it has any."""
        start = self.start(window, offset)
        if start is None:
            return None
        marks = self.marks.get(start.after)
        after, skip = (start.after, start.skip) if marks is None else marks.nearest(start.skip)
        return Guess(self, window, start, after, skip)


class Guess(NamedTuple):
    """Where a page begins if the shop still has the cached version: after the time `after`, which
    is that of its hour or of the nearest mark, and `skip` further orders."""

    known: DayCounts
    window: Window
    start: Start
    after: int
    skip: int
    # False if the window's parts of hours have to be counted before the page can be found.
    is_page: bool = True

    def last_day(self, offset: int, size: int) -> int:
        """A day that the page does not go beyond."""
        day = self.known.day_of(self.window, min(offset + size, self.window.total) - 1)
        return 0 if day is None or self.window.to_count else day[0]

    def is_to_mark(self, size: int) -> bool:
        """Whether the next reader would skip many orders of the hour to reach the beginning or end
        of this page. Past the end of the hour, positions belong to the next one."""
        if self.window.to_count or self.start.after % HOUR_MS:
            # Only whole hours are marked: there may be any number of parts.
            return False
        if self.skip > SKIPPED_MAX:
            return True
        end = self.start.skip + size
        if end <= SKIPPED_MAX or end > self.start.in_hour:
            return False
        marks = self.known.marks.get(self.start.after)
        return marks is None or marks.nearest(end)[1] > SKIPPED_MAX

"""Loops over all records of a list, each once, while others arrive.

A list is sorted newest first, and a page is counted from its top: whenever a record arrives, the
rest moves down, and whenever one leaves, the rest moves up. A loop over page numbers would so
repeat records, or miss some.

- Orders: not page numbers but times. Each request asks for what was confirmed before the last
  order that was read, so what happens above it moves nothing. The millisecond of that order is
  asked for again, because others may share it, and orders that were given are left out.
- Coupon claims: windows of at most 7 days that never change, oldest last. Arrivals move claims
  towards later pages only, where they are left out because their codes were given.

Both compare the totals that the gateway sends. If there are fewer than there must be, a record has
moved to another time while the loop ran: the window is read once more, and what was not given yet
is given then. Of a record that arrives while the loop runs, it is open whether it is given.
"""

import json
import re
from collections.abc import Generator, Sequence
from dataclasses import replace
from datetime import date, datetime
from typing import Any, Callable, Optional, TypeVar, Union

from tollway_client._core import Call, Core, Open, Operation, Outcome, Read, Request, Wait
from tollway_client._json import read
from tollway_client._lines import Page

T = TypeVar("T")
# How often a window is read again whose records moved.
_READ_AGAIN_MAX = 3
_CLAIMS_WINDOW_S = 7 * 86_400
# A fraction of a second is left out: claims are counted by the second.
_WITH_ZONE = re.compile(
    r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d(?::\d\d)?)(?:\.\d{1,9})?(?:Z|([-+]\d\d):?(\d\d))\Z",
    re.ASCII,
)


Pages = Generator[Union[Request, Wait, Open, Read, Page[T]], Outcome, None]


def _unseen(records: Sequence[T], key: Callable[[T], Any], seen: set[Any]) -> list[T]:
    found = []
    for record in records:
        name = key(record)
        if name not in seen:
            seen.add(name)
            found.append(record)
    return found


def order_pages(ask: Callable[..., "Call[Any]"], **filters: Any) -> "Pages[Any]":
    """All orders of a window, newest first. `ask` makes the call of one page."""
    seen: set[str] = set()
    for _ in range(_READ_AGAIN_MAX):
        is_whole = yield from _orders_once(ask, filters, seen)
        if is_whole:
            return


def _orders_once(
    ask: Callable[..., "Call[Any]"], filters: "dict[str, Any]", seen: set[str]
) -> "Generator[Any, Any, bool]":
    """Reads the window once; whether no order left the part that was still to be read."""
    is_whole = True
    end_time = filters["end_time"]
    page, least = 0, 0
    while True:
        answer = yield from ask(**{**filters, "end_time": end_time}, page=page, pageSize=100)
        found, total = answer.content, answer.totalElements
        is_whole = is_whole and total >= least
        if new := _unseen(found, lambda order: order.order_sn, seen):
            yield Page(new)
        if not found or (page + 1) * 100 >= total:
            return is_whole
        newest, oldest = found[0].confirm_time, found[-1].confirm_time
        if newest == oldest:
            # More orders of one millisecond than a page has: only there page numbers are used.
            page, least = page + 1, total
        else:
            least = total - page * 100 - sum(each.confirm_time > oldest for each in found)
            page, end_time = 0, oldest + 1


def claim_pages(
    ask: Callable[..., "Call[Any]"],
    start: Union[int, str, datetime],
    end: Union[int, str, datetime],
    **filters: Any,
) -> "Pages[Any]":
    """All claims of a time as long as you like, newest first."""
    start, end = _counted("startTime", start), _counted("endTime", end)
    seen: set[str] = set()
    # Also if there is nothing between them: the gateway says then what is wrong.
    while True:
        window_start = max(start, end - _CLAIMS_WINDOW_S)
        in_window: set[str] = set()
        for _ in range(_READ_AGAIN_MAX):
            before = len(in_window)
            total = yield from _claims_once(ask, window_start, end, filters, seen, in_window)
            if len(in_window) >= total or len(in_window) == before:
                break
        end = window_start
        if start >= end:
            return


def _counted(name: str, moment: Union[int, str, datetime]) -> int:
    """A time in seconds. Of one without a zone only the gateway knows which time it is."""
    if isinstance(moment, str):
        text = moment.strip()
        if text.isascii() and text.isdigit():
            return int(text)
        moment = _with_zone(text) or moment
    if isinstance(moment, datetime) and moment.tzinfo is not None:
        return int(moment.timestamp())
    # A date is no time, and a text has no zone by now.
    if isinstance(moment, (str, date)):
        raise ValueError(
            f"{name}: send seconds, or a time with its zone as 2026-11-13T08:00:00+08:00, "
            "because the loop divides the time into windows."
        )
    return moment


def _with_zone(text: str) -> Optional[datetime]:
    found = _WITH_ZONE.match(text)
    if found is None:
        return None
    day, clock, hours, minutes = found.groups()
    zone = "+00:00" if hours is None else f"{hours}:{minutes}"
    return datetime.fromisoformat(f"{day}T{clock}{zone}")


def _claims_once(
    ask: Callable[..., "Call[Any]"],
    start: int,
    end: int,
    filters: "dict[str, Any]",
    seen: set[str],
    in_window: set[str],
) -> "Generator[Any, Any, int]":
    """Reads a window once; how many claims it has, by the last answer."""
    page = 1
    while True:
        answer = yield from ask(startTime=start, endTime=end, page=page, limit=1000, **filters)
        in_window.update(claim.couponCode for claim in answer.dataList)
        if new := _unseen(answer.dataList, lambda claim: claim.couponCode, seen):
            yield Page(new)
        if not answer.dataList or page * 1000 >= answer.total:
            return int(answer.total)
        page += 1


def material_pages(ask: Callable[..., "Call[Any]"], **filters: Any) -> "Pages[Any]":
    """All material of a promotion id that is on display."""
    seen: set[Any] = set()
    page = 1
    while True:
        answer = yield from ask(**filters, page_num=page, page_size=10)
        found = answer.affiliate_sc_optimus_promotion_response.result_list.map_data
        if new := _unseen(found, _without_what_is_left, seen):
            yield Page(new)
        if len(found) < 10:
            return
        page += 1


def _without_what_is_left(material: Any) -> str:
    """What stays the same of a material, which has no id, while some of it are claimed."""
    return repr(replace(material, remain_count=0))


def file_pages(
    core: Core, operation: Operation, record: type[T], key: str, **values: Any
) -> "Pages[T]":
    """All records of an export, in the order of its file."""

    def name_of(line: bytes) -> str:
        return str(json.loads(line)[key])

    steps = core.file(operation, values, name_of)
    outcome: Outcome = None
    while True:
        try:
            step = steps.send(outcome)
        except StopIteration:
            return
        if isinstance(step, Page):
            outcome = yield Page([read(record, json.loads(line)) for line in step.records])
        else:
            outcome = yield step

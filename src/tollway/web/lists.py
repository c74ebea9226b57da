"""Lists of rows: one page of a list, and a list as CSV for a spreadsheet."""

import asyncio
import io
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import urlencode

from starlette.responses import Response

from tollway.ledger.csv_rows import CsvWriter
from tollway.web.area import PAGE_ROWS, Context, address
from tollway.web.blocks import Cell, Empty, Field, Table
from tollway.web.wording import exact_time, grouped, plain_number

T = TypeVar("T")
# The query parameter for the first row of a page.
BEGIN = "row"
# More than the number of any entry or act: the list begins with the newest.
AFTER_ALL = 2**62
# The query parameters for the period of a filter.
TIMES = ("since", "until")
_REQUEST_ID = re.compile(r"[0-9a-f]{1,26}")
# The rows of one file; the next file continues with older rows.
CSV_ROWS_MAX = 10_000
CSV_STEP = 1000
_WRITTEN_AT_ONCE = 25
# Without it, Excel reads the file in the machine's code page.
_BYTE_ORDER_MARK = "\ufeff"


def plain_table(
    context: Context,
    titles: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    title: str = "",
    none: str = "",
    command: str = "",
) -> Table:
    """A table that says in `none` why there are no rows, and which command makes one."""
    say = context.say
    empty = Empty(none or say("There is nothing here yet."), command=command)
    return Table([*map(say, titles)], rows, empty, title)


class ListPart(NamedTuple, Generic[T]):
    """One page of a list, with the addresses of the first and the next page, or empty ones."""

    rows: Sequence[T]
    first: str
    next: str


def list_part(
    found: Sequence[T],
    begin: str,
    path: str,
    kept: Mapping[str, str] = MappingProxyType({}),
    most: int = PAGE_ROWS,
) -> ListPart[T]:
    """One page of a list that is usually short, and so was read whole. The page starts at row
    `begin`, or at the first row; `kept` is the rest of the query in its address."""
    start = plain_number(begin, 9) or 0
    end = start + most
    return ListPart(
        found[start:end],
        address(path, **kept) if start else "",
        address(path, **kept, **{BEGIN: str(end)}) if end < len(found) else "",
    )


def page_part(
    found: Sequence[T],
    begin: object,
    path: str,
    position: Callable[[T], object],
    name: str = "after",
    **kept: object,
) -> ListPart[T]:
    """One page of a list that is read page by page, with one row extra to see whether more follow.
    The address of the next page has the position of the last row, under `name`. `begin` is where
    this page begins: nothing for the first, also if the address cannot be read."""
    rows = found[:PAGE_ROWS]
    return ListPart(
        rows,
        address(path, **kept) if begin not in ("", None) else "",
        address(path, **kept, **{name: position(rows[-1])}) if len(found) > PAGE_ROWS else "",
    )


def moment_ms(context: Context, name: str) -> int | None:
    """A time of the filter in the address; without a zone of its own, in that of the pages."""
    try:
        moment = datetime.fromisoformat(context.query(name))
        zone = moment.tzinfo or context.web.zone
        return int(moment.replace(tzinfo=zone).timestamp() * 1000)
    except (OverflowError, OSError, ValueError):
        return None


def moment_problem(context: Context, name: str) -> str:
    if not context.query(name) or moment_ms(context, name) is not None:
        return ""
    return context.say("This is no time: it filters nothing.")


def period_fields(context: Context) -> list[Field]:
    """The period of a filter."""
    say = context.say
    labels = (say("Since"), say("Before"))
    return [
        Field(
            name,
            label,
            "datetime-local",
            context.query(name),
            problem=moment_problem(context, name),
        )
        for name, label in zip(TIMES, labels, strict=True)
    ]


def before_number(context: Context) -> int:
    """The entry or act before which a page or file begins."""
    number = plain_number(context.query("before"))
    return AFTER_ALL if number is None else number


def before_request(context: Context) -> str:
    """The call before which a page or file begins; nothing for the newest."""
    text = context.query("before")
    return text if _REQUEST_ID.fullmatch(text) else ""


async def csv_file(
    context: Context, name: str, columns: Mapping[str, str], found: Sequence[Any], before: str
) -> Response:
    """A CSV file. Each column is a field of the rows, or `at`, their time in readable form. If more
    rows follow, `before` is where the next file begins, and the last line links to it."""
    content = io.StringIO(_BYTE_ORDER_MARK)
    content.seek(0, io.SEEK_END)
    writer = CsvWriter(content)
    writer.write(columns)
    for number, each in enumerate(found):
        if not number % _WRITTEN_AT_ONCE:
            # Calls run in between. A thread would hold them up for longer: it would run Python all
            # the time, and each turn of the event loop would have to wait for it.
            await asyncio.sleep(0)
        at = exact_time(each.at_ms / 1000, context.web.zone)
        writer.write(at if field == "at" else getattr(each, field) for field in columns.values())
    if before:
        url = context.request.url
        query = urlencode({**context.request.query_params, "before": before})
        base = context.services.settings.public_address
        text = context.say(
            "This file ends here, after {count} rows. Older rows: {address}",
            count=grouped(len(found)),
            address=f"{base}{url.path}?{query}",
        )
        writer.write([text])
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(content.getvalue(), media_type="text/csv", headers=headers)

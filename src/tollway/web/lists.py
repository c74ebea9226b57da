"""Lists of rows: one page of a list, and a list as CSV, to be opened with a spreadsheet."""

import io
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import urlencode

from starlette.responses import Response

from tollway.contract.csv_rows import CsvWriter
from tollway.web.area import PAGE_ROWS, Context, address
from tollway.web.wording import exact_time, grouped, plain_number

T = TypeVar("T")
# The row that a page begins with, in its address.
BEGIN = "row"
# More than the number of any entry or act: the list begins with the newest.
AFTER_ALL = 2**62
_REQUEST_ID = re.compile(r"[0-9a-f]{1,26}")
# One file; older rows are in the next, which begins where this one ends.
CSV_ROWS_MAX = 10_000
CSV_STEP = 1000
# Without it, Excel takes the file for one in the code page of the machine.
_BYTE_ORDER_MARK = "\ufeff"


class ListPart(NamedTuple, Generic[T]):
    """Some rows of a list, and the addresses of the first and the next page, where it has them."""

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
    """Of a list that is read whole, because it is short as a rule: the page that begins with this
    row, or the first; `kept` is what else its address has."""
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
    """Of a list that is read page by page, with one row more than a page has: the next page begins
    at the position of the last row, which its address has under this name. `begin` is where this
    one begins: nothing for the first, which an address that cannot be read shows too."""
    rows = found[:PAGE_ROWS]
    return ListPart(
        rows,
        address(path, **kept) if begin not in ("", None) else "",
        address(path, **kept, **{name: position(rows[-1])}) if len(found) > PAGE_ROWS else "",
    )


def before_number(context: Context) -> int:
    """The entry or act before which a page or file begins."""
    number = plain_number(context.query("before"))
    return AFTER_ALL if number is None else number


def before_request(context: Context) -> str:
    """The call before which a page or file begins; nothing for the newest."""
    text = context.query("before")
    return text if _REQUEST_ID.fullmatch(text) else ""


def csv_file(
    context: Context, name: str, columns: Mapping[str, str], found: Sequence[Any], before: str
) -> Response:
    """A file with these columns, each a field of what was found, or `at`, its time as people read
    it; with `before`, what its next one begins before, the last line leads there."""
    content = io.StringIO(_BYTE_ORDER_MARK)
    content.seek(0, io.SEEK_END)
    writer = CsvWriter(content)
    writer.write(columns)
    for each in found:
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

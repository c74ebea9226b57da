"""Lists as CSV, to be opened with a spreadsheet; for operators and callers alike."""

import io
from collections.abc import Sequence
from urllib.parse import urlencode

from starlette.responses import Response

from tollway.contract.csv_rows import CsvWriter
from tollway.ledger.entries import newest_entries
from tollway.web.area import Context
from tollway.web.wording import exact_time, grouped, plain_number

# One file; older rows are in the next, which begins where this one ends.
CSV_ROWS_MAX = 10_000
CSV_STEP = 1000
# Without it, Excel takes the file for one in the code page of the machine.
_BYTE_ORDER_MARK = "\ufeff"


def before_number(context: Context) -> int:
    """The entry or act before which a page or file begins."""
    number = plain_number(context.query("before"))
    return 2**62 if number is None else number


async def ledger_file(context: Context, account_id: str) -> Response:
    """The newest entries of one of an account's balances."""
    unit, before = context.query("unit"), before_number(context)
    rows: list[Sequence[object]] = []
    while len(rows) < CSV_ROWS_MAX:
        entries = await newest_entries(context.database, account_id, unit, CSV_STEP, before)
        rows += [
            (
                each.number,
                exact_time(each.at_ms / 1000, context.web.zone),
                each.kind,
                each.amount,
                each.balance_after,
                each.operation,
                each.request_id,
                each.note or "",
                each.at_ms,
            )
            for each in entries
        ]
        before = entries[-1].number if entries else 0
        if len(entries) < CSV_STEP:
            break
    is_cut = bool(await newest_entries(context.database, account_id, unit, 1, before))
    names = ("entry", "at", "kind", "amount", "balance", "operation", "request_id", "note", "at_ms")
    return csv_file(context, "ledger.csv", names, rows, str(before) if is_cut else "")


def csv_file(
    context: Context, name: str, names: Sequence[str], rows: Sequence[Sequence[object]], before: str
) -> Response:
    """A file; with `before`, what its next one begins before, the last line leads there."""
    content = io.StringIO(_BYTE_ORDER_MARK)
    content.seek(0, io.SEEK_END)
    writer = CsvWriter(content)
    writer.write(names)
    for row in rows:
        writer.write(row)
    if before:
        url = context.request.url
        query = urlencode({**context.request.query_params, "before": before})
        base = context.services.settings.public_address
        text = context.say(
            "This file ends here, after {count} rows. Older rows: {address}",
            count=grouped(len(rows)),
            address=f"{base}{url.path}?{query}",
        )
        writer.write([text])
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(content.getvalue(), media_type="text/csv", headers=headers)

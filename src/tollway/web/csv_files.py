"""Lists as CSV, to be opened with a spreadsheet; for operators and callers alike."""

import io
from collections.abc import Iterable, Sequence

from starlette.responses import Response

from tollway.contract.csv_rows import CsvWriter
from tollway.ledger.entries import newest_entries
from tollway.web.area import Context
from tollway.web.wording import exact_time

# One file; older rows are in the next, which begins where this one ends.
CSV_ROWS_MAX = 10_000
CSV_STEP = 1000


def before_number(context: Context) -> int:
    """The entry before which a page or file begins."""
    text = context.query("before")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 2**62


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
            )
            for each in entries
        ]
        if len(entries) < CSV_STEP:
            break
        before = entries[-1].number
    names = ("entry", "at", "kind", "amount", "balance", "operation", "request_id", "note")
    return csv_file("ledger.csv", names, rows)


def csv_file(name: str, names: Sequence[str], rows: Iterable[Sequence[object]]) -> Response:
    content = io.StringIO()
    writer = CsvWriter(content)
    writer.write(names)
    for row in rows:
        writer.write(row)
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(content.getvalue(), media_type="text/csv", headers=headers)
